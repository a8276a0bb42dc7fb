"""The world of one run, its group under one protocol, and what happens to it: the events of a plan, or of a reader's clicks.
And its journal, as its coordinator would write it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.journal.lines import JournalLines
from coterie.coordinator.replay import AnyGroup
from coterie.coordinator.shard import Step
from coterie.laboratory.deliveries import Ownership
from coterie.laboratory.study.classic import ClassicGroup, ConsumerProtocolGroup, StreamsProtocolGroup
from coterie.laboratory.study.group import Load, StudyGroup, StudySetting
from coterie.laboratory.study.rocketmq import RocketMQGroup
from coterie.laboratory.study.workload import Event, Plan
from coterie.laboratory.study.zookeeper import ZooKeeperGroup
from coterie.laboratory.world import World

GROUPS: Mapping[str, Callable[[Load, int], StudyGroup[Any]]] = {
    "eager": ClassicGroup,
    "cooperative": ClassicGroup,
    "consumer": ConsumerProtocolGroup,
    "streams": StreamsProtocolGroup,
    "zookeeper": ZooKeeperGroup,
    "rocketmq": RocketMQGroup,
}
_CLOSING_MS = 100  # after which it is seen again whether a process has ended
CHANGES = frozenset({"join", "leave", "kill", "vanish"})


class StudyCourse:
    """``plan`` has the group's size, and the members that come first; its events happen only as `happen` is called."""

    def __init__(
        self, setting: StudySetting, plan: Plan, seed: int, *, checks: bool = True, meter: Ownership | None = None
    ) -> None:
        self.plan, self.world = plan, World(seed)
        faults = self.world.faults
        faults.min_delay_ms, faults.max_delay_ms = setting.network_ms
        faults.break_probability = setting.lossy
        self.world.clock_drift = setting.clock_drift
        self.meter = Ownership() if meter is None else meter
        self.load = Load(self.world, setting, plan.partitions, plan.records_per_s, checks, self.meter)
        members = plan.members + sum(event.kind == "join" for event in plan.events)
        self.group: StudyGroup[Any] = GROUPS[setting.protocol](self.load, members)
        self.agreements_ms: list[int] = []
        self.members: set[str] = set()  # all that there ever were
        self._changed_ms: int | None = None
        self._closing: set[str] = set()  # a process ends once its last commit has

    def begin(self) -> None:
        """The first members come within the plan's `spread_ms`."""
        world = self.world
        for name in self.plan.names:
            world.at(world.start_ms + world.between(0, self.plan.spread_ms), lambda name=name: self._join(name))  # type: ignore[misc]

    def happen(self, event: Event) -> None:
        """The event happens now; it does nothing where it does not fit, as the end of a member that has ended."""
        group = self.group
        up = event.member in group.alive()
        if event.kind in CHANGES and up != (event.kind == "join"):
            self.agreed()
            self._changed_ms = self.world.now_ms
        match event.kind:
            case "join" if not up:
                self._closing.discard(event.member)
                self._join(event.member)
            case "join" if event.member in self._closing:
                self.world.after(_CLOSING_MS, lambda: self.happen(event))
            case "leave" if up:
                self._closing.add(event.member)
                group.leave(event.member)
            case "kill" | "vanish" if up:
                getattr(group, event.kind)(event.member)
            case "pause" | "cut" | "slow" if up:
                getattr(group, event.kind)(event.member, event.ms)
            case "deaf":
                group.deaf(event.ms)
            case "grow":
                self._grow(event.partitions)
        if up and not group.alive():
            self.meter.emptied(self.world.now_ms)

    def _grow(self, partitions: int) -> None:
        """The new partitions have no reader until a member is assigned them."""
        before = set(self.group.partitions())
        self.agreed()
        self._changed_ms = self.world.now_ms
        self.load.partitions = partitions
        self.group.grow(partitions)
        added = (partition for partition in self.group.partitions() if partition not in before)
        self.meter.unowned_since_ms.update(dict.fromkeys(added, self.world.now_ms))

    def _join(self, name: str) -> None:
        now_ms, meter = self.world.now_ms, self.meter
        if not self.group.alive():
            # A member that is closing may still read.
            meter.came((p for p in self.group.partitions() if not meter.readers.get(p)), now_ms)
        self.members.add(name)
        meter.gone(self.group.actor_name(name))
        self.group.join(name)

    def agreed(self) -> None:
        """The time (ms) until the group converged after the previous change."""
        if self._changed_ms is not None:
            self.agreements_ms.append(max(self.meter.last_change_ms - self._changed_ms, 0))
            self._changed_ms = None


class CourseJournal:
    """``group_of``: the coordinator's group of an id. ``lines`` are those so far."""

    def __init__(self, group_of: Callable[[str], AnyGroup | None]) -> None:
        self._group_of, self.lines = group_of, list[JournalLine]()
        self._journal = JournalLines(lambda topic_id: topic_id.rstrip(b".").decode())

    def add(self, step: Step, now_ms: int) -> JournalLine | None:
        """The line of a step; None for one that is not worth one."""
        group = self._group_of(step.group_id)
        line = None if group is None else self._journal.line(step, group, now_ms)
        if line is not None:
            self.lines.append(line)
        return line
