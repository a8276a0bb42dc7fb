// The data of a timeline: what Timeline.document has (see timeline.js), in the order in which it is drawn.

// The number of items whose time is at or before ms: items are in order of time.
const countUntil = (items, ms, time) => {
  let low = 0, high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (time(items[middle]) <= ms) low = middle + 1; else high = middle;
  }
  return low;
};

export class TimelineModel {
  constructor(document) { this.replace(document); }

  replace(document) {
    Object.assign(this, {
      group: document.group, isEmpty: document.begin_ms === 0, beginMs: document.begin_ms || Date.now(), endMs: document.end_ms, isLive: document.is_live,
      isWhole: document.is_whole, lanes: [], order: [], owners: [], names: shortNames([]), owned: [], unowned: [], waiting: [], rebalances: [], moments: [],
      spells: [], // by lane: its spells of ownership, in order
    });
    this.append({
      ...document,
      owned: document.owned.map((spell, index) => [index, spell]),
      rebalances: document.rebalances.map((rebalance, index) => [index, rebalance]),
    });
  }

  append(changes) {
    this.endMs = Math.max(this.endMs, changes.end_ms);
    this.isWhole = changes.is_whole;
    for (const name of ["lanes", "owners", "unowned", "moments"]) for (const item of changes[name]) this[name].push(item);
    this.waiting = changes.waiting;
    for (const [index, spell] of changes.owned) {
      const [lane, owner, from, until] = spell;
      if (index in this.owned) { Object.assign(this.owned[index], { owner, from, until }); continue; }
      this.owned[index] = { lane, owner, from, until };
      (this.spells[lane] ??= []).push(this.owned[index]);
    }
    for (const [index, rebalance] of changes.rebalances) {
      this.rebalances[index] = { ...rebalance, from: rebalance.phases[0][1], until: rebalance.phases.at(-1)[2] };
    }
    for (const { from } of changes.rebalances.length ? this.rebalances.slice(0, 1) : []) this.beginMs = Math.min(this.beginMs, from);
    if (changes.end_ms) this.isEmpty = false;
    if (changes.lanes.length) this.order = this.lanesInOrder();
    if (changes.owners.length) this.names = shortNames(this.owners);
    this.gapItems = this.unowned.map(([ranges, since, detected, until]) => ({ ranges, since, detected, until }));
    for (const [ranges, since] of this.waiting) this.gapItems.push({ ranges, since, detected: since, until: null });
    this.gapsOfLanes = new Map();
    this.shares = null;
  }

  lanesInOrder() {
    const compare = new Intl.Collator("en", { numeric: true }).compare;
    return this.lanes.map((_, index) => index).sort((a, b) => {
      const [one, other] = [this.lanes[a], this.lanes[b]];
      return compare(one[0], other[0]) || one[1] - other[1];
    });
  }

  // A partition, or a task of a streams group as Kafka names it: 1_3.
  laneName(lane) { return this.lanes[lane].join(this.isOfStreams ? "_" : "-"); }

  // The unowned times of a lane, in order: {since, detected, until}, until null while it lasts.
  gaps(lane) {
    let gaps = this.gapsOfLanes.get(lane);
    if (gaps === undefined) {
      gaps = this.gapItems.filter(({ ranges }) => within(ranges, lane)).sort((a, b) => a.since - b.since);
      this.gapsOfLanes.set(lane, gaps);
    }
    return gaps;
  }

  // The first spell and gap that may reach beyond ms, by their positions.
  firstSpell(lane, ms) { return Math.max(countUntil(this.spells[lane] ?? [], ms, (item) => item.from) - 1, 0); }

  firstGap(lane, ms) { return Math.max(countUntil(this.gaps(lane), ms, (item) => item.since) - 1, 0); }

  gapAt(lane, ms) {
    const gap = this.gaps(lane)[this.firstGap(lane, ms)];
    return gap !== undefined && gap.since <= ms && lasts(gap, ms) ? gap : null;
  }

  // The owner's position at that time, -1 where there is none. An unowned partition still has its last owner's spell.
  ownerAt(lane, ms) {
    const spell = this.spells[lane]?.[this.firstSpell(lane, ms)];
    return spell !== undefined && spell.from <= ms && lasts(spell, ms) ? spell.owner : -1;
  }

  // The first rebalance that begins after ms, by its position; that number less one begins at or before it.
  rebalancesUntil(ms) { return countUntil(this.rebalances, ms, (item) => item.from); }

  // The partitions that have another owner after the rebalance: {lane, from, to}, -1 for none.
  moves(rebalance) {
    const moves = [], after = rebalance.until ?? this.endMs;
    const gaps = this.gapItems.filter((gap) => gap.since <= after && lasts(gap, after));
    for (const lane of this.order) {
      const isUnowned = gaps.some(({ ranges }) => within(ranges, lane));
      const [from, to] = [this.lastOwner(lane, rebalance.from), isUnowned ? -1 : this.ownerAt(lane, after)];
      if (from !== to) moves.push({ lane, from, to });
    }
    return moves;
  }

  lastOwner(lane, ms) {
    const spell = this.spells[lane]?.[this.firstSpell(lane, ms - 1)];
    return spell !== undefined && spell.from < ms ? spell.owner : -1;
  }

  // By owner, how many partitions are assigned to it, in order: [{from, until, count}, ...].
  sharesOfOwners() {
    if (this.shares !== null) return this.shares;
    const changes = this.owners.map(() => []);
    for (const { owner, from, until } of this.owned) {
      changes[owner].push([from, 1]);
      if (until !== null) changes[owner].push([until, -1]);
    }
    this.shares = changes.map((of) => {
      const shares = [];
      let sum = 0;
      for (const [ms, by] of of.sort((a, b) => a[0] - b[0])) {
        sum += by;
        const last = shares.at(-1);
        if (last?.from === ms) last.count = sum; else shares.push({ from: ms, until: null, count: sum });
        if (last !== undefined && last.from !== ms) last.until = ms;
      }
      return shares;
    });
    this.most = this.shares.reduce((most, shares) => shares.reduce((highest, { count }) => Math.max(highest, count), most), 1);
    return this.shares;
  }
}

const lasts = ({ until }, ms) => until === null || ms < until;

function within(ranges, lane) {
  for (let index = 0; index < ranges.length; index += 2) if (ranges[index] <= lane && lane <= ranges[index + 1]) return true;
  return false;
}

// As the broker writes them in member ids, and behind a "-" as Kafka's clients do, in base64: with letters of both cases and a digit.
const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?<=-)(?=\S{0,21}\d)(?=\S{0,21}[A-Z])(?=\S{0,21}[a-z])[\w-]{22}(?![\w-])/g;
const DIVIDER = /[\s,;:()]/;

// The member ids in a text: {from, head, uuid, until}. One pass, since a name from outside may have 32 kB.
function idsIn(text) {
  let last = 0;
  return Array.from(text.matchAll(UUID), ({ 0: uuid, index }) => {
    let from = index;
    while (from > last && !DIVIDER.test(text[from - 1])) from--;
    last = index + uuid.length;
    return { from, head: text.slice(from, index), uuid, until: last };
  });
}

// Member ids without their UUIDs, as far as they are unique: "anna", or "anna-3f2c" where there are two.
export function shortNames(owners) {
  const uuids = new Map();
  for (const { head, uuid } of owners.flatMap(idsIn)) uuids.set(head, [...(uuids.get(head) ?? []), uuid]);
  const shortId = ({ head, uuid }) => {
    const others = (uuids.get(head) ?? []).filter((other) => other !== uuid);
    if (head.length > 1 && others.length === 0) return head.slice(0, -1);
    let length = 4;
    while (others.some((other) => other.startsWith(uuid.slice(0, length)))) length++;
    return head + uuid.slice(0, length);
  };
  const short = (text) => {
    const ids = idsIn(text);
    return ids.map((id, index) => text.slice(ids[index - 1]?.until ?? 0, id.from) + shortId(id)).join("") + text.slice(ids.at(-1)?.until ?? 0);
  };
  return { of: owners.map((owner) => short(owner) || "–"), short };
}
