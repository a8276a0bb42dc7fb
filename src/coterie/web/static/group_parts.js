// The members and the partitions of a group, from its explanations: with clocks that run and time-outs that shrink.
import { element, number, sentence, span, text, texts, visible } from "./live.js";
import { List } from "./rows.js";
import { shortNames } from "./timeline_model.js";

const STRIP_CELLS = 60, CELL_MS = 2000; // of the commit cadence

/** A share of a whole as a bar; its text says the same. */
function bar(cell, share, words, isLow) {
  if (!cell.bar) {
    cell.bar = element("span", "gauge");
    cell.bar.append((cell.fill = element("span", "fill")));
    cell.append(cell.bar, (cell.words = element("span", "words")));
  }
  cell.bar.hidden = share === null;
  cell.fill.style.transform = `scaleX(${share ?? 0})`;
  cell.fill.classList.toggle("low", isLow);
  cell.words.textContent = words;
}

/** When the committed offset of each partition moved, as far as this page saw it. */
class Cadence {
  constructor() {
    this.offsets = new Map();
    this.moves = new Map();
  }

  see(partitions, now) {
    for (const { topic, partition, committed } of partitions) {
      const name = `${topic}-${partition}`;
      const before = this.offsets.get(name);
      this.offsets.set(name, committed);
      if (before === undefined || before === committed) continue;
      const moves = this.moves.get(name) ?? [];
      moves.push(now);
      while (moves.length && now - moves[0] > STRIP_CELLS * CELL_MS) moves.shift();
      this.moves.set(name, moves);
    }
  }

  of(name) {
    return this.moves.get(name) ?? [];
  }
}

const SVG = "http://www.w3.org/2000/svg";

function strip(cell, moves, now) {
  if (!cell.path) {
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", `0 0 ${STRIP_CELLS * 2} 16`);
    svg.setAttribute("aria-hidden", "true");
    svg.append((cell.path = document.createElementNS(SVG, "path")));
    cell.append(svg, (cell.words = element("span", "words")));
  }
  const cells = new Set(moves.map((at) => Math.floor((now - at) / CELL_MS)).filter((n) => n < STRIP_CELLS));
  cell.path.setAttribute("d", [...cells].map((n) => `M${(STRIP_CELLS - n) * 2 - 1} 2v12`).join(""));
  const recent = moves.filter((at) => now - at < STRIP_CELLS * CELL_MS).length;
  cell.words.textContent = recent ? text("cadence.count", { n: number(recent) }) : "";
}

/** What a member does now, in a few words. */
function doing(member, explanation) {
  const owed = explanation.waiting_for.find((awaited) => awaited.member_id === member.member_id);
  if (owed) return [visible(sentence(owed.owes, owed.owes_phrase)), true];
  if (member.waits_in) return [text("member.waits", { request: member.waits_in }), false];
  if (member.session_left_ms === null) return ["–", false];
  const isSilent = member.last_heard_ms > Math.max((member.heartbeat_interval_ms ?? member.session_timeout_ms / 3) * 2, 1000);
  return isSilent ? [text("member.silent"), true] : [text("member.heartbeating"), false];
}

/** Member id -> what a reader knows the member by, as owners of the timeline are named. */
function namesOf(members) {
  const owner = ({ group_instance_id, client_id, member_id }) =>
    group_instance_id || (member_id.startsWith(client_id) || !client_id ? member_id : `${client_id}-${member_id}`);
  const names = shortNames(members.map(owner)).of;
  return new Map(members.map(({ member_id }, index) => [member_id, names[index]]));
}

/** A sentence with members as a reader knows them. */
function withNames(words, names) {
  for (const [id, name] of names) if (id !== name && words.includes(id)) words = words.replaceAll(id, () => name);
  return shortNames([]).short(words);
}

/** The members of a partition: of a share group several. */
const ownersOf = ({ owner, owners = [] }) => (owner === null ? owners : [owner]);

const ROLES = ["active", "standby", "warmup"];

/** The tasks of a streams group in order, each with the ids of the members that have it in each role. */
function tasksOf(members) {
  const tasks = new Map();
  const task = (name) => {
    if (!tasks.has(name)) tasks.set(name, { name, active: [], standby: [], warmup: [], restoring: [] });
    return tasks.get(name);
  };
  for (const member of members) {
    for (const role of ROLES) for (const name of member[role] ?? []) task(name)[role].push(member.member_id);
    for (const [index, words] of (member.restoring ?? []).entries()) {
      task(words.split(" ")[1]).restoring.push(sentence(words, member.restoring_phrases?.[index]));
    }
  }
  const compare = new Intl.Collator("en", { numeric: true }).compare;
  return [...tasks.values()].sort((a, b) => compare(a.name, b.name));
}

export class GroupParts {
  constructor() {
    this.heard = 0;
    this.cadence = new Cadence();
    this.members = new List(
      "members",
      ["member", "host", "software", "heard", "fetched", "session", "owned", "doing"],
      (cells, member) => this.fillMember(cells, member),
    );
    this.partitions = new List(
      "partitions",
      ["partition", "owner", "committed", "end", "lag", "behind", "cadence"],
      (cells, partition) => this.fillPartition(cells, partition),
    );
    this.tasks = new List("tasks", ["task", "active", "standby", "warmup", "restoring"], (cells, task) => this.fillTask(cells, task));
    this.next = document.getElementById("next");
    this.clock = document.getElementById("clock");
    setInterval(() => this.tick(), 250);
  }

  explain(explanation) {
    this.explanation = explanation;
    this.heard = Date.now();
    this.owned = new Map();
    for (const owner of explanation.partitions.flatMap(ownersOf)) this.owned.set(owner, (this.owned.get(owner) ?? 0) + 1);
    this.names = namesOf(explanation.members);
    document.getElementById("verdict").textContent = visible(withNames(sentence(explanation.verdict, explanation.verdict_phrase), this.names), 2000);
    this.mostLag = Math.max(...explanation.partitions.map((p) => p.lag ?? 0), 1);
    this.cadence.see(explanation.partitions, this.heard);
    this.members.show(explanation.members);
    this.partitions.show(explanation.partitions);
    const tasks = tasksOf(explanation.members);
    document.getElementById("of-streams").hidden = tasks.length === 0;
    this.tasks.show(tasks);
    const unseen = document.getElementById("unseen");
    unseen.textContent = visible(sentence(explanation.unseen ?? "", explanation.unseen_phrase), 1000);
    unseen.hidden = !explanation.unseen;
    this.tick();
  }

  tick() {
    if (!this.explanation || document.hidden) return;
    this.members.draw();
    const { state, in_state_ms: sinceMs, next_timeout: next } = this.explanation;
    const words = { state: texts[`timeline.state.${state}`] ?? visible(state), span: span((sinceMs ?? 0) + Date.now() - this.heard) };
    this.clock.textContent = sinceMs === null ? words.state : text("group.since", words);
    this.next.hidden = !next;
    if (!next) return;
    const who = next.member_id === null ? "" : (this.names.get(next.member_id) ?? next.member_id);
    const left = span(Math.max(next.left_ms - (Date.now() - this.heard), 0));
    const name = texts[`timeout.${next.name.replaceAll(" ", "_")}`] ?? visible(next.name);
    const then = visible(withNames(sentence(next.then, next.then_phrase), this.names), 1000);
    const of = { name, who: visible(who, 80), left, then };
    this.next.textContent = text(next.member_id === null ? "group.next" : "group.next_of", of);
  }

  fillMember(cells, member) {
    const since = Date.now() - this.heard;
    const later = (ms) => (ms === null ? "–" : text("ago", { span: span(ms + since) }));
    cells.member.textContent = visible(this.names.get(member.member_id));
    cells.member.title = visible(member.member_id, 500);
    cells.member.classList.toggle("leads", member.leader);
    cells.host.textContent = visible(member.host);
    cells.software.textContent = visible(member.client_software ?? "–");
    cells.heard.textContent = later(member.last_heard_ms);
    cells.fetched.textContent = later(member.last_fetch_ms);
    const isTimed = member.session_left_ms !== null && !member.waits_in;
    const left = isTimed ? Math.max(member.session_left_ms - since, 0) : 0;
    const share = isTimed ? Math.min(left / member.session_timeout_ms, 1) : null;
    bar(cells.session, share, isTimed ? span(left) : "–", share !== null && share < 0.34);
    cells.owned.textContent = number(this.owned.get(member.member_id) ?? 0);
    const [words, isAwaited] = doing(member, this.explanation);
    cells.doing.textContent = cells.doing.title = words;
    cells.doing.classList.toggle("awaited", isAwaited);
  }

  /** Members as a reader knows them; "" for none. */
  named(members) {
    return members.map((member) => visible(this.names.get(member) ?? member, 80)).sort().join(" + ");
  }

  fillTask(cells, task) {
    cells.task.textContent = visible(task.name);
    cells.active.textContent = this.named(task.active) || text("partition.unowned");
    cells.active.classList.toggle("awaited", task.active.length === 0);
    cells.standby.textContent = this.named(task.standby) || "–";
    cells.warmup.textContent = this.named(task.warmup) || "–";
    cells.restoring.textContent = visible(task.restoring.join("; ")) || "–";
    cells.restoring.classList.toggle("awaited", task.restoring.length > 0);
  }

  fillPartition(cells, partition) {
    const name = `${partition.topic}-${partition.partition}`;
    cells.partition.textContent = visible(name);
    const owners = this.named(ownersOf(partition));
    cells.owner.textContent = owners || text("partition.unowned");
    cells.owner.classList.toggle("awaited", !owners);
    cells.committed.textContent = number(partition.committed);
    cells.end.textContent = number(partition.end);
    bar(cells.lag, partition.lag === null ? null : partition.lag / this.mostLag, number(partition.lag), partition.stalled);
    cells.behind.textContent = partition.stalled
      ? text("partition.stalled", { span: span(partition.unmoved_ms) })
      : partition.lag_ms === null ? "–" : span(partition.lag_ms);
    cells.behind.classList.toggle("awaited", partition.stalled);
    strip(cells.cadence, this.cadence.of(name), this.heard);
  }
}
