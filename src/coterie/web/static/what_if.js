// What if: a rolling restart of the group, predicted under its settings and others, beside what was seen.
import { element, number, tableRow, text, time, visible } from "./live.js";

const form = document.getElementById("what-if");
const answer = document.getElementById("what-if-answer");
const api = document.querySelector("[data-api]").dataset.api;

/** A mean with its range, and a bar of its share of the highest. */
function spread({ mean, lowest, highest }, most, decimals) {
  const shown = (value) => number(Number(value.toFixed(decimals)));
  const cell = element("span", "spread");
  const bar = element("span", "gauge");
  const fill = element("span", "fill");
  fill.style.transform = `scaleX(${most ? mean / most : 0})`;
  bar.append(fill);
  const words = lowest === highest ? shown(mean) : text("what_if.spread", { mean: shown(mean), lowest: shown(lowest), highest: shown(highest) });
  cell.append(bar, element("span", "words", words));
  return cell;
}

const FIGURES = [["rebalances", 0], ["unowned_s", 1], ["longest_unowned_s", 1], ["moved", 0], ["duplicates", 0]];

/** What the lines of the journal show, in the measures of a prediction. */
function seen(lines, partitions) {
  const ends = lines.filter((line) => ["stable", "empty", "epoch_raised"].includes(line.event));
  if (!ends.length) return null;
  const sum = (field) => lines.reduce((total, line) => total + (line[field] ?? 0), 0);
  const exactly = (value) => ({ mean: value, lowest: value, highest: value });
  return {
    since: lines[0].time_ms,
    rebalances: exactly(ends.length),
    unowned_s: exactly(sum("unowned_ms") / 1000 / Math.max(partitions, 1)),
    moved: exactly(sum("moved_count")),
  };
}

function show(prediction, lines) {
  const was = seen(lines, prediction.partitions);
  const rows = was === null ? [...prediction.costs] : [...prediction.costs, was];
  const most = Object.fromEntries(FIGURES.map(([name]) => [name, Math.max(...rows.map((row) => row[name]?.mean ?? 0))]));
  const name = (row) => {
    if (row === was) return text("what_if.seen", { time: time(was.since) });
    return row.change ? row.setting : text("what_if.today", { setting: row.setting });
  };
  document.querySelector("#what-if-table tbody").replaceChildren(...rows.map((row) =>
    tableRow(visible(name(row)), ...FIGURES.map(([figure, decimals]) => row[figure] ? spread(row[figure], most[figure], decimals) : "–"))));
  document.getElementById("what-if-result").hidden = false;
  answer.textContent = visible(prediction.recommendation, 2000);
  document.getElementById("what-if-assumed").textContent =
    prediction.assumed.length ? text("what_if.assumed", { words: visible(prediction.assumed.join("; "), 3000) }) : "";
}

/** `linesOf()`: the lines of the journal that the page has. */
export function offerPrediction(linesOf) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const fields = form.elements;
    const wanted = { pause_ms: fields.pause.valueAsNumber * 1000, gap_ms: fields.gap.valueAsNumber * 1000, kill: fields.kill.checked };
    fields.go.disabled = true;
    answer.textContent = text("what_if.running");
    try {
      const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(wanted) };
      const result = await (await fetch(`${api}/predict`, options)).json();
      if (result.error) answer.textContent = visible(result.error, 1000);
      else show(result, linesOf());
    } catch {
      answer.textContent = text("live.away");
    }
    fields.go.disabled = false;
  });
}
