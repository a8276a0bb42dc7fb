"""One run: a plan under a setting with a seed, in virtual time. It depends on these and on nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from coterie.laboratory.ownership import Ownership
from coterie.laboratory.study.classic import ClassicGroup, ConsumerProtocolGroup
from coterie.laboratory.study.group import Load, StudyGroup, StudySetting
from coterie.laboratory.study.measures import Measures
from coterie.laboratory.study.rocketmq import RocketMQGroup
from coterie.laboratory.study.workload import Event, Plan
from coterie.laboratory.study.zookeeper import ZooKeeperGroup
from coterie.laboratory.world import World

GROUPS: Mapping[str, Callable[[Load, int], StudyGroup[Any]]] = {
    "eager": ClassicGroup,
    "cooperative": ClassicGroup,
    "consumer": ConsumerProtocolGroup,
    "zookeeper": ZooKeeperGroup,
    "rocketmq": RocketMQGroup,
}
IDLE_MS = 60_000
PHASE_MS = 30_000
PATIENCE_MS = 900_000
CLOSING_MS = 100  # after which it is seen again whether a process has ended
CHANGES = frozenset({"join", "leave", "kill", "vanish"})


def run(setting: StudySetting, plan: Plan, seed: int, *, checks: bool = True) -> Measures:
    """Raises AssertionError where ``checks`` and a rule of the laboratory is broken; the measures are the same without."""
    return _Run(setting, plan, seed, checks).measures()


class _Run:
    """The world of one run, and what is noted on the way."""

    def __init__(self, setting: StudySetting, plan: Plan, seed: int, checks: bool) -> None:
        self.plan, self.world = plan, World(seed)
        faults = self.world.faults
        faults.min_delay_ms, faults.max_delay_ms = setting.network_ms
        faults.break_probability = setting.lossy
        self.world.clock_drift = setting.clock_drift
        self.load = Load(self.world, setting, plan.partitions, plan.records_per_s, checks)
        members = plan.members + sum(event.kind == "join" for event in plan.events)
        self.group: StudyGroup[Any] = GROUPS[setting.protocol](self.load, members)
        self.agreements_ms: list[int] = []
        self._changed_ms: int | None = None
        self._ever: set[str] = set()
        self._closing: set[str] = set()  # a process ends once its last commit has

    @property
    def meter(self) -> Ownership:
        return self.load.meter

    def measures(self) -> Measures:
        world, plan = self.world, self.plan
        for name in plan.names:
            world.at(world.start_ms + world.between(0, plan.spread_ms), lambda name=name: self._join(name))  # type: ignore[misc]
        idle_per_s = self._settle() if plan.settle_ms else 0.0
        formed = not plan.settle_ms or self.meter.is_whole(plan.partitions)
        begin_ms = world.now_ms
        rebalances, (messages, size, _) = self.group.rebalances(), self.group.traffic()
        duplicates = self.load.delivered.duplicates
        self.meter.begin(begin_ms)
        for event in plan.events:
            world.at(begin_ms + event.time_ms, lambda event=event: self._happen(event))  # type: ignore[misc]
        last_ms = max((event.time_ms for event in plan.events), default=0)
        world.run_until(begin_ms + last_ms + plan.tail_ms)
        self._agreed()
        measures = self._sum_up(begin_ms, rebalances, messages, size, duplicates)
        measures.idle_per_s, measures.formed = idle_per_s, int(formed)
        return measures

    def _settle(self) -> float:
        """Until the group is at rest, but not for ever; what it sends in a second then."""
        world, plan = self.world, self.plan
        world.run_until(world.start_ms + plan.settle_ms - IDLE_MS)
        while not self.meter.is_whole(plan.partitions) and world.now_ms - world.start_ms < PATIENCE_MS:
            world.run_until(world.now_ms + IDLE_MS)
        before, _, _ = self.group.traffic()
        world.run_until(world.now_ms + IDLE_MS)
        idle_per_s = (self.group.traffic()[0] - before) * 1000 / IDLE_MS
        # So that the change comes at any point of what goes round and round: heartbeats, commits, locks, looks.
        world.run_until(world.now_ms + world.between(0, PHASE_MS))
        return idle_per_s

    def _happen(self, event: Event) -> None:
        group = self.group
        up = event.member in group.alive()
        if event.kind in CHANGES and up != (event.kind == "join"):
            self._agreed()
            self._changed_ms = self.world.now_ms
        match event.kind:
            case "join" if not up:
                self._closing.discard(event.member)
                self._join(event.member)
            case "join" if event.member in self._closing:
                self.world.after(CLOSING_MS, lambda: self._happen(event))
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
        self._agreed()
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
        self._ever.add(name)
        meter.gone(self.group.actor_name(name))
        self.group.join(name)

    def _agreed(self) -> None:
        """The time (ms) until the group converged after the previous change."""
        if self._changed_ms is not None:
            self.agreements_ms.append(max(self.meter.last_change_ms - self._changed_ms, 0))
            self._changed_ms = None

    def _sum_up(self, begin_ms: int, rebalances: int, messages: int, size: int, duplicates: int) -> Measures:
        now_ms, group, meter, removals = self.world.now_ms, self.group, self.meter, self.load.removals
        alive = {group.actor_name(name) for name in group.alive()}
        meter.end(now_ms, alive)
        sent, sent_bytes, by_second = group.traffic()
        agreed = self.agreements_ms
        return Measures(
            changes=len(agreed),
            rebalances=group.rebalances() - rebalances,
            unowned_s=sum(meter.unowned_ms.values()) / 1000 / self.load.partitions,
            longest_unowned_s=meter.longest_ms / 1000,
            doubled_s=meter.doubled_ms / 1000 / self.load.partitions,
            pause_s=sum(meter.pause_ms.values()) / 1000 / max(len(self._ever), 1),
            paused_members=len(meter.pause_ms),
            moved=meter.moves,
            duplicates=self.load.delivered.duplicates - duplicates,
            agree_s=sum(agreed) / 1000 / max(len(agreed), 1),
            longest_agree_s=max(agreed, default=0) / 1000,
            messages=sent - messages,
            kilobytes=(sent_bytes - size) / 1000,
            busiest_per_s=max((n for second, n in by_second.items() if second >= begin_ms // 1000), default=0),
            detection_s=removals.detection_ms / 1000 / max(removals.detected, 1),
            false_alarms=removals.false_alarms,
            gave_up=group.gave_up(),
            duration_s=(now_ms - begin_ms) / 1000,
        )
