"""What a seed draws before its story begins."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

INPUT, OUTPUT = "t", "out"
PARTITIONS = {INPUT: 3, OUTPUT: 2}
READERS, COPIERS, LEDGER, ORPHANS = "readers", "copiers", "ledger", "orphans"  # groups
SYNC_EACH_APPEND = {"log.flush.interval.messages": "1", "offsets.commit.required.acks": "-1"}
SMALL_SEGMENTS = {
    "log.segment.bytes": "3000",
    "log.index.interval.bytes": "200",
    "offsets.topic.segment.bytes": "4000",
    "transaction.state.log.segment.bytes": "4000",
    "log.retention.check.interval.ms": "30000",
}
SMALL_BATCHES = {"max.message.bytes": "300"}  # of the input topic: larger batches are split
CLUSTER_PACE = 0.3  # its sessions are shorter
EAGER, COOPERATIVE, CONSUMER, MIXED = "eager", "cooperative", "consumer", "mixed"


@dataclass(frozen=True, slots=True)
class StoryPlan:
    """``synced``: each append is on the disk before its response; ``kind``: the protocol of the readers' group; ``copiers``:
    how many members read, process and write in transactions; ``rivals``: the transactional producers share an id, and fence
    each other; ``ledger``: their transactions commit offsets; ``transaction_version``: of the feature (KIP-890); ``orphan``:
    the groups' log has an offset that no transaction will ever end; ``deletes``: older records are deleted now and then;
    ``claims``: a process asks for producer ids, also for one that it claims to have. Of a cluster: ``administers``, whether
    topics are made, changed and deleted; ``rebalances_leaders``, whether first replicas lead again soon; ``reserves_ids``,
    whether many producers begin; ``drift``, by how much a broker's clock may run too fast or too slow. ``pace``: the times
    between faults and their lengths, in those of a story of one broker; ``transaction_timeout_ms``: of the members that copy,
    ``copying_s``: how long one takes for what it has polled; ``only``: the names of the faults that occur, all where
    it is empty."""

    seed: int
    brokers: int
    synced: bool
    kind: str
    plain_producers: int
    idempotent_producers: int
    transactional_producers: int
    readers: int
    copiers: int
    read_committed: bool
    loss: float
    split: float
    max_latency_s: float
    small_segments: bool
    small_batches: bool
    rivals: bool
    ledger: bool
    transaction_version: int
    orphan: bool
    static_readers: bool
    deletes: bool
    claims: bool
    assignment_interval_ms: int
    administers: bool = False
    rebalances_leaders: bool = False
    reserves_ids: bool = False
    drift: float = 0.0
    pace: float = 1.0
    transaction_timeout_ms: int = 10_000
    copying_s: tuple[float, ...] = (0.0, 0.01, 0.1, 0.5)
    only: tuple[str, ...] = ()

    def topic_settings(self, topic: str) -> Mapping[str, str]:
        """By Kafka's names."""
        return SMALL_BATCHES if self.small_batches and topic == INPUT else {}

    def settings(self) -> Mapping[str, object]:
        """Of the brokers."""
        settings: dict[str, object] = {
            "group.initial.rebalance.delay.ms": "100",
            "group.consumer.heartbeat.interval.ms": "1000",
            "group.consumer.min.heartbeat.interval.ms": "500",
            "group.consumer.session.timeout.ms": "10000",
            "group.consumer.min.session.timeout.ms": "3000",
            "auto.create.topics.enable": "false",
            "num.partitions": "3",
            "group.consumer.assignment.interval.ms": str(self.assignment_interval_ms),
        }
        if self.small_segments:
            settings |= SMALL_SEGMENTS
        if self.brokers > 1:
            settings["min.insync.replicas"] = "2"
            settings["replica.fetch.wait.max.ms"] = "500"
            settings["replica.lag.time.max.ms"] = "1000"
            settings["auto.leader.rebalance.enable"] = str(self.rebalances_leaders).lower()
            settings["leader.imbalance.check.interval.seconds"] = "2"
            settings["leader.imbalance.per.broker.percentage"] = "0"
        return settings | (SYNC_EACH_APPEND if self.synced else {})


def draw_plan(seed: int, brokers: int | None = None, **overrides: Any) -> StoryPlan:
    """The plan of a seed; ``brokers`` overrides how many it has, ``overrides`` what else a plan has."""
    rng = random.Random(f"plan {seed}")
    drawn, copiers = rng.choice((1, 3, 3, 4)), rng.choice((0, 0, 1, 2))
    brokers = brokers or drawn
    plan = StoryPlan(
        seed,
        brokers,
        synced=rng.random() < 0.5,
        kind=rng.choice((EAGER, COOPERATIVE, CONSUMER, MIXED)),
        plain_producers=rng.randint(0, 1),
        idempotent_producers=rng.randint(1, 2),
        transactional_producers=rng.randint(0, 2),
        readers=rng.randint(1, 4),
        copiers=copiers,
        read_committed=rng.random() < 0.5,
        loss=rng.choice((0.0, 0.0, 0.01, 0.05)),
        split=rng.choice((0.0, 0.1)),
        max_latency_s=rng.choice((0.001, 0.01, 0.1)),
        small_segments=rng.random() < 0.5,
        small_batches=rng.random() < 0.3,
        rivals=rng.random() < 0.3,
        ledger=rng.random() < 0.5,
        transaction_version=rng.choice((0, 2, 2)) if brokers == 1 else 2,
        orphan=brokers == 1 and rng.random() < 0.2,
        static_readers=rng.random() < 0.2,
        deletes=not copiers and rng.random() < 0.4,
        claims=rng.random() < 0.3,
        assignment_interval_ms=rng.choice((0, 1_000, 3_000)),
    )
    if plan.brokers > 1:
        plan = replace(
            plan,
            administers=rng.random() < 0.5,
            rebalances_leaders=rng.random() < 0.5,
            reserves_ids=rng.random() < 0.1,
            drift=rng.choice((0.0, 0.0, 0.1)),
            pace=CLUSTER_PACE,
        )
    plan = replace(plan, **overrides)
    return replace(plan, deletes=plan.deletes and not plan.copiers)  # what was copied must stay, to be compared
