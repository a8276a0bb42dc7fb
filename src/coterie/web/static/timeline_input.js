// What a reader does with a timeline: the pointer, which shows, selects and zooms, the wheel, and the keys.

import { HEAD, LANE, spanText, timeText } from "./timeline_drawing.js";
import { element, laneText, shareText, whyOf } from "./timeline_words.js";

export const LEAST_SPAN_MS = 20;

export class TimelineInput {
  constructor(view) {
    Object.assign(this, { view, drag: null, tip: element("div", "timeline-tip"), cursor: element("div", "timeline-cursor") });
    this.tip.hidden = this.cursor.hidden = true;
  }

  watch() {
    const { plot, canvas } = this.view;
    plot.addEventListener("keydown", (event) => this.key(event));
    plot.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", (event) => this.release(event));
    canvas.addEventListener("pointercancel", () => { this.drag = null; this.point(null); });
    canvas.addEventListener("pointerleave", () => this.point(null));
    canvas.addEventListener("dblclick", () => { this.view.zoom(4); });
  }

  at(event) {
    const box = this.view.canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    return { x: Math.min(Math.max(x, this.view.drawing.left ?? 0), this.view.drawing.right ?? x), y };
  }

  press(event) {
    if (event.button !== 0) return;
    this.view.plot.focus({ preventScroll: true });
    const { x } = this.at(event);
    this.drag = [x, x];
    if (event.pointerType !== "touch") this.view.canvas.setPointerCapture(event.pointerId);
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
    Object.assign(this.cursor.style, { left: `${left}px`, width: `${right - left}px`, height: `${this.view.height - 18}px` });
  }

  release(event) {
    const drag = this.drag;
    this.drag = null;
    if (drag === null) return;
    const [left, right] = [Math.min(...drag), Math.max(...drag)].map((x) => this.view.drawing.ms(x));
    if (Math.abs(drag[1] - drag[0]) > 5) this.view.range(left, Math.max(right, left + LEAST_SPAN_MS));
    else {
      const nearest = this.nearest(this.at(event).x);
      if (nearest >= 0) this.view.select(nearest); else { this.view.selected = -1; this.view.changed(); }
    }
  }

  // The rebalance at that point of the canvas, or within some pixels of it; -1 for none.
  nearest(x) {
    const before = this.view.model.rebalancesUntil(this.view.drawing.ms(x + 6)) - 1, rebalance = this.view.model.rebalances[before];
    return rebalance !== undefined && this.view.drawing.x(rebalance.until ?? this.view.nowMs) >= x - 6 ? before : -1;
  }

  // What is at that point, beside it.
  tell(x, y) {
    const { model } = this.view, ms = this.view.drawing.ms(x), row = this.view.shown[Math.floor((y - HEAD + this.view.plot.scrollTop) / LANE)];
    const lines = [`${timeText(ms)} UTC · +${spanText(Math.max(ms - model.beginMs, 0))}`];
    if (y >= HEAD && row !== undefined && ms <= this.view.nowMs) lines.push(this.view.byMember ? shareText(this.view, row, ms) : `${model.laneName(row)}: ${laneText(this.view, row, ms)}`);
    const rebalance = model.rebalances[this.nearest(x)];
    if (rebalance !== undefined) lines.push(`${this.view.t("rebalance")} ${rebalance.generation}: ${whyOf(this.view, rebalance)}`);
    if (y < HEAD) for (const [at, text] of model.moments) if (Math.abs(this.view.drawing.x(at) - x) < 6) lines.push(text);
    this.tip.replaceChildren(...lines.map((line) => element("div", "", line.slice(0, 400))));
    this.tip.hidden = false;
    const width = this.view.root.clientWidth, below = y + 22;
    this.tip.style.left = `${Math.max(Math.min(x + 14, width - this.tip.offsetWidth - 4), 0)}px`;
    this.tip.style.top = `${below}px`;
  }

  wheel(event) {
    const by = Math.abs(event.deltaX) > Math.abs(event.deltaY) ? event.deltaX : event.shiftKey ? event.deltaY : 0;
    if (event.ctrlKey) this.view.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.view.drawing.ms(this.at(event).x));
    else if (by !== 0) this.view.pan(by / 800);
    else return;
    event.preventDefault();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = {
      ArrowLeft: () => event.shiftKey ? this.view.pan(-0.25) : this.view.step(-1), ArrowRight: () => event.shiftKey ? this.view.pan(0.25) : this.view.step(1),
      Home: () => this.view.select(0), End: () => this.view.select(this.view.model.rebalances.length - 1),
      "+": () => this.view.zoom(0.5), "=": () => this.view.zoom(0.5), "-": () => this.view.zoom(2),
      0: () => { this.view.fit(); this.view.changed(); }, Escape: () => { this.view.selected = -1; this.view.fit(); this.view.changed(); },
      Enter: () => this.view.zoomTo(), m: () => this.view.by.click(), t: () => this.view.tableButton.click(),
    }[event.key];
    if (act === undefined) return;
    event.preventDefault();
    act();
  }
}
