// The page: starts the worker, passes time, and hands what the laboratory shows to stage, events and timeline.
import { mountTimeline } from "./timeline.js";
import { wordsOf } from "./phrases.js";
import { Events } from "./events.js";
import { Stage } from "./stage.js";
import { Lessons, Dropped, SettingsForm } from "./choices.js";
import { Laboratory } from "./laboratory.js";

const TICK_MS = 50, MOST_AT_ONCE_MS = 4000, BACK_MS = 10_000;
const byId = (id) => document.getElementById(id);

const wanted = new URLSearchParams(location.search).get("language") ?? navigator.language.slice(0, 2);
const language = wanted === "zh" ? "zh" : "en";
const [texts, built] = await Promise.all(["texts.json", "built.json"].map(async (name) => (await fetch(name)).json()));
const ofLanguage = Object.fromEntries(Object.entries(texts).map(([name, of]) => [name, of[language]]));
const { text: t, sentence } = wordsOf(ofLanguage, String);
// The causes in a line of the journal, in the reader's language.
const causes = Object.entries(texts).filter(([name]) => name.startsWith("timeline.cause.")).map(([, of]) => [of.en, of[language]]);
const inWords = (why) => causes.reduce((text, [english, own]) => text.replaceAll(english, own), why);

document.documentElement.lang = language;
document.title = `${t("title")} · coterie`;
for (const element of document.querySelectorAll("[data-text]")) element.textContent = t(element.dataset.text);
for (const link of document.querySelectorAll(".languages a")) if (link.lang === language) link.setAttribute("aria-current", "true");
byId("theme").setAttribute("aria-label", t("theme"));

function trouble(sentence) {
  byId("trouble").textContent = sentence;
  byId("trouble").hidden = sentence === "";
}

class Page {
  constructor(laboratory, description) {
    Object.assign(this, { laboratory, description, view: null, isPlaying: false, timeline: null, farthestMs: 60_000, endMs: Infinity, busy: false });
    this.stage = new Stage(t, sentence, (action) => this.act(action), () => this.speed);
    this.events = new Events(t, inWords, description.rules);
    this.form = new SettingsForm(t, description, (settings) => this.start({ settings }));
    this.lessons = new Lessons(t, description, (lesson) => this.lesson(lesson));
    this.dropped = new Dropped(t, description, laboratory, () => this.form.values(), (request) => this.start(request), trouble);
    this.wire();
  }

  wire() {
    byId("play").addEventListener("click", () => this.play(!this.isPlaying));
    byId("step").addEventListener("click", () => { this.play(false); this.show("step"); });
    byId("back").addEventListener("click", () => this.show("go", Math.max((this.view?.now_ms ?? 0) - BACK_MS, 0)));
    byId("speed").addEventListener("input", () => this.showSpeed());
    byId("position").addEventListener("change", () => this.show("go", Number(byId("position").value)));
    byId("add").addEventListener("click", () => this.act({ kind: "join", member: this.stage.freeName() }));
    byId("grow").addEventListener("click", () => this.act({ kind: "grow", partitions: (this.view?.partitions ?? 0) + 4 }));
    byId("hash-now").addEventListener("click", async () => { byId("hash").textContent = await this.laboratory.call("trace_hash"); });
    this.showSpeed();
    this.play(false);
  }

  get speed() { return 10 ** Number(byId("speed").value); }

  showSpeed() { byId("speed-text").textContent = `${this.speed < 1 ? this.speed.toFixed(2) : this.speed.toFixed(1)}×`; }

  async lesson(lesson) {
    byId("speed").value = Math.log10(lesson.speed);
    this.showSpeed();
    await this.start({ lesson: lesson.name });
    this.endMs = lesson.end_ms;
    byId("position").max = this.farthestMs = lesson.end_ms;
    this.play(true);
  }

  async start(request) {
    this.play(false);
    [this.endMs, this.farthestMs] = [Infinity, 60_000];
    const view = await this.show("start", JSON.stringify(request));
    if (view !== null) this.form.fill(view.settings);
  }

  act(action) {
    const ms = ["pause", "cut", "slow"].includes(action.kind) ? Math.max(Number(byId("duration").value), 1) * 1000 : 0;
    return this.show("act", JSON.stringify({ ms, ...action }));
  }

  play(isPlaying) {
    this.isPlaying = isPlaying;
    byId("play").textContent = t(isPlaying ? "pause" : "play");
    this.lastTick = performance.now();
    if (isPlaying) this.tick();
  }

  // Time goes on: as much of it as has passed, at the chosen speed; a slow machine shows less at once and never falls behind.
  async tick() {
    if (!this.isPlaying || this.busy || this.view === null) return;
    this.busy = true;
    const now = performance.now(), passedMs = Math.min(Math.max(now - this.lastTick, TICK_MS), 250) * this.speed;
    this.lastTick = now;
    this.leftMs = (this.leftMs ?? 0) + Math.min(passedMs, MOST_AT_ONCE_MS * 4);
    const whole = Math.floor(this.leftMs), target = Math.min(this.view.now_ms + whole, this.endMs);
    this.leftMs -= whole;
    if (whole > 0) await this.show("go", target);
    this.busy = false;
    if (target >= this.endMs) { this.endMs = Infinity; this.play(false); }
    setTimeout(() => this.tick(), Math.max(TICK_MS - (performance.now() - now), 0));
  }

  async show(method, argument) {
    const begun = performance.now(), before = this.view, result = JSON.parse(await this.laboratory.call(method, argument));
    trouble(result.error ?? "");
    if (result.error) return null;
    this.view = result;
    const steps = result.is_new ? 0 : result.steps - (before?.steps ?? 0);
    if (steps > 200) byId("rate").textContent = t("rate", { rate: Math.round(steps * 1000 / (performance.now() - begun)) });
    this.draw();
    return result;
  }

  draw() {
    const { view } = this;
    byId("clock").textContent = `${(view.now_ms / 1000).toFixed(3)} s`;
    if (view.now_ms > this.farthestMs) byId("position").max = this.farthestMs = view.now_ms * 1.5;
    byId("position").value = view.now_ms;
    byId("grow").disabled = view.is_scripted;
    byId("hash").textContent = "";
    byId("costs").textContent = t("costs", { ...view.costs, unowned_s: (view.costs.unowned_ms / 1000).toFixed(1) });
    this.drawTimeline(view.timeline, view.is_new);
    this.stage.draw(view, this.timeline);
    this.events.add(view);
  }

  // What the timeline does not have yet: its lists only grow, but for what lasts.
  drawTimeline(document, isNew) {
    const shown = this.view.is_scripted ? { ...ofLanguage, "timeline.phase-0": t("phase.Converging") } : ofLanguage;
    if (this.timeline === null || isNew) {
      byId("timeline").replaceWith(Object.assign(window.document.createElement("div"), { id: "timeline" }));
      this.timeline = mountTimeline(byId("timeline"), { timeline: document, texts: shown, language });
      return;
    }
    const { model } = this.timeline, rest = (name) => document[name].slice(model[name].length);
    this.timeline.append({
      ...document, lanes: rest("lanes"), owners: rest("owners"), unowned: rest("unowned"), moments: rest("moments"),
      owned: document.owned.map((spell, index) => [index, spell]),
      rebalances: document.rebalances.map((rebalance, index) => [index, rebalance]),
    });
    if (this.timeline.isWhole) { this.timeline.fit(); this.timeline.refresh(); }
  }
}

if (built.missing) {
  trouble(t("no_runtime", { why: built.missing }));
} else {
  byId("status").textContent = t("loading");
  const laboratory = new Laboratory();
  try {
    const { description, python, ms } = await laboratory.ready;
    byId("status").textContent = t("loaded", { python, seconds: (ms / 1000).toFixed(1) });
    byId("status").classList.add("on");
    window.playground = new Page(laboratory, description);
    await window.playground.start({ settings: {} });
    window.playground.play(true);
  } catch (error) {
    trouble(t("failed", { why: error.message }));
  }
}
