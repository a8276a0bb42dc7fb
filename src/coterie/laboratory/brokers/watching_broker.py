"""A broker that watches whom its coordinator removes, and why: deaths that were noticed, and false alarms."""

from __future__ import annotations

from dataclasses import dataclass, field

from coterie.coordinator import events as e
from coterie.coordinator.consumer import events as c
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.shard import Decision, Step
from coterie.coordinator.state import Cause
from coterie.coordinator.streams import events as s
from coterie.laboratory.brokers.broker_actor import BrokerActor
from coterie.laboratory.world import World

REMOVALS = e.MemberRemoved | c.SubscriptionRemoved | s.StreamsMetadataRemoved


@dataclass(slots=True)
class Removals:
    """``detection_ms``: from a kill until the coordinator knew, summed over ``detected``; ``false_alarms``: removals of
    members that were alive."""

    detected: int = 0
    detection_ms: int = 0
    longest_detection_ms: int = 0
    false_alarms: int = 0
    killed_ms: dict[str, int] = field(default_factory=dict)  # member id -> when its process ended
    closed: set[str] = field(default_factory=set)  # ids of departed members; a static one sends no LeaveGroup

    def noticed(self, killed_ms: int, now_ms: int) -> None:
        """A death was noticed at ``now_ms``."""
        took_ms = now_ms - killed_ms
        self.detected += 1
        self.detection_ms += took_ms
        self.longest_detection_ms = max(self.longest_detection_ms, took_ms)


class WatchingBroker(BrokerActor):
    """``checks`` False for groups of thousands."""

    def __init__(
        self, world: World, config: CoordinatorConfig, partitions: dict[str, int], *, checks: bool = True
    ) -> None:
        self.removals = Removals()
        super().__init__(world, config, partitions, checks=checks)

    def _committed(self, decision: Decision, steps: list[Step]) -> None:
        for step in steps:
            if isinstance(step.event, REMOVALS) and step.event.cause is not None:
                self._removed(step.event.member_id, step.event.cause)
        super()._committed(decision, steps)

    def _removed(self, member_id: str, cause: Cause) -> None:
        removals = self.removals
        killed_ms = removals.killed_ms.pop(member_id, None)
        if killed_ms is not None:
            removals.noticed(killed_ms, self.world.now_ms)
        elif member_id not in removals.closed:
            gave_up = "max.poll.interval.ms" in (cause.reason or "")
            removals.false_alarms += cause.kind not in ("member_left", "member_replaced") or gave_up
