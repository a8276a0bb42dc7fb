// A group's timeline: who owned each partition when, when it was unowned, and each rebalance with its phases and causes.
// One component for the live page and for reports, in which `console/timeline_page.py` inlines it (timeline_still.js starts it).
//
//     import { mountTimeline } from "./timeline.js";
//     const timeline = mountTimeline(element, { timeline: document, texts, language, onMoment });
//     timeline.append(changes)        what JournalTimeline.changes has
//     timeline.replace(document)      after a new connection
//     timeline.explain(explanation)   the document of `groups why --json`, with now_ms, the server's time
//     timeline.show(moment)           a moment of the page's address: a text that onMoment was given
//
// texts: name -> text of one language, of texts.json, those that begin with `timeline.`. onMoment(text) is called when the reader changes what is shown.
//
// The document (Timeline.document in coterie/coordinator/journal/timeline.py, where the words are defined). Times are in ms since
// 1970; lanes and owners are meant by their positions; a time that lasts has no end: null.
//
//     version, group, begin_ms, end_ms, is_live, is_whole (false: not every owner is known)
//     lanes       [[topic, partition], ...]
//     owners      [member id or group.instance.id, ...]
//     owned       [[lane, owner, from, until], ...]              of each lane in order
//     unowned     [[ranges, since, detected, until], ...]        ranges: first lane, last lane, first, last, ...
//     waiting     [[ranges, since], ...]                         what is unowned now
//     rebalances  [{generation, event, phases: [[state, from, until], ...], causes: [{kind, who, verb, reason, rule}, ...], why,
//                   members, moved, unowned, unowned_ms, undetected_ms}, ...]   in order; what is unknown is left out
//     moments     [[ms, text], ...]                              what else happened
//
// Changes have the same lists: of owned and rebalances [position, item], of waiting all, of the others what is appended.
// Every text of it comes from outside and goes in by textContent, or onto the canvas.

import { TimelineModel } from "./timeline_model.js";
import { Drawing, HEAD, LANE, PALETTE_SIZE } from "./timeline_drawing.js";
import { button, element, rebalanceTable, rebalanceWords } from "./timeline_words.js";
import { colourProbes, coloursOf } from "./timeline_colours.js";
import { LEAST_SPAN_MS, TimelineInput } from "./timeline_input.js";

const MOST_HEIGHT = 560, LEGEND_SHOWN = 24, FILTER_FROM = 16, RECENT = 8, LEAST_RECENT_MS = 6e5;

export function mountTimeline(root, options) { return (root.timeline = new TimelineView(root, options)); }

class TimelineView {
  constructor(root, { timeline, texts, language = "en", onMoment = () => {} }) {
    Object.assign(this, { root, texts, language, onMoment, model: new TimelineModel(timeline), selected: -1, byMember: false,
      highlighted: -1, isTable: false, filter: "", skewMs: 0, queued: false });
    this.input = new TimelineInput(this);
    this.build();
    this.drawing = new Drawing(this.canvas, this.model);
    this.fit();
    this.recent();
    this.watch();
    this.refresh();
  }

  t(name, values = {}) {
    const text = this.texts[`timeline.${name}`] ?? name;
    return text.replace(/\{(\w+)\}/g, (_, key) => String(values[key] ?? ""));
  }

  get nowMs() { return this.model.isLive ? Math.max(Date.now() + this.skewMs, this.model.endMs) : this.model.endMs; }

  // -- what the page calls -------------------------------------------------------------------------------------------------

  append(changes) {
    const isFirst = this.model.isEmpty;
    this.model.append(changes);
    if (isFirst && !this.model.isEmpty) this.fit(); else this.follow();
    this.refresh();
  }

  // After a new connection: who looks at a moment goes on looking at it.
  replace(document) {
    const moment = this.follows && this.selected < 0 || this.model.isEmpty ? null : this.moment;
    this.model.replace(document);
    this.selected = this.highlighted = -1;
    this.legendKey = null; // as many owners may be others
    this.fit();
    this.recent();
    if (moment === null) this.refresh(); else this.show(moment);
  }

  explain(explanation) {
    this.skewMs = explanation.now_ms - Date.now();
    this.model.isOfStreams = explanation.members.some(({ active }) => active?.length);
    this.tick();
  }

  show(moment) {
    const [, from, to, at, members] = /^(\d+)-(\d+)(?:-at(\d+))?(-members)?$/.exec(moment) ?? [];
    if (from === undefined || Number(to) <= Number(from)) return;
    [this.from, this.to, this.isWhole] = [Number(from), Number(to), false];
    this.follows = this.to >= this.nowMs;
    this.byMember = members !== undefined;
    this.selected = at === undefined ? -1 : this.model.rebalances.findIndex((rebalance) => rebalance.from === Number(at));
    this.refresh();
  }

  get moment() {
    const at = this.selected < 0 ? "" : `-at${this.model.rebalances[this.selected].from}`;
    return `${Math.floor(this.from)}-${Math.ceil(this.to)}${at}${this.byMember ? "-members" : ""}`;
  }

  // -- the elements ----------------------------------------------------------------------------------------------------------

  build() {
    const t = (name) => this.t(name);
    this.root.classList.add("timeline");
    this.root.lang = this.language;
    this.by = button(t("by_member"), () => { this.byMember = !this.byMember; this.changed(); });
    this.tableButton = button(t("table"), () => { this.isTable = !this.isTable; this.refresh(); });
    this.find = element("input", "timeline-find");
    Object.assign(this.find, { type: "search", placeholder: t("find"), ariaLabel: t("find") });
    this.find.addEventListener("input", () => { this.filter = this.find.value; this.refresh(); });
    const tools = element("div", "timeline-tools",
      button("◀", () => this.step(-1), t("previous")), button("▶", () => this.step(1), t("next")),
      button("−", () => this.zoom(2), t("zoom_out")), button("+", () => this.zoom(0.5), t("zoom_in")),
      button(t("whole"), () => { this.fit(); this.changed(); }, t("whole_long")),
      this.by, this.tableButton, button(t("picture"), () => this.save(), t("picture_long")), this.find);
    this.canvas = element("canvas");
    this.canvas.setAttribute("aria-hidden", "true");
    this.spacer = element("div", "timeline-spacer");
    this.plot = element("div", "timeline-plot", this.canvas, this.spacer);
    this.plot.tabIndex = 0;
    this.plot.setAttribute("role", "group");
    this.plot.setAttribute("aria-label", this.t("title", { group: this.model.group }));
    this.keys = element("p", "timeline-keys", t("keys"));
    this.keys.id = `timeline-keys-${Math.random().toString(36).slice(2)}`;
    this.plot.setAttribute("aria-describedby", this.keys.id);
    this.legend = element("div", "timeline-legend");
    this.details = element("div", "timeline-details");
    this.details.setAttribute("aria-live", "polite");
    this.table = element("div", "timeline-table");
    this.table.tabIndex = 0;
    this.table.setAttribute("role", "region");
    this.table.setAttribute("aria-label", t("table"));
    this.probes = colourProbes();
    const { cursor, tip } = this.input;
    this.root.replaceChildren(tools, element("div", "timeline-frame", this.plot, cursor, tip), this.legend, this.details, this.table, this.keys, this.probes);
  }

  watch() {
    this.input.watch();
    this.plot.addEventListener("scroll", () => this.queue());
    new ResizeObserver(() => this.queue()).observe(this.root);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolour());
    new MutationObserver(() => this.recolour()).observe(document.documentElement, { attributes: true });
    if (this.model.isLive) this.timer = setInterval(() => this.root.isConnected ? this.tick() : clearInterval(this.timer), 1000);
  }

  // What changes without an event: the time that is now.
  tick() {
    this.follow();
    this.queue();
  }

  // -- what is shown -----------------------------------------------------------------------------------------------------------

  fit() {
    const span = Math.max(this.nowMs - this.model.beginMs, 1000);
    [this.from, this.to] = [this.model.beginMs - span * 0.01, this.nowMs + span * 0.01];
    this.isWhole = this.follows = true;
  }

  // A live page begins with the last rebalances.
  recent() {
    const { model, nowMs } = this, from = Math.min(model.rebalances.at(-RECENT)?.from ?? nowMs, nowMs - LEAST_RECENT_MS);
    if (!model.isLive || model.isEmpty || from <= model.beginMs) return;
    [this.from, this.to, this.isWhole] = [from, nowMs + (nowMs - from) * 0.01, false];
  }

  // The time that is now stays in sight, where it was.
  follow() {
    if (!this.model.isLive || !this.follows) return;
    if (this.isWhole) { this.fit(); return; }
    const by = Math.max(this.nowMs - this.to, 0);
    [this.from, this.to] = [this.from + by, this.to + by];
  }

  zoom(factor, around = (this.from + this.to) / 2) {
    const span = Math.max((this.to - this.from) * factor, LEAST_SPAN_MS), share = (around - this.from) / (this.to - this.from);
    this.range(around - span * share, around + span * (1 - share));
  }

  range(from, to) {
    const whole = Math.max(this.nowMs - this.model.beginMs, 1000) * 1.02;
    if (to - from >= whole) { this.fit(); this.changed(); return; }
    const middle = Math.min(Math.max((from + to) / 2, this.model.beginMs), this.nowMs), half = (to - from) / 2;
    [this.from, this.to] = [middle - half, middle + half];
    this.isWhole = false;
    this.follows = this.to >= this.nowMs;
    this.changed();
  }

  pan(share) {
    const by = (this.to - this.from) * share;
    this.range(this.from + by, this.to + by);
  }

  zoomTo() {
    if (this.selected < 0) return;
    const { from, until } = this.model.rebalances[this.selected], span = Math.max((until ?? this.nowMs) - from, LEAST_SPAN_MS);
    this.range(from - span, from + 2 * span);
  }

  step(by) {
    const { rebalances } = this.model;
    if (rebalances.length === 0) return;
    const middle = (this.from + this.to) / 2, before = this.model.rebalancesUntil(middle);
    const next = this.selected >= 0 ? this.selected + by : by > 0 ? before : before - 1;
    this.select(this.selected < 0 && this.isWhole ? (by > 0 ? 0 : rebalances.length - 1) : next);
  }

  select(index) {
    const { rebalances } = this.model;
    this.selected = Math.min(Math.max(index, 0), rebalances.length - 1);
    if (this.selected < 0) return;
    const { from, until } = rebalances[this.selected], end = until ?? this.nowMs, span = this.to - this.from;
    if (from < this.from || end > this.to) {
      const wanted = Math.max(span, (end - from) * 1.5);
      this.range((from + end - wanted) / 2, (from + end + wanted) / 2);
    } else this.changed();
  }

  changed() {
    this.refresh();
    this.onMoment(this.moment);
  }

  rows() {
    const { model } = this, all = this.byMember ? model.owners.map((_, owner) => owner) : model.order;
    const name = (row) => this.byMember ? model.owners[row] : model.laneName(row);
    return this.filter === "" ? all : all.filter((row) => name(row).toLowerCase().includes(this.filter.toLowerCase()));
  }

  // -- drawing -----------------------------------------------------------------------------------------------------------------

  refresh() {
    const { model } = this;
    this.by.setAttribute("aria-pressed", String(this.byMember));
    this.tableButton.setAttribute("aria-pressed", String(this.isTable));
    this.find.hidden = Math.max(model.lanes.length, model.owners.length) < FILTER_FROM;
    this.shown = this.rows();
    const height = HEAD + Math.max(this.shown.length, 1) * LANE + 4;
    this.height = Math.min(height, MOST_HEIGHT);
    this.plot.style.height = `${this.height}px`;
    this.spacer.style.height = `${height - this.height}px`;
    this.legendOf(model);
    this.details.replaceChildren(...rebalanceWords(this));
    this.table.hidden = !this.isTable;
    this.table.replaceChildren(...(this.isTable ? [rebalanceTable(this)] : []));
    this.queue();
  }

  legendOf(model) {
    const isOfConsumers = model.rebalances.at(-1)?.phases[0][0] === "Assigning"; // KIP-848
    const key = `${model.owners.length} ${this.highlighted} ${model.isWhole} ${isOfConsumers}`;
    if (this.legendKey === key) return;
    this.legendKey = key;
    const owners = model.names.of.slice(0, LEGEND_SHOWN).map((name, owner) => {
      const chip = button(name, () => { this.highlighted = this.highlighted === owner ? -1 : owner; this.refresh(); });
      chip.prepend(element("i", `swatch owner-${owner % PALETTE_SIZE} pattern-${Math.floor(owner / PALETTE_SIZE) % 4}`));
      chip.setAttribute("aria-pressed", String(this.highlighted === owner));
      chip.title = model.owners[owner].slice(0, 300);
      return chip;
    });
    const more = model.owners.length - owners.length;
    const kinds = ["unowned", "dead", "phase-0", "phase-1"].map((name) => {
      const text = this.t(isOfConsumers && name.startsWith("phase") ? `consumer-${name}` : name);
      return element("span", "", element("i", `swatch ${name}`), text);
    });
    this.legend.replaceChildren(...owners, ...(more > 0 ? [element("span", "", this.t("more", { count: more }))] : []), ...kinds,
      ...(model.isWhole ? [] : [element("span", "", this.t("not_whole"))]));
  }

  recolour() {
    this.colours = null;
    this.queue();
  }

  queue() {
    if (this.queued) return;
    this.queued = true;
    requestAnimationFrame(() => { this.queued = false; this.paint(); });
  }

  paint() {
    const width = this.plot.clientWidth;
    if (width === 0) return;
    this.colours ??= coloursOf(this.probes, this.drawing.context);
    const names = this.shown.slice(0, 200).map((row) => this.byMember ? this.model.names.of[row] : this.model.laneName(row));
    this.drawing.context.font = this.colours.font;
    const longest = Math.max(...names.map((name) => this.drawing.context.measureText(name.slice(-40)).width), 60);
    if (this.byMember) this.model.sharesOfOwners();
    this.drawing.draw({
      from: this.from, to: this.to, left: Math.min(longest + 18, width * 0.3), width, height: this.height, scroll: this.plot.scrollTop,
      rows: this.shown, byMember: this.byMember, selected: this.selected, highlighted: this.highlighted, nowMs: this.nowMs, most: this.model.most,
    }, this.colours);
  }

  save() {
    this.canvas.toBlob((blob) => {
      const link = element("a");
      Object.assign(link, { href: URL.createObjectURL(blob), download: "timeline.png" });
      link.click();
      URL.revokeObjectURL(link.href);
    });
  }
}
