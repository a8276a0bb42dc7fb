// One topic: its partitions and settings, and its records by offset or time.
import { bytes, element, number, poll, read, tableRow, text, time, visible } from "./live.js";
import { List } from "./rows.js";

const root = document.getElementById("topic");
const form = document.getElementById("read");
const defaults = document.getElementById("defaults");
const SHOWN = 400; // characters of a payload before it is opened
let settings = [];
let range = null;

function fill(cells, partition) {
  cells.partition.textContent = partition.partition;
  cells.leader.textContent = partition.leader ?? text("health.none");
  cells.replicas.textContent = partition.replicas.join(", ");
  cells.isr.textContent = partition.isr.join(", ");
  const isBad = partition.leader === null || partition.isr.length < partition.replicas.length;
  cells.isr.classList.toggle("awaited", isBad);
  cells.start.textContent = number(partition.start);
  cells.end.textContent = number(partition.end);
  cells.bytes.textContent = bytes(partition.bytes);
}

const rows = new List("replicas", ["partition", "leader", "replicas", "isr", "start", "end", "bytes"], fill);

function showSettings() {
  const shown = settings.filter((setting) => defaults.checked || !setting.is_default);
  const cells = shown.map((s) => tableRow(s.name, visible(s.value ?? "–", 1000), s.source));
  if (!cells.length) cells.push(tableRow(text("topic.no_settings"), "", ""));
  document.querySelector("#settings tbody").replaceChildren(...cells);
}

poll(root.dataset.api, (topic) => {
  const facts = { partitions: number(topic.partitions), replicas: number(topic.replicas), bytes: bytes(topic.bytes) };
  document.getElementById("facts").textContent = text("topic.facts", facts);
  const select = form.elements.partition;
  for (let n = select.options.length; n < topic.rows.length; n++) select.append(new Option(n, n));
  rows.show(topic.rows);
  settings = topic.settings;
  showSettings();
  if (range === null && topic.rows.length) readRecords({});
});
defaults.addEventListener("change", showSettings);

/** A payload with its kind; a long one opens. */
function payloadCell(payload) {
  const cell = element("div", "payload");
  const words = payload.kind === "null" ? text("payload.null") : visible(payload.text, SHOWN);
  const kind = payload.schema === null ? text(`payload.${payload.kind}`) : text("payload.schema", { kind: text(`payload.${payload.kind}`), id: payload.schema });
  const head = element("span", "kind", `${kind}, ${bytes(payload.size)}`);
  if (payload.problem) cell.append(element("p", "awaited", visible(payload.problem)));
  if (payload.kind === "null" || (payload.text.length <= SHOWN && !payload.text.includes("\n"))) {
    cell.append(element("code", "", words), " ", head);
    return cell;
  }
  const details = element("details");
  const summary = element("summary");
  summary.append(element("code", "", visible(payload.text.replace(/\s+/g, " "), 100)), " ", head);
  const whole = element("pre", "", payload.text.split("\n").map((row) => visible(row, 100000)).join("\n"));
  details.append(summary, whole);
  if (payload.is_cut) details.append(element("p", "quiet", text("payload.cut")));
  cell.append(details);
  return cell;
}

function headersCell(headers) {
  const list = element("dl");
  for (const [name, payload] of headers) {
    list.append(element("dt", "", visible(name)));
    const value = element("dd");
    value.append(payloadCell(payload));
    list.append(value);
  }
  return list;
}

async function readRecords(from) {
  const fields = form.elements;
  const query = new URLSearchParams({ partition: fields.partition.value || "0", count: fields.count.value, ...from });
  range ??= {};
  const found = await read(`${root.dataset.api}/records?${query}`);
  if (found === null) return;
  range = { ...found, until: found.records.length ? found.records.at(-1).offset + 1 : found.from };
  const cells = found.records.map((r) =>
    tableRow(number(r.offset), time(r.time_ms), payloadCell(r.key), payloadCell(r.value), headersCell(r.headers)));
  document.querySelector("#records tbody").replaceChildren(...cells);
  const words = { start: number(found.start), end: number(found.end), shown: number(cells.length) };
  document.getElementById("range").textContent = text("topic.range", words);
}

function wanted() {
  const { by, offset, time: at } = form.elements;
  if (by.value === "offset") return { offset: offset.value || "0" };
  if (by.value === "time" && at.value) return { time_ms: new Date(at.value).getTime() };
  return {};
}

form.addEventListener("change", () => {
  for (const label of form.querySelectorAll("[data-by]")) label.hidden = label.dataset.by !== form.elements.by.value;
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  readRecords(wanted());
});
document.getElementById("older").addEventListener("click", () => {
  readRecords({ offset: Math.max(range.from - Number(form.elements.count.value), range.start) });
});
document.getElementById("newer").addEventListener("click", () => readRecords({ offset: range.until }));
