"""One run: a plan under a setting with a seed, in virtual time. It depends on these and on nothing else. Its costs are measured
alike for every protocol: readers of partitions over time, and traffic."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.laboratory.deliveries import Ownership
from coterie.laboratory.study.course import StudyCourse
from coterie.laboratory.study.group import StudySetting
from coterie.laboratory.study.workload import Plan

_IDLE_MS = 60_000
_PHASE_MS = 30_000
PATIENCE_MS = 900_000


def run(
    setting: StudySetting, plan: Plan, seed: int, *, checks: bool = True, meter: Ownership | None = None
) -> Measures:
    """Raises AssertionError where ``checks`` and a rule of the laboratory is broken; the measures are the same without."""
    return StudyRun(setting, plan, seed, checks=checks, meter=meter).measures()


class StudyRun(StudyCourse):
    """A course from the group's formation to the plan's end, and its measures. ``rest_ms``: when its events began."""

    rest_ms = 0

    def measures(self) -> Measures:
        """Runs it."""
        world, plan = self.world, self.plan
        self.begin()
        idle_per_s = self._settle() if plan.settle_ms else 0.0
        formed = not plan.settle_ms or self.meter.is_whole(plan.partitions)
        begin_ms = self.rest_ms = world.now_ms
        rebalances, (messages, size, _) = self.group.rebalances(), self.group.traffic()
        duplicates = self.load.delivered.duplicates
        self.meter.begin(begin_ms)
        for event in plan.events:
            world.at(begin_ms + event.time_ms, lambda event=event: self.happen(event))  # type: ignore[misc]
        last_ms = max((event.time_ms for event in plan.events), default=0)
        world.run_until(begin_ms + last_ms + plan.tail_ms)
        self.agreed()
        measures = self._sum_up(begin_ms, rebalances, messages, size, duplicates)
        measures.idle_per_s, measures.formed = idle_per_s, int(formed)
        return measures

    def _settle(self) -> float:
        """Until the group is at rest, but not for ever; what it sends in a second then."""
        world, plan = self.world, self.plan
        world.run_until(world.start_ms + plan.settle_ms - _IDLE_MS)
        while not self.meter.is_whole(plan.partitions) and world.now_ms - world.start_ms < PATIENCE_MS:
            world.run_until(world.now_ms + _IDLE_MS)
        before, _, _ = self.group.traffic()
        world.run_until(world.now_ms + _IDLE_MS)
        idle_per_s = (self.group.traffic()[0] - before) * 1000 / _IDLE_MS
        # So that the change comes at any point of what goes round and round: heartbeats, commits, locks, looks.
        world.run_until(world.now_ms + world.between(0, _PHASE_MS))
        return idle_per_s

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
            pause_s=sum(meter.pause_ms.values()) / 1000 / max(len(self.members), 1),
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


@dataclass(slots=True)
class Measures:
    """One run's. Times in seconds.

    ``moved``, ``unowned_s`` (per partition; a stalled owner is as good as none) and ``pause_s`` (per member) are as
    `coterie.machines.ownership` defines them; ``paused_members``: how many paused. ``doubled_s``: per partition, in which two
    members read it. ``agree_s``: from a change until the last partition had found its owner, mean over the changes.
    ``idle_per_s``: messages in a second of the group at rest; ``busiest_per_s``: in the busiest second at the
    coordinator, at ZooKeeper, or at all RocketMQ brokers.
    ``false_alarms``: members taken for dead that were not; ``gave_up``: that stopped trying; ``formed``: whether the
    group had come to rest before the first change.
    """

    changes: int = 0
    rebalances: int = 0
    unowned_s: float = 0.0
    longest_unowned_s: float = 0.0
    doubled_s: float = 0.0
    pause_s: float = 0.0
    paused_members: int = 0
    moved: int = 0
    duplicates: int = 0
    agree_s: float = 0.0
    longest_agree_s: float = 0.0
    messages: int = 0
    kilobytes: float = 0.0
    idle_per_s: float = 0.0
    busiest_per_s: int = 0
    detection_s: float = 0.0
    false_alarms: int = 0
    gave_up: int = 0
    formed: int = 1
    duration_s: float = 0.0
