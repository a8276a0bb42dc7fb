// The topics of the cluster.
import { bytes, element, number, poll, text, visible } from "./live.js";
import { List, findByKey } from "./rows.js";

const find = document.getElementById("find");
const internal = document.getElementById("internal");
let topics = [];

function fill(cells, topic, row) {
  if (!row.link) {
    row.link = element("a");
    row.link.append((row.name = element("bdi")));
    cells.topic.append(row.link);
  }
  row.link.href = `/console/topics/${encodeURIComponent(topic.topic)}`;
  row.name.textContent = visible(topic.topic);
  cells.count.textContent = number(topic.partitions);
  cells.replicas.textContent = number(topic.replicas);
  const bad = topic.leaderless ? "leaderless" : topic.under_replicated ? "under_replicated" : "";
  cells.health.textContent = bad ? text(`health.${bad}`, { n: number(topic[bad]) }) : text("health.good");
  cells.health.classList.toggle("awaited", Boolean(bad));
  cells.bytes.textContent = bytes(topic.bytes);
}

const rows = new List("topics", ["topic", "count", "replicas", "health", "bytes"], fill);

function arrange() {
  const wanted = find.value.trim().toLowerCase();
  const shown = topics.filter((t) => (internal.checked || !t.internal) && (!wanted || t.topic.toLowerCase().includes(wanted)));
  document.getElementById("counts").textContent = text("groups.count", { shown: number(shown.length), all: number(topics.length) });
  rows.show(shown);
}

poll("/api/topics", (document_) => {
  topics = document_;
  arrange();
});
find.addEventListener("input", arrange);
internal.addEventListener("change", arrange);
findByKey(find);
