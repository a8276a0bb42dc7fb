// The list of groups: kept current by events, found and sorted here.
import { ago, element, listen, number, text, texts, time, visible } from "./live.js";
import { List, findByKey } from "./rows.js";
import { causeText } from "./timeline_causes.js";
import { shortNames } from "./timeline_model.js";

const find = document.getElementById("find");
const sort = document.getElementById("sort");
const counts = document.getElementById("counts");
const none = document.getElementById("none");

const { short } = shortNames([]);
const groups = new Map(); // name -> row
const COLUMNS = ["group", "state", "members", "generation", "lag", "course", "rebalance"];
const MARKS = ["lost", "waits", "stalls", "flaps"];

const byName = (a, b) => (a.group < b.group ? -1 : a.group > b.group ? 1 : 0);
const most = (value) => (a, b) => value(b) - value(a) || byName(a, b);
const ORDERS = {
  mark: most((row) => row.marks.length && 9 - MARKS.indexOf(MARKS.find((mark) => row.marks.includes(mark)))),
  group: byName,
  state: (a, b) => (a.state < b.state ? -1 : a.state > b.state ? 1 : byName(a, b)),
  members: most((row) => row.members ?? -1),
  lag: most((row) => row.lag ?? -1),
  rebalance: most((row) => row.rebalance_ms ?? 0),
};

/** The parts of a row, once. */
function furnish(row) {
  row.link = element("a");
  row.link.append((row.name = element("bdi")));
  row.marks = element("span", "marks");
  row.cells.group.append(row.link, row.marks);
  row.state = element("span", "state");
  row.kind = element("span", "kind");
  row.cells.state.append(row.state, row.kind);
  row.cells.course.append((row.chart = sparkline()));
  row.at = element("span", "at");
  row.why = element("bdi", "why");
  row.cells.rebalance.append(row.at, " ", row.why);
}

/** The causes of a group's last rebalance. */
function whyIn({ causes, more_causes: more }) {
  const words = causes.map((cause) => causeText(cause, texts, short)).join(text("timeline.and"));
  return more ? `${words} ${text("timeline.more", { count: number(more) })}` : words;
}

/** A kind that has a text, or the protocol type of a group of another kind. */
function kindText(kind) {
  const name = `kind.${kind}`, known = text(name);
  return known === name ? visible(kind) : known;
}

function fill(cells, group, row) {
  if (!row.link) furnish(row);
  row.at.textContent = group.rebalance_ms === null ? "–" : ago(group.rebalance_ms);
  if (row.group === group) return;
  if (row.group?.group !== group.group) {
    row.link.href = `/console/groups/${encodeURIComponent(group.group)}`;
    row.name.textContent = visible(group.group);
  }
  row.group = group;
  row.marks.replaceChildren(...group.marks.map((mark) => element("span", `mark ${mark}`, text(`mark.${mark}`))));
  row.state.textContent = group.state;
  row.state.dataset.state = group.state;
  row.kind.textContent = kindText(group.kind);
  cells.members.textContent = number(group.members);
  cells.generation.textContent = number(group.generation);
  cells.lag.textContent = number(group.lag);
  drawCourse(row.chart, group.course);
  row.at.title = group.rebalance_ms === null ? "" : time(group.rebalance_ms);
  row.why.textContent = visible(whyIn(group));
}

const SVG = "http://www.w3.org/2000/svg";

function sparkline() {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 90 24");
  svg.setAttribute("aria-hidden", "true");
  svg.append(document.createElementNS(SVG, "polyline"));
  return svg;
}

function drawCourse(svg, lags) {
  const course = lags.length === 1 ? [lags[0], lags[0]] : lags; // level
  const highest = Math.max(...course, 1);
  const step = course.length > 1 ? 86 / (course.length - 1) : 0;
  const points = course.map((lag, n) => `${(2 + n * step).toFixed(1)},${(22 - (lag / highest) * 20).toFixed(1)}`);
  svg.firstChild.setAttribute("points", points.join(" "));
}

const rows = new List("groups", COLUMNS, fill);

function arrange() {
  const wanted = find.value.trim().toLowerCase();
  const shown = [...groups.values()].filter((row) => !wanted || row.group.toLowerCase().includes(wanted));
  shown.sort(ORDERS[sort.value]);
  counts.textContent = text("groups.count", { shown: number(shown.length), all: number(groups.size) });
  rows.show(shown);
}

listen("/api/events", {
  rows(change) {
    if (change.reset) groups.clear();
    for (const name of change.removed) groups.delete(name);
    for (const row of change.rows) groups.set(row.group, row);
    none.hidden = groups.size > 0;
    arrange();
  },
});
/** Another order, or others: from the first one. */
function rearrange() {
  rows.rows.scroll.scrollTop = 0;
  arrange();
}
find.addEventListener("input", rearrange);
sort.addEventListener("change", rearrange);
setInterval(() => rows.draw(), 1000); // "3 s ago" grows

findByKey(find);
