// The brokers of the cluster, and of one in whose process the console is its clients.
import { bytes, number, poll, tableRow, text, visible } from "./live.js";

let before = null;

function disk(folders) {
  if (folders === null) return "–";
  const used = folders.reduce((sum, folder) => sum + folder.bytes, 0);
  const free = folders.map((folder) => folder.usable_bytes);
  const errors = folders.filter((folder) => folder.error).map((folder) => `${folder.path}: ${folder.error}`);
  const words = free.includes(null) || !free.length ? bytes(used)
    : text("brokers.disk", { used: bytes(used), free: bytes(free.reduce((a, b) => a + b, 0)) });
  return visible([words, ...errors].join("; "));
}

poll("/api/brokers", (cluster) => {
  const controller = cluster.controller ?? "–";
  document.getElementById("facts").textContent = text("brokers.facts", { id: visible(cluster.cluster_id), controller });
  document.querySelector("#brokers tbody").replaceChildren(...cluster.brokers.map((b) =>
    tableRow(b.id, visible(b.address), visible(b.rack ?? "–"), number(b.leaders), number(b.replicas), number(b.out_of_sync), disk(b.folders))));
  document.getElementById("own").hidden = cluster.own === null;
  document.getElementById("no-figures").hidden = cluster.own !== null;
  if (cluster.own === null) return;
  const own = cluster.own;
  const now = performance.now();
  const rate = before === null ? null : Math.round(((own.appended - before.appended) / (now - before.at)) * 1000);
  before = { appended: own.appended, at: now };
  const figures = { connections: number(own.connections), memory: bytes(own.memory_bytes), rate: number(rate) };
  document.getElementById("figures").textContent = text("brokers.figures", figures);
  document.querySelector("#clients tbody").replaceChildren(...own.clients.map((client) =>
    tableRow(visible(client.software || "–"), visible(client.client_id || "–"), number(client.connections))));
});
