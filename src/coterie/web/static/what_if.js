// What if: a restart of the group's members, predicted under its settings and others, beside what was seen.
import { element, language, number, refusal, sentence, tableRow, text, texts, time, visible } from "./live.js";
import { mountTimeline } from "./timeline.js";

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
  const words = shown(lowest) === shown(highest) ? shown(mean) : text("what_if.spread", { mean: shown(mean), lowest: shown(lowest), highest: shown(highest) });
  cell.append(bar, element("span", "words", words));
  return cell;
}

const FIGURES = [["rebalances", 0], ["unowned_s", 1], ["longest_unowned_s", 1], ["moved", 0], ["duplicates", 0]];

/** What was seen, in the measures of a prediction. */
function seen(was) {
  const exactly = (value) => ({ mean: value, lowest: value, highest: value });
  return { rebalances: exactly(was.rebalances), unowned_s: exactly(was.unowned_s), moved: exactly(was.moved) };
}

/** Two timelines of equal length, side by side: the group's last rebalances, and the deploy under the chosen setting. */
const chosen = document.getElementById("what-if-chosen");
let shown = null;

function draw() {
  const { was, timelines } = shown, timeline = timelines[chosen.value];
  const mounted = (id, of) => {
    const root = document.getElementById(id);
    if (root.timeline === undefined) mountTimeline(root, { timeline: of, texts, language });
    else root.timeline.replace(of);
    return root.timeline;
  };
  mounted("what-if-timeline", timeline);
  document.getElementById("what-if-was").hidden = was === null;
  if (was === null) return;
  const span = timeline.end_ms - timeline.begin_ms;
  const last = was.timeline.rebalances.at(-1)?.phases.at(-1)[2] ?? was.timeline.end_ms, to = Math.ceil(last + span / 10);
  mounted("what-if-past", { ...was.timeline, end_ms: to }).show(`${to - span}-${to}`);
}
chosen.addEventListener("change", draw);

function show(prediction) {
  const { was, setting_phrases: settings = [], assumed_phrases: phrases = [] } = prediction, ofWas = was === null ? null : seen(was);
  const rows = was === null ? prediction.costs : [...prediction.costs, ofWas];
  const most = Object.fromEntries(FIGURES.map(([name]) => [name, Math.max(...rows.map((row) => row[name]?.mean ?? 0))]));
  const name = (row) => {
    if (row === ofWas) return text("what_if.seen", { time: time(was.since_ms) });
    const setting = sentence(row.setting, settings[rows.indexOf(row)]);
    return row.change ? setting : text("what_if.today", { setting });
  };
  shown = prediction;
  chosen.replaceChildren(...prediction.costs.map((cost, index) => new Option(visible(name(cost)), index)));
  document.querySelector("#what-if-table tbody").replaceChildren(...rows.map((row) =>
    tableRow(visible(name(row)), ...FIGURES.map(([figure, decimals]) => row[figure] ? spread(row[figure], most[figure], decimals) : "–"))));
  document.getElementById("what-if-result").hidden = false;
  draw();
  answer.textContent = visible(sentence(prediction.recommendation, prediction.recommendation_phrase), 2000);
  const assumed = prediction.assumed.map((words, index) => sentence(words, phrases[index])).join(texts["timeline.and"]);
  document.getElementById("what-if-assumed").textContent = assumed && text("what_if.assumed", { words: visible(assumed, 3000) });
}

export function offerPrediction() {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const fields = form.elements;
    const wanted = { pause_ms: fields.pause.valueAsNumber * 1000, gap_ms: fields.gap.valueAsNumber * 1000, kill: fields.kill.checked, only_one: fields.one.value === "one" };
    fields.go.disabled = true;
    answer.textContent = text("what_if.running");
    try {
      const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(wanted) };
      const result = await (await fetch(`${api}/predict`, options)).json();
      if (result.error) answer.textContent = refusal(result);
      else show(result);
    } catch {
      answer.textContent = text("live.away");
    }
    fields.go.disabled = false;
  });
}
