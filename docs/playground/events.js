// The list of events, the newest first, each with its rule.
const SHOWN = 300, USUAL = new Set(["Heartbeat", "OffsetCommit", "ConsumerGroupHeartbeat", "Write", "PersistOffsets", "FindConsumers"]);

export class Events {
  constructor(t, inWords, rules) {
    Object.assign(this, { t, inWords, rules, kept: [] });
    this.list = document.getElementById("events");
    this.all = document.getElementById("all-events");
    this.all.addEventListener("change", () => this.redraw());
  }

  add(view) {
    if (view.is_new) { this.kept = []; this.list.replaceChildren(); }
    this.kept.push(...view.events);
    this.kept.splice(0, this.kept.length - 2000);
    for (const event of view.events) if (this.isShown(event)) this.list.prepend(this.row(event));
    while (this.list.childElementCount > SHOWN) this.list.lastElementChild.remove();
  }

  redraw() {
    this.list.replaceChildren(...this.kept.filter((event) => this.isShown(event)).slice(-SHOWN).reverse().map((event) => this.row(event)));
  }

  isShown({ kind, name, detail }) {
    return this.all.checked || !["request", "response"].includes(kind) || (!USUAL.has(name) || detail !== "");
  }

  words({ kind, member, name, detail, arrives_ms }) {
    const { t } = this;
    if (kind === "act") return t(`act.${name}`, { member, detail });
    if (kind === "takes" || kind === "releases") return t(kind, { member, count: name, detail });
    if (kind === "line") return `${t(`event.${name}`)}${detail ? `: ${this.inWords(detail)}` : ""}`;
    if (kind === "notice") return t("notice", { member, detail });
    const lost = kind === "request" && arrives_ms === null ? ` – ${t("lost")}` : "";
    return `${t(kind, { member, name })}${detail ? ` ${detail}` : ""}${lost}`;
  }

  row(event) {
    const rule = this.rules[event.rule], row = document.createElement("details"), summary = document.createElement("summary");
    row.className = event.kind;
    const at = Object.assign(document.createElement("span"), { className: "at", textContent: `${(event.time_ms / 1000).toFixed(3)}` });
    const source = Object.assign(document.createElement("span"), { className: "rule", textContent: rule?.source ?? "" });
    summary.append(source, at, " ", this.words(event));
    row.append(summary);
    if (rule) row.append(paragraph(this.t(`rule.${event.rule}`)), paragraph(`tests/spec/${rule.file}: ${rule.scenario}`, "quiet"));
    return row;
  }
}

function paragraph(text, className = "") {
  return Object.assign(document.createElement("p"), { textContent: text, className });
}
