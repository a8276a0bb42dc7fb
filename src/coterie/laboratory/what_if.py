"""What would have happened: a churn trace replayed under other settings, in virtual time, by the real coordinator and the
real member machines. A run is a function of (trace, workload, setting, seed) and of nothing else.

The consumers read at a steady rate and commit at an interval, so that what is delivered twice can be counted: what a former
owner had read beyond the offset that the next one begins from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from coterie.assignors import ASSIGNORS
from coterie.coordinator import events as e
from coterie.coordinator.offsets.fetch import fetch_offsets
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.shard import Decision, Step
from coterie.laboratory.broker_actor import BrokerActor
from coterie.laboratory.churn import SETTLE_MS, Change, at_most, shortened
from coterie.laboratory.member_actor import GROUP, MemberActor
from coterie.laboratory.ownership import Ownership, TopicPartition
from coterie.laboratory.world import World
from coterie.member.config import MemberConfig

TOPIC = "t"
CLOSE_MS = 50  # longer than the network takes, so that a closing member's commit comes before its leave
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Setting:
    """One point of the grid. ``removal`` kill: a process that goes says nothing; leave: it closes in order. ``members``:
    the group is cut to at most so many; 0 for all."""

    assignor: str = "range"
    static: bool = False
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    initial_delay_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    removal: str = "kill"
    members: int = 0

    def problem(self) -> str | None:
        """Why no group can run like this; None if it can."""
        if self.assignor not in ASSIGNORS:
            return f"there is no assignor {self.assignor}; there are {', '.join(ASSIGNORS)}"
        if self.removal not in ("kill", "leave"):
            return f"removal is kill or leave, not {self.removal}"
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            return "heartbeat.interval.ms must be lower than session.timeout.ms"
        return None


@dataclass(frozen=True, slots=True)
class Workload:
    """What the members do. A slow poll keeps the heartbeats going; a pause stops the whole process, as a collector of
    garbage or a suspended machine does; both are of random length around the mean."""

    partitions: int = 24
    records_per_s: int = 100  # per partition
    auto_commit_interval_ms: int = 5_000
    listener_ms: int = 100
    slow_polls_per_hour: float = 0.0  # per member
    slow_poll_ms: int = 400_000
    pauses_per_hour: float = 0.0
    pause_ms: int = 8_000


@dataclass(slots=True)
class Costs:
    """What it came to. Times in ms; ``unowned_ms`` summed over partitions while the group had members; ``detection_ms``:
    from a kill until the coordinator knew, summed over ``detected`` of the ``kills``; ``false_alarms``: removals of members
    that were alive."""

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


@dataclass(slots=True)
class _Tally:
    """What the actors count together."""

    costs: Costs = field(default_factory=Costs)
    delivered: dict[TopicPartition, int] = field(default_factory=dict)
    killed_ms: dict[str, int] = field(default_factory=dict)  # member id -> when its process ended
    closed: set[str] = field(default_factory=set)  # member ids of those that left; a static one is silent about it


class _Broker(BrokerActor):
    """Watches who is removed, and why."""

    def __init__(self, world: World, config: CoordinatorConfig, partitions: dict[str, int], tally: _Tally) -> None:
        self._tally = tally
        super().__init__(world, config, partitions, compacts=False)

    def _kept(self, decision: Decision, steps: list[Step]) -> None:
        for step in steps:
            if isinstance(step.event, e.MemberRemoved):
                self._removed(step.event)
        super()._kept(decision, steps)

    def _removed(self, event: e.MemberRemoved) -> None:
        costs = self._tally.costs
        killed_ms = self._tally.killed_ms.pop(event.member_id, None)
        if killed_ms is not None:
            took_ms = self.world.now_ms - killed_ms
            costs.detected += 1
            costs.detection_ms += took_ms
            costs.longest_detection_ms = max(costs.longest_detection_ms, took_ms)
        elif event.member_id not in self._tally.closed:
            gave_up = "max.poll.interval.ms" in (event.cause.reason or "")
            costs.false_alarms += event.cause.kind != "member_left" or gave_up


class _Member(MemberActor):
    """Reads at a steady rate; works out what it has read only when somebody asks."""

    def __init__(
        self,
        world: World,
        broker: BrokerActor,
        name: str,
        config: MemberConfig,
        ownership: Ownership,
        load: Workload,
        tally: _Tally,
    ) -> None:
        super().__init__(world, broker, name, config, frozenset({TOPIC}), ownership)
        self.listener_ms, self._load, self._tally = load.listener_ms, load, tally
        self._since_ms: dict[TopicPartition, int] = {}

    def _poll(self) -> None:
        """A sign of life often enough, an automatic commit, and now and then trouble."""
        life, load = self._life, self._load
        interval_ms = min(load.auto_commit_interval_ms, max(self.config.max_poll_interval_ms // 3, 1))

        def again() -> None:
            if self.alive and self._life == life:
                self._trouble(interval_ms)
                if self.world.now_ms >= self.stalled_until_ms:
                    self.machine.polled(self.clock_ms())
                    self._pump()
                    if self.owned:
                        self._read()
                        self._send(self._commit())
                self._poll()

        self.world.after(interval_ms + self.world.between(0, interval_ms // 10), again)

    def _trouble(self, interval_ms: int) -> None:
        world, load = self.world, self._load
        if world.chance(load.slow_polls_per_hour * interval_ms / HOUR_MS):
            self.stalled_until_ms = world.now_ms + int(load.slow_poll_ms * world.random.expovariate(1))
        if world.chance(load.pauses_per_hour * interval_ms / HOUR_MS):
            self.cut_off_until_ms = world.now_ms + int(load.pause_ms * world.random.expovariate(1))

    def _read(self) -> None:
        """Up to now; while it is stalled or paused it reads nothing."""
        now_ms, tally = self.world.now_ms, self._tally
        for partition, since_ms in self._since_ms.items():
            read = (now_ms - since_ms) * self._load.records_per_s // 1000
            if read and now_ms >= max(self.stalled_until_ms, self.cut_off_until_ms):
                self.positions[partition] += read
                tally.delivered[partition] = max(tally.delivered.get(partition, 0), self.positions[partition])
                self._since_ms[partition] = now_ms

    def _give_up(self, partitions: set[TopicPartition], lost: bool) -> None:
        self._read()
        if not lost and self.owned:
            self._send(self._commit())
        super()._give_up(partitions, lost)
        self._since_ms = {tp: since for tp, since in self._since_ms.items() if tp in self.owned}

    def crash(self) -> None:
        self._read()
        self._since_ms.clear()
        super().crash()

    def leave(self) -> None:
        """A clean close: what was read is committed first."""
        self._read()
        self._since_ms.clear()
        if self.owned:
            self._send(self._commit())
        self._after(CLOSE_MS, super().leave)

    def _resume(self, added: tuple[TopicPartition, ...]) -> None:
        asked: dict[str, list[int]] = {}
        for topic, partition in added:
            asked.setdefault(topic, []).append(partition)
        group = self.broker.shard.groups.get(GROUP)
        for topic, found in fetch_offsets(group, asked).items():
            for p in found:
                where, begin = (topic, p.partition_index), max(p.committed_offset, 0)
                self._tally.costs.duplicates += max(self._tally.delivered.get(where, 0) - begin, 0)
                self.positions[where] = begin
                self._since_ms[where] = self.world.now_ms


def quiet_ms(setting: Setting, load: Workload) -> int:
    """How long a stretch without changes must be for everything to come to rest in it."""
    longest_ms = max(setting.session_timeout_ms, 2 * load.auto_commit_interval_ms)
    if load.slow_polls_per_hour or load.pauses_per_hour:
        return HOUR_MS  # trouble is a matter of time: hardly anything may be cut
    return longest_ms + SETTLE_MS


def run(changes: Sequence[Change], load: Workload, setting: Setting, seed: int) -> Costs:
    """The trace under that setting. Raises AssertionError where a rule of the laboratory is broken."""
    problem = setting.problem()
    assert problem is None, problem
    limited = at_most(changes, setting.members) if setting.members else changes
    trace = shortened(limited, quiet_ms(setting, load))
    world, tally, ownership = World(seed), _Tally(), Ownership()
    config = CoordinatorConfig(
        group_initial_rebalance_delay_ms=setting.initial_delay_ms,
        group_min_session_timeout_ms=min(setting.session_timeout_ms, 6_000),
    )
    broker = _Broker(world, config, {TOPIC: load.partitions}, tally)
    replay = _Replay(world, broker, ownership, load, setting, tally)
    for change in trace:
        world.at(world.start_ms + change.time_ms, lambda change=change: replay.apply(change))  # type: ignore[misc]
    end_ms = world.start_ms + trace[-1].time_ms + quiet_ms(setting, load)
    world.run_until(end_ms)
    return replay.costs(end_ms)


class _Replay:
    """The trace's members, by name."""

    def __init__(
        self, world: World, broker: _Broker, ownership: Ownership, load: Workload, setting: Setting, tally: _Tally
    ) -> None:
        self._world, self._broker, self._ownership = world, broker, ownership
        self._load, self._setting, self._tally = load, setting, tally
        self._members: dict[str, _Member] = {}
        self._nobody_since_ms: int | None = None
        self._nobody_ms = 0

    def apply(self, change: Change) -> None:
        if change.joins:
            self._join(change.member)
        elif change.member in self._members and self._members[change.member].alive:
            self._go(self._members[change.member])

    def _join(self, name: str) -> None:
        s = self._setting
        if self._nobody_since_ms is not None:
            self._nobody_ms += self._world.now_ms - self._nobody_since_ms
            self._nobody_since_ms = None
        config = MemberConfig(
            GROUP,
            name if s.static else None,
            s.session_timeout_ms,
            s.heartbeat_interval_ms,
            s.max_poll_interval_ms,
            assignors=(s.assignor,),
        )
        member = _Member(self._world, self._broker, name, config, self._ownership, self._load, self._tally)
        self._members[name] = member
        member.start()

    def _go(self, member: _Member) -> None:
        if self._setting.removal == "leave":
            self._tally.closed.add(member.machine.member_id)
            member.leave()
        else:
            member_id = member.machine.member_id
            self._tally.costs.kills += 1
            if member_id:
                self._tally.killed_ms[member_id] = self._world.now_ms
            member.crash()
        if not any(m.alive and m is not member for m in self._members.values()):
            self._nobody_since_ms = self._world.now_ms

    def costs(self, end_ms: int) -> Costs:
        """Partitions that nobody could have owned, since there was nobody, are not counted."""
        costs, ownership = self._tally.costs, self._ownership
        unowned = dict(ownership.unowned_ms)
        if self._nobody_since_ms is None:
            for tp, since_ms in ownership.unowned_since_ms.items():
                unowned[tp] = unowned.get(tp, 0) + end_ms - since_ms
        else:
            for tp, since_ms in ownership.unowned_since_ms.items():
                unowned[tp] = unowned.get(tp, 0) + max(self._nobody_since_ms - since_ms, 0)
        costs.rebalances = self._broker.rebalances
        costs.unowned_ms = max(sum(unowned.values()) - self._nobody_ms * len(unowned), 0)
        costs.longest_unowned_ms = max(unowned.values(), default=0)
        costs.moved = ownership.moves
        costs.requests = self._broker.requests
        costs.duration_ms = end_ms - self._world.start_ms
        return costs
