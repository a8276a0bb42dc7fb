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
import { Drawing, HEAD, LANE, PALETTE_SIZE, spanText, timeText } from "./timeline_drawing.js";
import { button, element, rebalanceTable, rebalanceWords, whyOf } from "./timeline_words.js";

const LEAST_SPAN_MS = 20, MOST_HEIGHT = 560, LEGEND_SHOWN = 24, FILTER_FROM = 16, RECENT = 8, LEAST_RECENT_MS = 6e5;

export function mountTimeline(root, options) { return (root.timeline = new TimelineView(root, options)); }

class TimelineView {
  constructor(root, { timeline, texts, language = "en", onMoment = () => {} }) {
    Object.assign(this, { root, texts, language, onMoment, model: new TimelineModel(timeline), selected: -1, byMember: false,
      drag: null, highlighted: -1, isTable: false, filter: "", explanation: null, skewMs: 0, queued: false });
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
    this.selected = -1;
    this.fit();
    this.recent();
    if (moment === null) this.refresh(); else this.show(moment);
  }

  explain(explanation) {
    this.skewMs = explanation.now_ms - Date.now();
    this.explanation = { ...explanation, heardMs: Date.now() };
    this.model.isOfStreams = explanation.members.some(({ active }) => active?.length);
    this.now.hidden = false;
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
    this.root.setAttribute("role", "group");
    this.root.setAttribute("aria-label", this.t("title", { group: this.model.group }));
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
    this.clock = element("strong");
    this.now = element("p", "timeline-now", this.clock);
    this.now.hidden = true;
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
    [this.tip, this.cursor] = [element("div", "timeline-tip"), element("div", "timeline-cursor")];
    this.tip.hidden = this.cursor.hidden = true;
    this.legend = element("div", "timeline-legend");
    this.details = element("div", "timeline-details");
    this.details.setAttribute("aria-live", "polite");
    this.table = element("div", "timeline-table");
    this.table.tabIndex = 0;
    this.table.setAttribute("role", "region");
    this.table.setAttribute("aria-label", t("table"));
    this.probes = element("div", "timeline-probes");
    this.probes.setAttribute("aria-hidden", "true");
    for (const name of [...Array(PALETTE_SIZE).keys()].map((n) => `owner-${n}`).concat(PROBED)) this.probes.append(element("i", name));
    this.root.replaceChildren(tools, this.now, element("div", "timeline-frame", this.plot, this.cursor, this.tip), this.legend, this.details,
      this.table, this.keys, this.probes);
  }

  watch() {
    const { plot, canvas } = this;
    plot.addEventListener("scroll", () => this.queue());
    plot.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", (event) => this.release(event));
    canvas.addEventListener("pointercancel", () => { this.drag = null; this.point(null); });
    canvas.addEventListener("pointerleave", () => this.point(null));
    canvas.addEventListener("dblclick", () => { this.zoom(4); });
    plot.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    new ResizeObserver(() => this.queue()).observe(this.root);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolour());
    new MutationObserver(() => this.recolour()).observe(document.documentElement, { attributes: true });
    if (this.model.isLive) this.timer = setInterval(() => this.root.isConnected ? this.tick() : clearInterval(this.timer), 1000);
  }

  // What changes without an event: the running clock, and the time that is now.
  tick() {
    const { explanation } = this;
    if (explanation !== null) {
      const state = this.t(`state.${explanation.state}`), since = explanation.in_state_ms;
      const lasting = since === null ? "" : spanText(since + Date.now() - explanation.heardMs);
      this.clock.textContent = `${state === `state.${explanation.state}` ? explanation.state : state} ${lasting}`.trim();
    }
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
    const { model } = this, all = this.byMember ? model.owners.map((_, owner) => owner) : model.order ?? [];
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
    const owners = model.names?.of.slice(0, LEGEND_SHOWN).map((name, owner) => {
      const chip = button(name, () => { this.highlighted = this.highlighted === owner ? -1 : owner; this.refresh(); });
      chip.prepend(element("i", `swatch owner-${owner % PALETTE_SIZE} pattern-${Math.floor(owner / PALETTE_SIZE) % 4}`));
      chip.setAttribute("aria-pressed", String(this.highlighted === owner));
      chip.title = model.owners[owner].slice(0, 300);
      return chip;
    }) ?? [];
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

  // -- pointer and keys ----------------------------------------------------------------------------------------------------------

  at(event) {
    const box = this.canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    return { x: Math.min(Math.max(x, this.drawing.left ?? 0), this.drawing.right ?? x), y };
  }

  press(event) {
    if (event.button !== 0) return;
    this.plot.focus({ preventScroll: true });
    const { x } = this.at(event);
    this.drag = [x, x];
    if (event.pointerType !== "touch") this.canvas.setPointerCapture(event.pointerId);
  }

  move(event) {
    const { x, y } = this.at(event);
    if (this.drag !== null) this.drag[1] = x;
    this.point(x);
    this.tell(x, y);
  }

  // The line below the pointer, or the time that is dragged over.
  point(x) {
    this.cursor.hidden = x === null;
    if (x === null) { this.tip.hidden = true; return; }
    const [left, right] = this.drag === null ? [x, x + 1] : [Math.min(...this.drag), Math.max(...this.drag) + 1];
    Object.assign(this.cursor.style, { left: `${left}px`, width: `${right - left}px`, height: `${this.height - 18}px` });
  }

  release(event) {
    const drag = this.drag;
    this.drag = null;
    if (drag === null) return;
    const [left, right] = [Math.min(...drag), Math.max(...drag)].map((x) => this.drawing.ms(x));
    if (Math.abs(drag[1] - drag[0]) > 5) this.range(left, Math.max(right, left + LEAST_SPAN_MS));
    else {
      const nearest = this.nearest(this.at(event).x);
      if (nearest >= 0) this.select(nearest); else { this.selected = -1; this.changed(); }
    }
  }

  // The rebalance at that point of the canvas, or within some pixels of it; -1 for none.
  nearest(x) {
    const before = this.model.rebalancesUntil(this.drawing.ms(x + 6)) - 1, rebalance = this.model.rebalances[before];
    return rebalance !== undefined && this.drawing.x(rebalance.until ?? this.nowMs) >= x - 6 ? before : -1;
  }

  tell(x, y) {
    const { model } = this, ms = this.drawing.ms(x), row = this.shown[Math.floor((y - HEAD + this.plot.scrollTop) / LANE)];
    const lines = [`${timeText(ms)} UTC · +${spanText(Math.max(ms - model.beginMs, 0))}`];
    if (y >= HEAD && row !== undefined && ms <= this.nowMs) lines.push(this.byMember ? this.shareText(row, ms) : this.laneText(row, ms));
    const rebalance = model.rebalances[this.nearest(x)];
    if (rebalance !== undefined) lines.push(`${this.t("rebalance")} ${rebalance.generation}: ${whyOf(this, rebalance)}`);
    if (y < HEAD) for (const [at, text] of model.moments) if (Math.abs(this.drawing.x(at) - x) < 6) lines.push(text);
    this.tip.replaceChildren(...lines.map((line) => element("div", "", line.slice(0, 400))));
    this.tip.hidden = false;
    const width = this.root.clientWidth, below = y + 22;
    this.tip.style.left = `${Math.max(Math.min(x + 14, width - this.tip.offsetWidth - 4), 0)}px`;
    this.tip.style.top = `${below}px`;
  }

  laneText(lane, ms) {
    const { model } = this, name = model.laneName(lane), gap = model.gapAt(lane, ms), owner = model.ownerAt(lane, ms);
    if (gap !== null) {
      const lasting = spanText((gap.until ?? this.nowMs) - gap.since);
      return `${name}: ${this.t(ms < gap.detected ? "dead_for" : "unowned_for", { span: lasting })}`;
    }
    return `${name}: ${owner < 0 ? this.t("nobody") : model.names.of[owner]}`;
  }

  shareText(owner, ms) {
    const share = this.model.sharesOfOwners()[owner].filter(([at]) => at <= ms).at(-1);
    return `${this.model.names.of[owner]}: ${this.t("owns", { count: share === undefined ? 0 : share[1] })}`;
  }

  wheel(event) {
    const by = Math.abs(event.deltaX) > Math.abs(event.deltaY) ? event.deltaX : event.shiftKey ? event.deltaY : 0;
    if (event.ctrlKey) this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.drawing.ms(this.at(event).x));
    else if (by !== 0) this.pan(by / 800);
    else return;
    event.preventDefault();
  }

  pan(share) {
    const by = (this.to - this.from) * share;
    this.range(this.from + by, this.to + by);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = {
      ArrowLeft: () => event.shiftKey ? this.pan(-0.25) : this.step(-1), ArrowRight: () => event.shiftKey ? this.pan(0.25) : this.step(1),
      Home: () => this.select(0), End: () => this.select(this.model.rebalances.length - 1),
      "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2),
      0: () => { this.fit(); this.changed(); }, Escape: () => { this.selected = -1; this.fit(); this.changed(); },
      Enter: () => this.zoomTo(), m: () => this.by.click(), t: () => this.tableButton.click(),
    }[event.key];
    if (act === undefined) return;
    event.preventDefault();
    act();
  }

  zoomTo() {
    if (this.selected < 0) return;
    const { from, until } = this.model.rebalances[this.selected], span = Math.max((until ?? this.nowMs) - from, LEAST_SPAN_MS);
    this.range(from - span, from + 2 * span);
  }
}

const PROBED = ["ink", "paper", "faint", "line", "empty", "unowned-ink", "dead", "phase-0", "phase-1"];

// The colours in force, as the style sheet has them for light and dark.
function coloursOf(probes, context) {
  const colours = { owners: [], font: `12px ${getComputedStyle(probes).fontFamily}` };
  for (const probe of probes.children) {
    const fill = getComputedStyle(probe).backgroundColor, name = probe.className;
    if (name.startsWith("owner-")) colours.owners.push({ fill, text: isLight(fill) ? "#000" : "#fff" }); else colours[name] = fill;
  }
  colours.phases = [colours["phase-0"], colours["phase-1"]];
  const lines = (draw, colour) => {
    const tile = Object.assign(document.createElement("canvas"), { width: 8, height: 8 }), drawn = tile.getContext("2d");
    drawn.strokeStyle = drawn.fillStyle = colour;
    drawn.lineWidth = 1.6;
    drawn.beginPath();
    draw(drawn);
    drawn.stroke();
    return context.createPattern(tile, "repeat");
  };
  const slope = (tile) => { for (const x of [-8, 0, 8]) { tile.moveTo(x, 8); tile.lineTo(x + 8, 0); } };
  colours.unowned = lines(slope, colours["unowned-ink"]);
  colours.patterns = [null, lines((tile) => { for (const x of [0, 8, 16]) { tile.moveTo(x, 8); tile.lineTo(x - 8, 0); } }, colours.paper),
    lines((tile) => tile.fillRect(2, 2, 3, 3), colours.paper), lines((tile) => { tile.moveTo(0, 4); tile.lineTo(8, 4); }, colours.paper)];
  return colours;
}

function isLight(colour) {
  const [red, green, blue] = colour.match(/\d+/g).map((part) => (Number(part) / 255) ** 2.2);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18;
}
