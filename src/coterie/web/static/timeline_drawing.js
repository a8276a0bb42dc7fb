// Draws a timeline on a canvas: only the lanes that are seen, and nothing that a pixel already has.

export const HEAD = 46, LANE = 20;
const HEIGHT = LANE - 2; // of a bar
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5,
  108e5, 216e5, 432e5, 864e5, 1728e5, 6048e5, 12096e5, 2592e6, 7776e6, 31536e6];
const DAY = 864e5;
export const PALETTE_SIZE = 11;

export function timeText(ms, stepMs = 1) {
  const iso = new Date(ms).toISOString();
  if (stepMs >= DAY) return iso.slice(0, 10);
  if (stepMs >= 6e4) return ms % DAY === 0 ? iso.slice(5, 10) : iso.slice(11, 16);
  return stepMs >= 1e3 ? iso.slice(11, 19) : iso.slice(11, 23);
}

export function spanText(ms) {
  if (ms < 1e3) return `${Math.round(ms)} ms`;
  if (ms < 6e4) return `${(ms / 1e3).toFixed(1)} s`;
  if (ms < 36e5) return `${Math.floor(ms / 6e4)} min ${Math.round((ms % 6e4) / 1e3)} s`;
  return ms < DAY ? `${Math.floor(ms / 36e5)} h ${Math.round((ms % 36e5) / 6e4)} min` : `${(ms / DAY).toFixed(1)} d`;
}

// view: {from, to, left, width, height, scroll, rows, byMember, selected, highlighted, nowMs, most}
export class Drawing {
  constructor(canvas, model) {
    this.canvas = canvas;
    this.model = model;
    this.context = canvas.getContext("2d");
  }

  x(ms) { return this.left + (this.right - this.left) * (ms - this.from) / (this.to - this.from); }

  ms(x) { return this.from + (this.to - this.from) * (x - this.left) / (this.right - this.left); }

  draw(view, colours) {
    const { context, canvas } = this, scale = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(view.width * scale) || canvas.height !== Math.round(view.height * scale)) {
      canvas.width = Math.round(view.width * scale);
      canvas.height = Math.round(view.height * scale);
      canvas.style.width = `${view.width}px`;
      canvas.style.height = `${view.height}px`;
    }
    Object.assign(this, { from: view.from, to: view.to, left: view.left, right: view.width - 12, view, colours });
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.fillStyle = colours.paper;
    context.fillRect(0, 0, view.width, view.height);
    context.textBaseline = "middle";
    context.font = colours.font;
    context.save();
    context.beginPath();
    context.rect(0, HEAD, view.width, view.height - HEAD);
    context.clip();
    const first = Math.floor(view.scroll / LANE);
    for (let row = first; row < view.rows.length && HEAD + row * LANE - view.scroll < view.height; row++) {
      const top = HEAD + row * LANE - view.scroll;
      if (view.byMember) this.member(view.rows[row], top); else this.lane(view.rows[row], top);
    }
    context.restore();
    this.bands();
    this.axis();
    this.moments();
  }

  // A row without its bars.
  row(name, top) {
    const { context, view, colours } = this;
    context.fillStyle = colours.ink;
    context.textAlign = "right";
    context.fillText(this.fitted(name, view.left - 16, true), view.left - 8, top + LANE / 2);
    context.fillStyle = colours.empty;
    context.fillRect(view.left, top, this.right - view.left, HEIGHT);
  }

  // The text in so much width; of a partition's name the end says which one it is.
  fitted(text, width, keepsEnd = false) {
    if (text.length > 300) text = keepsEnd ? "…" + text.slice(-300) : text.slice(0, 300) + "…";
    const measured = (part) => this.context.measureText(part).width;
    if (measured(text) <= width) return text;
    let low = 0, high = text.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (measured(keepsEnd ? "…" + text.slice(-middle) : text.slice(0, middle) + "…") <= width) low = middle; else high = middle - 1;
    }
    return low === 0 ? "" : keepsEnd ? "…" + text.slice(-low) : text.slice(0, low) + "…";
  }

  bar(owner, left, right, top, height, text) {
    const { context, colours, view } = this, colour = colours.owners[owner % PALETTE_SIZE];
    const width = Math.max(right - left, 1);
    context.globalAlpha = view.highlighted >= 0 && view.highlighted !== owner ? 0.2 : 1;
    context.fillStyle = colour.fill;
    context.fillRect(left, top, width, height);
    const pattern = colours.patterns[Math.floor(owner / PALETTE_SIZE) % colours.patterns.length];
    if (pattern !== null && width >= 3) {
      context.fillStyle = pattern;
      context.fillRect(left, top, width, height);
    }
    context.globalAlpha = 1;
    const shownLeft = Math.max(left, view.left), shownWidth = Math.min(right, this.right) - shownLeft;
    if (text !== "" && shownWidth > 34) {
      const name = this.fitted(text, shownWidth - 8);
      if (name === text || name.length > 4) {
        context.textAlign = "left";
        context.fillStyle = colour.fill;
        if (pattern !== null) context.fillRect(shownLeft + 2, top, context.measureText(name).width + 4, height);
        context.fillStyle = colour.text;
        context.fillText(name, shownLeft + 4, top + height / 2 + 0.5);
      }
    }
  }

  // The bars of a row, in order: {from, until, ...}, until null while it lasts.
  bars(items, first, draw) {
    const { view } = this;
    let reached = view.left;
    for (let index = first; index < items.length && items[index].from <= view.to; index++) {
      const { from, until } = items[index];
      const left = Math.max(this.x(from), view.left), right = Math.min(this.x(until ?? view.nowMs), this.right);
      if (right < view.left || right < reached + 0.5 && reached > view.left) continue; // a pixel has it already
      draw(items[index], left, right);
      reached = Math.max(left + 1, right);
    }
  }

  lane(lane, top) {
    const { model, view } = this;
    this.row(model.laneName(lane), top);
    this.bars(model.spells[lane] ?? [], model.firstSpell(lane, view.from), ({ owner }, left, right) => {
      this.bar(owner, left, right, top, HEIGHT, model.names.of[owner]);
    });
    this.gaps(lane, top);
  }

  gaps(lane, top) {
    const { context, model, colours, view } = this, gaps = model.gaps(lane);
    let reached = -1;
    for (let index = model.firstGap(lane, view.from); index < gaps.length; index++) {
      const { since, detected, until } = gaps[index];
      if (since > view.to) break;
      const left = Math.max(this.x(since), view.left), noticed = Math.min(Math.max(this.x(detected), left), this.right);
      const right = Math.min(this.x(until ?? view.nowMs), this.right);
      if (right < view.left || right < reached) continue;
      if (right - left < 1) { // shorter than a pixel: a notch, so that the owner's colour stays
        if (Math.floor(left) < reached) continue;
        context.fillStyle = colours.dead;
        context.fillRect(Math.floor(left), top + HEIGHT - 5, 1, 5);
        reached = Math.floor(left) + 1;
        continue;
      }
      context.fillStyle = colours.dead;
      context.fillRect(left, top, noticed - left, HEIGHT);
      for (const fill of [colours.paper, colours.unowned]) {
        context.fillStyle = fill;
        context.fillRect(noticed, top, right - noticed, HEIGHT);
      }
      reached = right;
    }
  }

  member(owner, top) {
    const { model, view } = this;
    this.row(model.names.of[owner], top);
    this.bars(model.sharesOfOwners()[owner].filter(({ count }) => count > 0), 0, ({ count }, left, right) => {
      const share = Math.max(Math.round(HEIGHT * count / view.most), 2);
      this.bar(owner, left, right, top + HEIGHT - share, share, share >= 12 ? String(count) : "");
    });
  }

  bands() {
    const { context, model, colours, view } = this;
    let reached = -1, labelled = -1;
    const isSparse = model.rebalancesUntil(view.to) - model.rebalancesUntil(view.from) < (this.right - view.left) / 12;
    for (let index = Math.max(model.rebalancesUntil(view.from) - 1, 0); index < model.rebalances.length; index++) {
      const rebalance = model.rebalances[index];
      if (rebalance.from > view.to) break;
      const until = rebalance.until ?? view.nowMs;
      const left = Math.max(this.x(rebalance.from), view.left), right = Math.max(Math.min(this.x(until), this.right), left + 1);
      const isThin = right - left <= 1;
      if (this.x(until) < view.left || (isThin && Math.floor(left) < reached && index !== view.selected)) continue;
      for (const [number, [, from, end]] of rebalance.phases.entries()) {
        const begin = Math.max(this.x(from), view.left), stop = Math.min(this.x(end ?? view.nowMs), this.right);
        context.fillStyle = colours.phases[Math.min(number, 1)];
        context.fillRect(begin, 24, Math.max(stop - begin, 1), 8);
        if (!isSparse && right - left < 3) continue; // they would hide the lanes
        context.globalAlpha = right - left > 2 ? 0.16 : 0.5;
        context.fillRect(begin, 34, Math.max(stop - begin, 1), view.height - 34);
        context.globalAlpha = 1;
      }
      if (index === view.selected) {
        context.strokeStyle = colours.ink;
        context.lineWidth = 2;
        context.strokeRect(left - 1, 23, right - left + 2, view.height - 25);
      }
      const text = String(rebalance.generation), width = context.measureText(text).width;
      if (left - 2 > labelled && left + width < this.right) {
        context.fillStyle = colours.ink;
        context.textAlign = "left";
        context.fillText(text, left, 40);
        labelled = left + width + 4;
      }
      reached = isThin ? Math.floor(left) + 1 : right;
    }
  }

  axis() {
    const { context, colours, view } = this;
    const wanted = (this.to - this.from) / Math.max((this.right - view.left) / 96, 1);
    const step = STEPS.find((candidate) => candidate >= wanted) ?? STEPS.at(-1);
    context.textAlign = "center";
    context.strokeStyle = colours.line;
    context.lineWidth = 1;
    for (let ms = Math.ceil(this.from / step) * step; ms <= this.to; ms += step) {
      const x = Math.round(this.x(ms)) + 0.5, text = timeText(ms, step), half = context.measureText(text).width / 2;
      context.beginPath();
      context.moveTo(x, 16);
      context.lineTo(x, 21);
      context.stroke();
      if (x - half < view.left - 4 || x + half > view.width) continue;
      context.fillStyle = colours.faint;
      context.fillText(text, x, 8);
    }
    context.textAlign = "right";
    context.fillStyle = colours.faint;
    const day = `${timeText(this.from, DAY)} UTC`;
    context.fillText(context.measureText(day).width <= view.left - 8 ? day : "UTC", view.left - 8, 8);
  }

  moments() {
    const { context, model, colours, view } = this;
    context.fillStyle = colours.ink;
    for (const [ms] of model.moments) {
      if (ms < view.from || ms > view.to) continue;
      const x = this.x(ms);
      context.beginPath();
      context.moveTo(x - 4, 15);
      context.lineTo(x + 4, 15);
      context.lineTo(x, 22);
      context.fill();
    }
  }
}
