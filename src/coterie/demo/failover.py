"""The demo's chapter of several brokers: the leaders of `__consumer_offsets` over time, and the effects of a kill of the broker
that coordinates crew."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from coterie.client import Admin, KafkaError
from coterie.client.admin_types import TopicDescription
from coterie.client.types import TopicPartition
from coterie.console.report import LeaderMove
from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.journal.timeline import Spell, Timeline, TimelineMark
from coterie.coordinator.partitioning import partition_for
from coterie.demo.checks import Check
from coterie.machines.ownership import UnownedSpell
from coterie.text.quantity import quantity

GROUP, OFFSETS_TOPIC = "crew", "__consumer_offsets"
LOOK_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """A partition of the offsets has this leader since ``time_ms``; None: it has none."""

    time_ms: int
    partition: int
    leader: int | None


@dataclass(slots=True)
class BrokerKill:
    """``led``: the partitions of the offsets that the broker led. ``committed``: the group's offsets before; ``kept``: what the
    next coordinator returned."""

    broker: int
    time_ms: int
    led: frozenset[int]
    committed: Mapping[TopicPartition, int]
    kept: Mapping[TopicPartition, int] = field(default_factory=dict)
    restarted_ms: int | None = None


@dataclass(slots=True)
class ClusterWatch:
    """``under_replicated`` counts partitions of all topics; ``live`` are the brokers that the cluster names."""

    changes: list[LeaderChange] = field(default_factory=list)
    leaders: dict[int, int | None] = field(default_factory=dict)
    live: frozenset[int] = frozenset()
    under_replicated: int = 0
    kill: BrokerKill | None = None
    _epochs: dict[int, int] = field(default_factory=dict)

    def look(self, time_ms: int, topics: Mapping[str, TopicDescription], live: frozenset[int]) -> None:
        """One look at the metadata. Brokers learn of a leader one after another: an older epoch changes nothing."""
        self.live = live
        self.under_replicated = sum(p.is_under_replicated for t in topics.values() for p in t.partitions)
        offsets = topics.get(OFFSETS_TOPIC)
        for info in () if offsets is None else offsets.partitions:
            leader = None if info.leader is None else info.leader.id
            if info.leader_epoch > self._epochs.get(info.partition, -1):
                self._epochs[info.partition] = info.leader_epoch
                if self.leaders.get(info.partition, 0) != leader:
                    self.leaders[info.partition] = leader
                    self.changes.append(LeaderChange(time_ms, info.partition, leader))

    @property
    def group_partition(self) -> int:
        """Where the group's offsets are."""
        return partition_for(GROUP, len(self.leaders))

    @property
    def coordinator(self) -> int | None:
        """The broker that coordinates the group."""
        return self.leaders.get(self.group_partition) if self.leaders else None

    def led_by(self, broker: int) -> frozenset[int]:
        return frozenset(partition for partition, leader in self.leaders.items() if leader == broker)

    def moved(self) -> dict[int, LeaderChange]:
        """Of the partitions that the killed broker led: the first other leader."""
        kill, moved = self.kill, dict[int, LeaderChange]()
        if kill is not None:
            for change in self.changes:
                if change.time_ms >= kill.time_ms and change.partition in kill.led and change.leader is not None:
                    moved.setdefault(change.partition, change)
        return moved

    def has_moved(self) -> bool:
        """Whether each partition that the killed broker led has another leader."""
        return self.kill is not None and self.moved().keys() == self.kill.led


async def follow(address: str, watch: ClusterWatch) -> None:
    """Looks five times a second until it is cancelled. A cluster that cannot respond yet is looked at again the next time."""
    settings = {"bootstrap.servers": address, "client.id": "demo-cluster-watcher", "default.api.timeout.ms": 0}
    async with Admin(settings) as admin:
        while True:
            try:
                topics, nodes = await admin.describe_topics(), (await admin.describe_cluster()).nodes
            except KafkaError:
                pass
            else:
                watch.look(int(time.time() * 1000), topics, frozenset(node.id for node in nodes))
            await asyncio.sleep(LOOK_EVERY_S)


async def committed_offsets(address: str) -> dict[TopicPartition, int]:
    """The group's. Raises KafkaError."""
    async with Admin({"bootstrap.servers": address}) as admin:
        return await admin.list_consumer_group_offsets(GROUP)


def successor(kill: BrokerKill, journal: list[JournalLine]) -> JournalLine | None:
    """The journal's line of the coordinator that loaded the group after the kill."""
    for line in journal:
        if line.event == "coordinator_moved" and line.group == GROUP and line.time_ms >= kill.time_ms:
            return line
    return None


def check_failover(watch: ClusterWatch, journal: list[JournalLine]) -> list[Check]:
    """The group has another coordinator, its offsets are all there, and no partition of the offsets is without a leader."""
    kill = watch.kill
    if kill is None:
        return [Check("the coordinator's death", False, "no broker was killed")]
    line = successor(kill, journal)
    moved = watch.moved().values()
    back = [partition for partition, offset in kill.committed.items() if kill.kept.get(partition, -1) < offset]
    detail = "no other broker coordinates crew"
    if line is not None:
        detail = f"{_gap_text(kill, line)}; crew is in generation {line.generation}"
    slowest_s = max((change.time_ms - kill.time_ms for change in moved), default=0) / 1000
    return [
        Check(f"crew after the death of broker {kill.broker}", line is not None, detail),
        Check(
            "its committed offsets after that",
            not back and bool(kill.committed),
            f"{quantity(len(kill.committed), 'partition')}, "
            + (f"{len(back)} went back" if back else "none went back"),
        ),
        Check(
            f"offsets' partitions of broker {kill.broker}",
            watch.has_moved(),
            f"{len(moved)} of {len(kill.led)} have another leader, after {slowest_s:.1f} s at most",
        ),
    ]


def _gap_text(kill: BrokerKill, line: JournalLine) -> str:
    gap_s = (line.time_ms - kill.time_ms) / 1000
    return f"no coordinator for {gap_s:.1f} s, then broker {line.coordinator}"


def moved_text(watch: ClusterWatch, journal: list[JournalLine]) -> str:
    """A sentence for the terminal."""
    assert watch.kill is not None, "after a kill"
    line = successor(watch.kill, journal)
    partitions = quantity(len(watch.kill.led), "partition")
    return f"{partitions} of the offsets moved" + ("" if line is None else f"; crew had {_gap_text(watch.kill, line)}")


# -- for the report -----------------------------------------------------------------------------------------------------------


def leadership(watch: ClusterWatch, start_ms: int, end_ms: int) -> Timeline:
    """Who led each partition of the offsets; a broker leads nothing from its death on, until which another one is elected."""
    timeline, kill = Timeline("__consumer_offsets"), watch.kill
    timeline.reach(start_ms, end_ms)
    for partition in sorted(watch.leaders):
        changes = [change for change in watch.changes if change.partition == partition]
        ends = [change.time_ms for change in changes[1:]] + [end_ms]
        lane = timeline.lane(("offsets", partition))
        without_ms: int | None = None  # since when it has no leader
        for change, next_ms in zip(changes, ends, strict=True):
            if change.leader is None:
                without_ms = change.time_ms if without_ms is None else without_ms
                continue
            if without_ms is not None:
                timeline.add_unowned([UnownedSpell(("offsets", partition), without_ms, without_ms, change.time_ms)])
            is_last = kill is not None and change.leader == kill.broker and change.time_ms < kill.time_ms < next_ms
            until_ms = kill.time_ms if kill is not None and is_last else next_ms
            timeline.owned.append(Spell(lane, timeline.owner(f"broker {change.leader}"), change.time_ms, until_ms))
            without_ms = until_ms if is_last else None
    if kill is not None:
        timeline.moments.append(TimelineMark(kill.time_ms, f"broker {kill.broker} is killed"))
        timeline.moments += [TimelineMark(kill.restarted_ms, "it is back")] if kill.restarted_ms is not None else []
    return timeline


def leader_moves(watch: ClusterWatch, start_ms: int) -> list[LeaderMove]:
    """The moves that the kill caused, in order of time."""
    if watch.kill is None:
        return []
    kill_ms, former = watch.kill.time_ms, watch.kill.broker
    return [
        LeaderMove(
            (change.time_ms - start_ms) / 1000,
            change.partition,
            change.partition == watch.group_partition,
            former,
            change.leader or former,
            (change.time_ms - kill_ms) / 1000,
        )
        for change in sorted(watch.moved().values(), key=lambda change: (change.time_ms, change.partition))
    ]
