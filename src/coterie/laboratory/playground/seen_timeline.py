"""The timeline of a group that no coordinator knows: members of ZooKeeper and RocketMQ rebalance each by itself, so what is
drawn is what they own. A band lasts from the first change until each partition has one owner again, and stays so."""

from __future__ import annotations

from collections.abc import Callable, Set

from coterie.coordinator.journal.line import CAUSES
from coterie.coordinator.journal.timeline import Band, BandPhase, Spell, Timeline
from coterie.laboratory.ownership import Ownership, TopicPartition

CONVERGING = "Converging"
REST_MS = 1_000  # a change that comes sooner is of the same band
CAUSE_OF_ACT = {"join": "member_joined", "leave": "member_left", "kill": "member_gone", "vanish": "member_gone"}


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
        if kind in CAUSE_OF_ACT:
            causes = self._causes if self._band is None else self._band.causes
            causes.append({"kind": CAUSE_OF_ACT[kind], "member_id": member})
            if self._band is not None:
                self._band.why = _why(self._band)

    def owns(
        self, name: str, before: Set[TopicPartition], after: Set[TopicPartition], meter: Ownership, partitions: int
    ) -> None:
        """A member's partitions changed at the meter's last change."""
        now_ms, timeline = meter.last_change_ms, self.timeline
        if self._band is None and timeline.rebalances and now_ms - (timeline.rebalances[-1].until_ms or 0) < REST_MS:
            self._resume(timeline.rebalances[-1])
        if self._band is None:
            number = len(timeline.rebalances) + 1
            self._band = Band(number, [BandPhase(CONVERGING, now_ms, None)], causes=self._causes)
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
