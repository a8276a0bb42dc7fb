// Changes: planned by the server, shown, and done only once the reader says so.
import { element, refusal, tableRow, text, visible } from "./live.js";

const name = decodeURIComponent(document.querySelector("[data-api]").dataset.api.split("/").at(-1));
const dialog = document.getElementById("change");
const problem = document.getElementById("change-problem");
const doIt = document.getElementById("change-do");
let wanted = null;

async function send(step, change) {
  const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(change) };
  try {
    const response = await fetch(`/api/changes/${step}`, options);
    return await response.json();
  } catch {
    return { error: text("live.away") };
  }
}

function show(table, isDone) {
  problem.hidden = !table.error;
  problem.textContent = refusal(table);
  const headers = (table.headers ?? []).map((header) => {
    const cell = element("th", "", text(`change.column.${header}`));
    cell.scope = "col";
    return cell;
  });
  dialog.querySelector("thead tr").replaceChildren(...headers);
  const cells = (row) => row.map((cell) => (cell === null ? "–" : visible(String(cell))));
  dialog.querySelector("tbody").replaceChildren(...(table.rows ?? []).map((row) => tableRow(...cells(row))));
  document.getElementById("change-words").textContent = table.error ? "" : text(isDone ? "change.done" : "change.asks");
  doIt.hidden = isDone || Boolean(table.error);
  document.getElementById("change-cancel").textContent = text(doIt.hidden ? "change.close" : "change.cancel");
}

function read(form) {
  const fields = form.elements;
  const kind = form.dataset.change;
  if (kind === "delete_group") return { kind, group: name };
  if (kind === "produce") {
    const partition = fields.partition.value === "" ? null : Number(fields.partition.value);
    return { kind, topic: name, partition, key: fields.key.value || null, value: fields.value.value };
  }
  const change = { kind, group: name, to: fields.to.value };
  if (change.to === "offset") change.to = fields.offset.value;
  if (change.to === "time") change.time_ms = new Date(fields.time.value).getTime();
  return change;
}

for (const form of document.querySelectorAll("[data-change]")) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    wanted = read(form);
    document.getElementById("change-title").textContent = text(`change.${form.dataset.change}`);
    show(await send("plan", wanted), false);
    if (!dialog.open) dialog.showModal();
  });
  form.addEventListener("change", () => {
    for (const label of form.querySelectorAll("[data-by]")) label.hidden = label.dataset.by !== form.elements.to.value;
  });
}
doIt.addEventListener("click", async () => show(await send("work", wanted), true));
document.getElementById("change-cancel").addEventListener("click", () => dialog.close());
