"""What happens in a course, event by event: what the reader did, messages on their way, lines of the journal, partitions.

And the timeline of a group that no coordinator knows: members of ZooKeeper and RocketMQ rebalance each by itself, so what is
drawn is what they own. A band lasts from the first change until each partition has one owner again, and stays so.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from hashlib import sha256
from typing import Any, NamedTuple

from coterie.coordinator.journal.line import CAUSES, JournalLine
from coterie.coordinator.journal.timeline import Band, BandPhase, Spell, Timeline
from coterie.coordinator.replay import AnyGroup
from coterie.coordinator.shard import Step
from coterie.laboratory.deliveries import Ownership, TopicPartition
from coterie.laboratory.playground.rules import OF_MESSAGES, OF_ROCKETMQ, OF_ZOOKEEPER, rule_of_line
from coterie.laboratory.study.course import CourseJournal
from coterie.laboratory.study.group import StudySetting
from coterie.laboratory.world import World, WorldFlight
from coterie.wire.declaration import Message
from coterie.wire.errors import error_of

_CONVERGING = "Converging"
_REST_MS = 1_000  # a change that comes sooner is of the same band
_CAUSE_OF_ACT = {"join": "member_joined", "leave": "member_left", "kill": "member_gone", "vanish": "member_gone"}


class PlayedEvent(NamedTuple):
    """``kind``: act, request, response, notice, line (of the journal), takes, releases; ``arrives_ms``: of a message, None of
    one that is lost. Times in ms since the beginning."""

    time_ms: int
    kind: str
    member: str
    name: str
    detail: str
    rule: str
    arrives_ms: int | None


class WatchedOwnership(Ownership):
    """The meter, with its spells, and with a listener to each change."""

    def __init__(self, listener: Callable[[str, Set[TopicPartition], Set[TopicPartition], int], None]) -> None:
        super().__init__(spells=[])
        self._listener = listener

    def changed(self, name: str, before: Set[Any], after: Set[Any], now_ms: int) -> None:
        super().changed(name, before, after, now_ms)
        if before != after:
            self._listener(name, before, after, now_ms)


class PlayedRecording:
    """The events so far. It sees the broker's steps, messages and partitions."""

    def __init__(self, setting: StudySetting, shown: Callable[[str], str]) -> None:
        self._setting, self._shown = setting, shown
        self.events: list[PlayedEvent] = []
        self._rules = {"zookeeper": OF_ZOOKEEPER, "rocketmq": OF_ROCKETMQ}.get(setting.protocol, OF_MESSAGES)
        self._hash, self._hashed = sha256(), 0
        self._world: World
        self._journal: CourseJournal | None = None

    @property
    def lines(self) -> list[JournalLine]:
        """Those of the journal so far; none without a coordinator."""
        return [] if self._journal is None else self._journal.lines

    def watch(self, world: World, group_of: Callable[[str], AnyGroup | None] | None) -> None:
        """From now on. ``group_of``: the coordinator's group of an id, where there is a coordinator."""
        self._world, world.on_flight = world, self._sent
        if group_of is not None:
            self._journal = CourseJournal(group_of)

    def trace_hash(self) -> str:
        """SHA-256 of all events, in hexadecimal: equal for equal runs."""
        for event in self.events[self._hashed :]:
            self._hash.update(f"{tuple(event)}\n".encode())
        self._hashed = len(self.events)
        return self._hash.hexdigest()

    def acted(self, name: str, member: str, detail: str) -> None:
        """The reader, a lesson or a dropped journal did something."""
        self._add(self._world.now_ms, "act", member, name, detail, "")

    def _add(
        self, time_ms: int, kind: str, member: str, name: str, detail: str, rule: str, arrives_ms: int | None = None
    ) -> None:
        start_ms = self._world.start_ms
        arrival = None if arrives_ms is None else arrives_ms - start_ms
        self.events.append(PlayedEvent(time_ms - start_ms, kind, member, name, detail, rule, arrival))

    # -- messages -----------------------------------------------------------------------------------------------------------

    def _sent(self, flight: WorldFlight) -> None:
        message, detail = flight.message, ""
        if isinstance(message, str):
            name, detail = "notice", message
        else:
            name = type(message).__name__.removesuffix("Request").removesuffix("Response")
        if isinstance(message, Message):
            code = getattr(message, "error_code", 0)
            detail = error_of(code).name if code else ""
        rule = self._rules.get(name, "")
        self._add(flight.leaves_ms, flight.kind, self._shown(flight.member), name, detail, rule, flight.arrives_ms)

    # -- the broker's steps ---------------------------------------------------------------------------------------------------

    def happened(self, step: Step) -> None:
        """A step of the coordinator becomes a line of the journal."""
        assert self._journal is not None, "watched"
        line = self._journal.add(step, self._world.now_ms)
        if line is None:
            return
        cause = line.causes[0] if line.causes else {"kind": ""}
        rule = rule_of_line(
            line.event, cause["kind"], cause.get("reason", ""), is_consumer=self._setting.protocol == "consumer"
        )
        member = self._shown(line.member or cause.get("member_id", ""))
        self._add(self._world.now_ms, "line", member, line.event, self._shown(line.why()), rule)

    # -- partitions -----------------------------------------------------------------------------------------------------------

    def owns(self, name: str, before: Set[TopicPartition], after: Set[TopicPartition], now_ms: int) -> None:
        """A member took and released partitions."""
        rule = self._rules.get("owns") or self._of_owners()
        for kind, partitions in (("releases", before - after), ("takes", after - before)):
            if partitions:
                detail = " ".join(f"{topic}-{number}" for topic, number in sorted(partitions))
                self._add(now_ms, kind, self._shown(name), str(len(partitions)), detail, rule)

    def _of_owners(self) -> str:
        if self._setting.static:
            return "static_member"
        return "reconcile" if self._setting.protocol == "consumer" else self._setting.protocol


class SeenTimeline:
    """``shown``: a member's name as the page has it."""

    def __init__(self, group: str, begin_ms: int, shown: Callable[[str], str]) -> None:
        self.timeline = Timeline(group)
        self.timeline.reach(begin_ms)
        self._shown = shown
        self._spells: dict[tuple[str, TopicPartition], Spell] = {}
        self._band: Band | None = None
        self._causes: list[dict[str, str]] = []
        self._moves = 0

    def acted(self, kind: str, member: str) -> None:
        """What the reader did is the cause of the next band, or of the one that lasts."""
        if kind in _CAUSE_OF_ACT:
            causes = self._causes if self._band is None else self._band.causes
            causes.append({"kind": _CAUSE_OF_ACT[kind], "member_id": member})
            if self._band is not None:
                self._band.why = _why(self._band)

    def owns(
        self, name: str, before: Set[TopicPartition], after: Set[TopicPartition], meter: Ownership, partitions: int
    ) -> None:
        """A member's partitions changed at the meter's last change."""
        now_ms, timeline = meter.last_change_ms, self.timeline
        if self._band is None and timeline.rebalances and now_ms - (timeline.rebalances[-1].until_ms or 0) < _REST_MS:
            self._resume(timeline.rebalances[-1])
        if self._band is None:
            number = len(timeline.rebalances) + 1
            self._band = Band(number, [BandPhase(_CONVERGING, now_ms, None)], causes=self._causes)
            self._band.why, self._causes, self._moves = _why(self._band), [], meter.moves
            timeline.rebalances.append(self._band)
        for partition in before - after:
            self._spells.pop((name, partition)).until_ms = now_ms
        for partition in sorted(after - before):
            spell = Spell(timeline.lane(partition), timeline.owner(self._shown(name)), now_ms)
            self._spells[name, partition] = spell
            timeline.owned.append(spell)
        if meter.is_whole(partitions):
            self._band.event, self._band.moved = "stable", meter.moves - self._moves
            self._band.ends(now_ms)
            self._band = None

    def _resume(self, band: Band) -> None:
        """The group had not come to rest: the band goes on."""
        self._band, band.event = band, ""
        band.phases[-1] = band.phases[-1]._replace(until_ms=None)
        band.causes += self._causes
        band.why, self._causes = _why(band), []

    def until(self, now_ms: int, meter: Ownership) -> Timeline:
        """The timeline up to now."""
        self.timeline.reach(now_ms)
        if meter.spells:
            self.timeline.add_unowned(meter.spells)
            meter.spells = []
        self.timeline.waiting = meter.unowned_since_ms
        return self.timeline


def _why(band: Band) -> str:
    return "; ".join(f"{cause['member_id']} {CAUSES[cause['kind']]}" for cause in band.causes)
