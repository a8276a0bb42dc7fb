"""What-if: a churn trace replayed under other settings, in virtual time, by the real coordinator and the
real member machines. A run is a function of (trace, workload, setting, seed) and of nothing else.

The consumers read at a steady rate and commit at an interval, so that what is delivered twice can be counted: what a former
owner had read beyond the offset that the next one begins from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from coterie.assignors import ASSIGNORS
from coterie.configuration import (
    BOOLEAN,
    INT,
    STRING,
    Rule,
    Setting,
    ValueType,
    at_least,
    declared,
    one_of,
    settings_of,
)
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.laboratory.brokers.broker_actor import WatchingBroker
from coterie.laboratory.churn import SETTLE_MS, MembershipChange, at_most, shortened
from coterie.laboratory.deliveries import Delivered, Ownership
from coterie.laboratory.members.group_member_actor import GROUP
from coterie.laboratory.members.reading_member import HOUR_MS, TOPIC, ReadingMember, Workload
from coterie.laboratory.world import World
from coterie.member.config import MemberConfig

T = TypeVar("T")


def _axis(name: str, value_type: ValueType[T], default: T, documentation: str, rule: Rule | None = None) -> T:
    return declared(Setting(name, value_type, default, rule, documentation))


@dataclass(frozen=True, slots=True)
class WhatIfSetting:
    """One point of the grid; with Kafka's names where Kafka has one (`GRID_SETTINGS`)."""

    assignor: str = _axis(
        "partition.assignment.strategy", STRING, "range", "The assignor of every member.", one_of(*ASSIGNORS)
    )
    static: bool = _axis("static", BOOLEAN, False, "Whether members are static (KIP-345).")
    session_timeout_ms: int = _axis("session.timeout.ms", INT, 45_000, "As the client's.", at_least(0))
    heartbeat_interval_ms: int = _axis("heartbeat.interval.ms", INT, 3_000, "As the client's.", at_least(0))
    initial_delay_ms: int = _axis("group.initial.rebalance.delay.ms", INT, 3_000, "As the broker's.", at_least(0))
    max_poll_interval_ms: int = _axis("max.poll.interval.ms", INT, 300_000, "As the client's.", at_least(0))
    removal: str = _axis(
        "removal", STRING, "kill", "kill: without LeaveGroup; leave: closed cleanly.", one_of("kill", "leave")
    )
    members: int = _axis("members", INT, 0, "The group is cut to at most so many; 0: all.", at_least(0))

    def problem(self) -> str | None:
        """Why no group can run like this; None if it can."""
        if self.assignor not in ASSIGNORS:
            return f"there is no assignor {self.assignor}; there are {', '.join(ASSIGNORS)}"
        if self.removal not in ("kill", "leave"):
            return f"removal is kill or leave, not {self.removal}"
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            return "heartbeat.interval.ms must be lower than session.timeout.ms"
        return None


GRID_SETTINGS: dict[str, Setting[object]] = settings_of(WhatIfSetting, Setting)


@dataclass(slots=True)
class Costs:
    """The costs of a run. Times in ms; ``moved`` and ``unowned_ms`` (summed over partitions) are as
    `coterie.machines.ownership` defines them; ``longest_unowned_ms``: the longest time that one partition was unowned;
    ``detection_ms``: from a kill until the coordinator knew, summed over ``detected`` of the ``kills``; ``false_alarms``:
    removals of members that were alive."""

    rebalances: int = 0
    unowned_ms: int = 0
    longest_unowned_ms: int = 0
    moved: int = 0
    duplicates: int = 0
    kills: int = 0
    detected: int = 0
    detection_ms: int = 0
    longest_detection_ms: int = 0
    false_alarms: int = 0
    requests: int = 0
    duration_ms: int = 0


def quiet_ms(setting: WhatIfSetting, load: Workload) -> int:
    """The length (ms) of a stretch without changes in which a group surely converges."""
    longest_ms = max(setting.session_timeout_ms, 2 * load.auto_commit_interval_ms)
    if load.slow_polls_per_hour or load.pauses_per_hour:
        return HOUR_MS  # trouble is a matter of time: hardly anything may be cut
    return longest_ms + SETTLE_MS


def run(changes: Sequence[MembershipChange], load: Workload, setting: WhatIfSetting, seed: int) -> Costs:
    """The trace under that setting. Raises AssertionError where a rule of the laboratory is broken."""
    problem = setting.problem()
    assert problem is None, problem
    limited = at_most(changes, setting.members) if setting.members else changes
    trace = shortened(limited, quiet_ms(setting, load))
    world, ownership = World(seed), Ownership()
    config = CoordinatorConfig(
        group_initial_rebalance_delay_ms=setting.initial_delay_ms,
        group_min_session_timeout_ms=min(setting.session_timeout_ms, 6_000),
    )
    broker = WatchingBroker(world, config, {TOPIC: load.partitions})
    replay = _Replay(world, broker, ownership, load, setting)
    for change in trace:
        world.at(world.start_ms + change.time_ms, lambda change=change: replay.apply(change))  # type: ignore[misc]
    end_ms = world.start_ms + trace[-1].time_ms + quiet_ms(setting, load)
    world.run_until(end_ms)
    return replay.costs(end_ms)


class _Replay:
    """The trace's members, by name."""

    def __init__(
        self, world: World, broker: WatchingBroker, ownership: Ownership, load: Workload, setting: WhatIfSetting
    ) -> None:
        self._world, self._broker, self._ownership = world, broker, ownership
        self._load, self._setting = load, setting
        self._delivered = Delivered()
        self._kills = 0
        self._members: dict[str, ReadingMember] = {}

    def apply(self, change: MembershipChange) -> None:
        if change.joins:
            self._join(change.member)
        elif change.member in self._members and self._members[change.member].alive:
            self._go(self._members[change.member])

    def _join(self, name: str) -> None:
        s = self._setting
        if not any(m.alive for m in self._members.values()):
            readers = self._ownership.readers  # a member that is closing may still read
            partitions = ((TOPIC, p) for p in range(self._load.partitions))
            self._ownership.came((p for p in partitions if not readers.get(p)), self._world.now_ms)
        config = MemberConfig(
            GROUP,
            name if s.static else None,
            s.session_timeout_ms,
            s.heartbeat_interval_ms,
            s.max_poll_interval_ms,
            assignors=(s.assignor,),
        )
        member = ReadingMember(
            self._world,
            self._broker,
            name,
            config,
            ownership=self._ownership,
            load=self._load,
            delivered=self._delivered,
        )
        self._members[name] = member
        member.start()

    def _go(self, member: ReadingMember) -> None:
        if self._setting.removal == "leave":
            self._broker.removals.closed.add(member.machine.member_id)
            member.leave()
        else:
            member_id = member.machine.member_id
            self._kills += 1
            if member_id:
                self._broker.removals.killed_ms[member_id] = self._world.now_ms
            member.crash()
        if not any(m.alive and m is not member for m in self._members.values()):
            self._ownership.emptied(self._world.now_ms)

    def costs(self, end_ms: int) -> Costs:
        """``end_ms``: now."""
        removals, ownership = self._broker.removals, self._ownership
        ownership.end(end_ms, {name for name, member in self._members.items() if member.alive})
        return Costs(
            rebalances=self._broker.rebalances,
            unowned_ms=sum(ownership.unowned_ms.values()),
            longest_unowned_ms=ownership.longest_ms,
            moved=ownership.moves,
            duplicates=self._delivered.duplicates,
            kills=self._kills,
            detected=removals.detected,
            detection_ms=removals.detection_ms,
            longest_detection_ms=removals.longest_detection_ms,
            false_alarms=removals.false_alarms,
            requests=self._broker.requests,
            duration_ms=end_ms - self._world.start_ms,
        )
