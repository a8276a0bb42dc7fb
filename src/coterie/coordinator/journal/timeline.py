"""A group's timeline as data: who owned each partition when, when it was unowned, and each rebalance with its phases.

This is what every picture of a group shows: the page's (`web/static/timeline.js`, which reads `Timeline.document`), and the
terminal's (`console/lanes`). `journal_timeline` makes it from a journal, `console/history_page` from the tables of a history.

- An *owner* is a member id, behind its client id where that does not begin it, or the `group.instance.id` of a static member,
  which it keeps over its restarts (`owner_name`).
- Members of a share group (KIP-932) have a partition together: its owner is all of them, `a + b`.
- A *spell* of ownership lasts until the partition is unowned or has another owner. Where an eager rebalance returns a partition
  to its owner the spell goes on, and the unowned time lies over it.
- *Unowned* and *undetected* are `machines.ownership`'s.
- A *rebalance* is a band from its first phase's start to its last one's end; its phases are the states of the group in it:
  PreparingRebalance and CompletingRebalance, or Assigning and Reconciling of a consumer group (KIP-848).

Times are in ms since 1970.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from coterie.coordinator.journal.line import CAUSES
from coterie.machines.ownership import Partition, UnownedSpell

VERSION = 1  # of the document


class BandPhase(NamedTuple):
    """A state of the group during a rebalance; ``until_ms`` None: it lasts."""

    state: str
    from_ms: int
    until_ms: int | None


@dataclass(slots=True)
class Spell:
    """A partition's time with one owner, by their positions in `Timeline.lanes` and `Timeline.owners`."""

    lane: int
    owner: int
    from_ms: int
    until_ms: int | None = None


class UnownedLanes(NamedTuple):
    """Lanes that were unowned at the same time, as the first and the last of each range of neighbours, in a row; until
    ``detected_ms`` a dead owner was taken for alive."""

    ranges: list[int]
    since_ms: int
    detected_ms: int
    until_ms: int


@dataclass(slots=True)
class Band:
    """A band of the timeline; ``event`` is the one that ended it, "" while it lasts. None: unknown. The other fields are those
    of a line of the journal."""

    generation: int
    phases: list[BandPhase]
    event: str = ""
    causes: list[dict[str, str]] = field(default_factory=list)
    why: str = ""
    members: int | None = None
    moved: int | None = None
    unowned: int | None = None
    unowned_ms: int | None = None
    undetected_ms: int | None = None

    @property
    def from_ms(self) -> int:
        return self.phases[0].from_ms

    @property
    def until_ms(self) -> int | None:
        return self.phases[-1].until_ms

    def phase_begins(self, state: str, now_ms: int) -> None:
        """The phase that lasts ends."""
        self.ends(now_ms)
        self.phases.append(BandPhase(state, now_ms, None))

    def ends(self, now_ms: int) -> None:
        """The phase that lasts ends, and with it the band."""
        if self.phases and self.phases[-1].until_ms is None:
            self.phases[-1] = self.phases[-1]._replace(until_ms=max(now_ms, self.phases[-1].from_ms))


class TimelineMark(NamedTuple):
    """Something else that happened, in words."""

    time_ms: int
    text: str


@dataclass(slots=True)
class Timeline:
    """``waiting``: the partitions that are unowned now, with the time since when. ``is_whole``: the journal named every owner;
    it leaves them out of groups with more than 5,000 partitions."""

    group: str
    lanes: list[Partition] = field(default_factory=list)
    owners: list[str] = field(default_factory=list)
    owned: list[Spell] = field(default_factory=list)
    unowned: list[UnownedLanes] = field(default_factory=list)
    waiting: dict[Partition, int] = field(default_factory=dict)
    rebalances: list[Band] = field(default_factory=list)
    moments: list[TimelineMark] = field(default_factory=list)
    begin_ms: int | None = None
    end_ms: int | None = None
    is_whole: bool = True
    _lanes: dict[Partition, int] = field(default_factory=dict)
    _owners: dict[str, int] = field(default_factory=dict)

    def lane(self, partition: Partition) -> int:
        """Its position in ``lanes``."""
        if partition not in self._lanes:
            self._lanes[partition] = len(self.lanes)
            self.lanes.append(partition)
        return self._lanes[partition]

    def owner(self, name: str) -> int:
        """Its position in ``owners``."""
        if name not in self._owners:
            self._owners[name] = len(self.owners)
            self.owners.append(name)
        return self._owners[name]

    def order_owners(self, first: Sequence[str]) -> None:
        """These owners come first: two timelines that begin with the same ones have them in the same colours."""
        before, self.owners, self._owners = self.owners, [], {}
        for name in (*first, *before):
            self.owner(name)
        for spell in self.owned:
            spell.owner = self._owners[before[spell.owner]]

    def reach(self, *times_ms: int) -> None:
        """The timeline covers these times."""
        self.begin_ms = min(times_ms) if self.begin_ms is None else min(self.begin_ms, *times_ms)
        self.end_ms = max(times_ms) if self.end_ms is None else max(self.end_ms, *times_ms)

    def document(self, shown: Callable[[str], str] = str, *, is_live: bool = False) -> dict[str, Any]:
        """The input of `web/static/timeline.js`, which documents it. ``shown``: a name from outside as it may be shown."""
        return {
            "version": VERSION,
            "group": shown(self.group),
            "begin_ms": self.begin_ms or 0,
            "end_ms": self.end_ms or 0,
            "is_live": is_live,
            "is_whole": self.is_whole,
            "lanes": [[shown(str(topic)), number] for topic, number in self.lanes],
            "owners": [shown(owner) for owner in self.owners],
            "owned": [spell_document(spell) for spell in self.owned],
            "unowned": [list(lanes) for lanes in self.unowned],
            "waiting": self.waiting_document(),
            "rebalances": [rebalance_document(rebalance, shown) for rebalance in self.rebalances],
            "moments": [[moment.time_ms, shown(moment.text)] for moment in self.moments],
        }

    def add_unowned(self, spells: Iterable[UnownedSpell]) -> None:
        """The unowned times of partitions; those of the same times are kept together, as an eager rebalance has them."""
        alike: dict[tuple[int, int, int], list[int]] = {}
        for spell in spells:
            times = spell.since_ms, spell.detected_ms, spell.until_ms
            alike.setdefault(times, []).append(self.lane(spell.partition))
        self.unowned += [UnownedLanes(_ranges(lanes), *times) for times, lanes in alike.items()]

    def waiting_document(self) -> list[list[Any]]:
        """What is unowned now: [ranges of lanes, since]."""
        alike: dict[int, list[int]] = {}
        for partition, since_ms in self.waiting.items():
            alike.setdefault(since_ms, []).append(self.lane(partition))
        return [[_ranges(lanes), since_ms] for since_ms, lanes in alike.items()]


def owner_name(member_id: str, client_id: str = "", group_instance_id: str | None = None) -> str:
    """A member as the owner of a lane's spells. A client of KIP-848 chooses a member id that says nothing."""
    if group_instance_id:
        return group_instance_id
    return member_id if member_id.startswith(client_id) else "-".join(filter(None, (client_id, member_id)))


def spell_document(spell: Spell) -> list[int | None]:
    """[lane, owner, from, until]."""
    return [spell.lane, spell.owner, spell.from_ms, spell.until_ms]


def rebalance_document(rebalance: Band, shown: Callable[[str], str] = str) -> dict[str, Any]:
    """Its causes with their verbs; what is unknown is left out."""
    known = {name: getattr(rebalance, name) for name in ("members", "moved", "unowned", "unowned_ms", "undetected_ms")}
    causes = [
        {
            "kind": cause["kind"],
            "who": shown(
                owner_name(cause.get("member_id", ""), cause.get("client_id", ""), cause.get("group_instance_id"))
            ),
            "verb": CAUSES.get(cause["kind"], shown(cause["kind"])),
        }
        | {name: shown(cause[name]) for name in ("reason", "rule") if cause.get(name)}
        for cause in rebalance.causes
    ]
    return {
        "generation": rebalance.generation,
        "event": rebalance.event,
        "phases": [list(phase) for phase in rebalance.phases],
        "causes": causes,
        "why": shown(rebalance.why),
    } | {name: value for name, value in known.items() if value is not None}


def _ranges(numbers: list[int]) -> list[int]:
    """The first and the last of each range of neighbours, in a row."""
    ranges: list[int] = []
    for number in sorted(numbers):
        if ranges and number <= ranges[-1] + 1:
            ranges[-1] = number
        else:
            ranges += [number, number]
    return ranges
