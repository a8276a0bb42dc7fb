// The coordinator, the members with their buttons, and the messages between them.
const SVG = "http://www.w3.org/2000/svg", LEAST_MS = 350, MOST_FLIGHTS = 40, PALETTE = 11;
const OF_LIVING = ["pause", "cut", "slow", "leave", "kill"];

export class Stage {
  constructor(t, sentence, act, speed) {
    Object.assign(this, { t, sentence, act, speed, cards: new Map(), flying: 0 });
    this.list = document.getElementById("members");
    this.coordinator = document.getElementById("coordinator");
    this.flights = document.getElementById("flights");
    this.isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  }

  freeName() {
    let number = 1;
    while (this.cards.has(`m${number}`)) number++;
    return `m${number}`;
  }

  draw(view, timeline) {
    if (view.is_new) { this.cards.clear(); this.list.replaceChildren(); this.flights.replaceChildren(); this.flying = 0; }
    const [name, state, verdict] = this.coordinator.children, { explanation } = view;
    name.textContent = this.t(`server.${view.protocol}`);
    const translated = explanation === null ? "" : this.t(`timeline.state.${explanation.state}`);
    state.textContent = explanation === null ? "" : this.t("state", { ...explanation, state: translated });
    const ofScript = view.is_scripted ? this.t("scripted") : "";
    verdict.textContent = explanation === null ? ofScript : this.sentence(explanation.verdict, explanation.verdict_phrase);
    for (const member of view.members) this.drawMember(member, view, timeline);
    // After a leap in time only the last second's messages fly, by the reader's clock.
    const since = view.now_ms - 1000 * Math.max(this.speed(), 0.1);
    if (!this.isCalm) for (const event of view.events) if (event.time_ms >= since) this.fly(event);
  }

  drawMember(member, view, timeline) {
    const owner = timeline.model.owners.lastIndexOf(member.name);
    const key = JSON.stringify([member, owner]), card = this.cards.get(member.name) ?? this.newCard(member.name);
    if (card.key === key) return;
    card.key = key;
    const { t } = this, { alive, held, stage, owned } = member;
    card.className = `${alive ? "" : "dead"} ${held ? "held" : ""}`;
    card.facts.textContent = alive ? t(held ? `held.${held}` : stage ? `stage.${stage}` : "stage.running") : t("stage.ended");
    card.swatch.className = owner < 0 ? "" : `swatch owner-${owner % PALETTE}`;
    card.owned.replaceChildren(...owned.map((partition) =>
      Object.assign(document.createElement("i"), { textContent: partition.replace(/^t-|^t@broker-/, "") })));
    card.owned.setAttribute("aria-label", t("owns", { count: owned.length }));
    const kinds = alive ? OF_LIVING.filter((kind) => kind !== "slow" || !view.is_scripted) : ["join"];
    if (card.kinds !== kinds.join()) {
      card.kinds = kinds.join();
      card.buttons.replaceChildren(...kinds.map((kind) => {
        const button = Object.assign(document.createElement("button"), { type: "button", textContent: t(`do.${kind}`) });
        button.setAttribute("aria-label", `${t(`do.${kind}`)} ${member.name}`);
        button.addEventListener("click", () => this.act({ kind, member: member.name }));
        return button;
      }));
    }
  }

  newCard(name) {
    const card = document.createElement("li");
    const head = Object.assign(document.createElement("div"), { className: "head" });
    card.facts = Object.assign(document.createElement("span"), { className: "quiet" });
    card.owned = Object.assign(document.createElement("div"), { className: "owned" });
    card.owned.setAttribute("role", "group");
    card.buttons = Object.assign(document.createElement("div"), { className: "controls" });
    card.swatch = document.createElement("i");
    head.append(card.swatch, Object.assign(document.createElement("strong"), { textContent: name }), card.facts);
    card.append(head, card.owned, card.buttons);
    this.cards.set(name, card);
    this.list.append(card);
    return card;
  }

  // A message flies for as long as it is under way at the speed of now, and for long enough to be seen.
  fly({ kind, member, name, time_ms, arrives_ms }) {
    const card = this.cards.get(member);
    if (!["request", "response", "notice"].includes(kind) || card === undefined || this.flying >= MOST_FLIGHTS) return;
    const box = this.flights.getBoundingClientRect(), one = card.getBoundingClientRect(), other = this.coordinator.getBoundingClientRect();
    const low = [one.x + one.width / 2 - box.x, one.y - box.y], high = [other.x + other.width / 2 - box.x, other.bottom - box.y];
    const [from, to] = kind === "request" ? [low, high] : [high, low], isLost = arrives_ms === null;
    const end = isLost ? [(from[0] + to[0]) / 2, (from[1] + to[1]) / 2] : to;
    const flight = document.createElementNS(SVG, "g"), dot = document.createElementNS(SVG, "circle"), label = document.createElementNS(SVG, "text");
    flight.setAttribute("class", `${kind} ${isLost ? "lost" : ""}`);
    dot.setAttribute("r", "5");
    label.setAttribute("x", "8");
    label.textContent = kind === "notice" ? "!" : name;
    flight.append(dot, label);
    this.flights.append(flight);
    this.flying++;
    const duration = Math.min(Math.max(((arrives_ms ?? time_ms) - time_ms) / this.speed(), LEAST_MS), 4000);
    const at = ([x, y]) => `translate(${x}px, ${y}px)`;
    const animation = flight.animate([{ transform: at(from) }, { transform: at(end) }], { duration, fill: "both" });
    animation.onfinish = animation.oncancel = () => { flight.remove(); this.flying = Math.max(this.flying - 1, 0); };
  }
}
