// A rebalance in words, and the rebalances that are shown as a table: what a reader without the picture has.

import { causeText } from "./timeline_causes.js";
import { spanText, timeText } from "./timeline_drawing.js";

const MOVES_SHOWN = 8, ROWS_SHOWN = 200;

export function element(tag, css = "", ...content) {
  const made = document.createElement(tag);
  if (css !== "") made.className = css;
  made.append(...content);
  return made;
}

export function button(text, act, title = "") {
  const made = element("button", "", text);
  made.type = "button";
  if (title !== "") Object.assign(made, { title, ariaLabel: title });
  made.addEventListener("click", act);
  return made;
}

// The causes in the reader's language; without one the line's own words.
export function whyOf(view, { causes, why }) {
  const { short } = view.model.names;
  if (causes.length === 0) return why ? short(why) : view.t("cause_unknown");
  return causes.map((cause) => causeText(cause, view.texts, short)).join(view.t("and"));
}

// What a lane shows at that time, and what an owner has.
export function laneText(view, lane, ms) {
  const gap = view.model.gapAt(lane, ms);
  if (gap === null) return ownerName(view, view.model.ownerAt(lane, ms));
  return view.t(ms < gap.detected ? "dead_for" : "unowned_for", { span: spanText((gap.until ?? view.nowMs) - gap.since) });
}

const ownerName = (view, owner) => owner < 0 ? view.t("nobody") : view.model.names.of[owner];
const dayAndTime = (ms) => `${timeText(ms, 864e5)} ${timeText(ms)}`;

export function shareText(view, owner, ms) {
  const share = view.model.sharesOfOwners()[owner].filter(({ from }) => from <= ms).at(-1);
  return `${view.model.names.of[owner]}: ${view.t("owns", { count: share?.count ?? 0 })}`;
}

// A reader who selects nothing sees why the group paused last.
function lastInWords(view) {
  const last = view.model.rebalances.at(-1);
  if (last === undefined) return [];
  const span = last.until === null ? view.t("under_way") : lasting(view, last);
  return [element("p", "", view.t("last", { span, why: whyOf(view, last).replace(/\.$/, "") }))]; // Kafka's reasons may end with one
}

const lasting = (view, { from, until }) => spanText((until ?? view.nowMs) - from) + (until === null ? ` ${view.t("so_far")}` : "");

export function rebalanceWords(view) {
  const { model, selected } = view, rebalance = model.rebalances[selected];
  if (rebalance === undefined) {
    const counts = { rebalances: model.rebalances.length, members: model.owners.length, partitions: model.lanes.length };
    return [element("p", "", view.t("summary", counts), " ", view.t("hint")), ...lastInWords(view)];
  }
  const title = view.t("selected", { number: selected + 1, count: model.rebalances.length, generation: rebalance.generation });
  const terms = [[view.t("why"), whyOf(view, rebalance)],
    [view.t("when"), `${dayAndTime(rebalance.from)} UTC`],
    [view.t("took"), lasting(view, rebalance)]];
  for (const [state, from, until] of rebalance.phases) {
    terms.push([view.t(`state.${state}`), `${spanText((until ?? view.nowMs) - from)}: ${view.t(`phase.${state}`)}`]);
  }
  if (rebalance.members !== undefined) terms.push([view.t("members"), String(rebalance.members)]);
  if (rebalance.unowned_ms !== undefined) {
    const undetected = rebalance.undetected_ms ? view.t("of_it_undetected", { span: spanText(rebalance.undetected_ms) }) : "";
    terms.push([view.t("unowned_time"), view.t("summed", { span: spanText(rebalance.unowned_ms) }) + undetected]);
  }
  const moves = rebalance.until === null ? [] : model.moves(rebalance);
  const texts = [...Map.groupBy(moves, ({ from, to }) => `${ownerName(view, from)} → ${ownerName(view, to)}`)].map(([who, of]) => {
    const lanes = of.slice(0, MOVES_SHOWN).map(({ lane }) => model.laneName(lane)).join(", ");
    return `${who}: ${lanes}${of.length > MOVES_SHOWN ? ` ${view.t("more", { count: of.length - MOVES_SHOWN })}` : ""}`;
  });
  terms.push([view.t("moved"), [rebalance.moved ?? moves.length, ...texts.slice(0, MOVES_SHOWN)].join(" · ")]);
  const list = element("dl", "", ...terms.flatMap(([term, text]) => [element("dt", "", term), element("dd", "", text)]));
  return [element("h3", "", title), list];
}

export function rebalanceTable(view) {
  const { model } = view, headers = ["when", "generation", "members", "took", "moved", "unowned_time", "why"].map((name) => view.t(name));
  const shown = model.rebalances.filter(({ from, until }) => from <= view.to && (until ?? view.nowMs) >= view.from);
  const rows = shown.slice(-ROWS_SHOWN).map((rebalance) => [
    dayAndTime(rebalance.from), rebalance.generation, rebalance.members ?? "–",
    spanText((rebalance.until ?? view.nowMs) - rebalance.from), rebalance.moved ?? "–",
    rebalance.unowned_ms === undefined ? "–" : spanText(rebalance.unowned_ms), whyOf(view, rebalance)]);
  const line = (cells, tag) => element("tr", "", ...cells.map((cell) => element(tag, "", String(cell))));
  const parts = [element("caption", "", view.t("rebalances_shown", { shown: rows.length, count: shown.length })),
    element("thead", "", line(headers, "th")), element("tbody", "", ...rows.map((row) => line(row, "td")))];
  const now = view.selected >= 0 ? model.rebalances[view.selected].until ?? view.nowMs : view.nowMs;
  const owned = model.order.slice(0, ROWS_SHOWN).map((lane) => [model.laneName(lane), laneText(view, lane, now)]);
  const owners = element("table", "", element("caption", "", view.t("owners_at", { time: `${timeText(now)} UTC` })),
    element("thead", "", line([view.t("partition"), view.t("owner")], "th")), element("tbody", "", ...owned.map((row) => line(row, "td"))));
  return element("div", "", element("table", "", ...parts), owners);
}
