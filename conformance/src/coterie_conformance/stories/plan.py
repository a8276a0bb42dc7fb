"""What a seed draws before its story begins."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

INPUT, OUTPUT = "t", "out"
PARTITIONS = {INPUT: 3, OUTPUT: 2}
READERS, COPIERS = "readers", "copiers"  # groups
SYNC_EACH_APPEND = {"log.flush.interval.messages": "1", "offsets.commit.required.acks": "-1"}
EAGER, COOPERATIVE, CONSUMER, MIXED = "eager", "cooperative", "consumer", "mixed"


@dataclass(frozen=True, slots=True)
class StoryPlan:
    """``synced``: each append is on the disk before its response; ``kind``: the protocol of the readers' group; ``copiers``:
    how many members read, process and write in transactions."""

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
        }
        if self.brokers > 1:
            settings["min.insync.replicas"] = "2"
        return settings | (SYNC_EACH_APPEND if self.synced else {})


def draw_plan(seed: int, brokers: int | None = None) -> StoryPlan:
    """The plan of a seed; ``brokers`` overrides how many it has."""
    rng = random.Random(f"plan {seed}")
    drawn = rng.choice((1, 3, 3, 4))
    return StoryPlan(
        seed,
        brokers or drawn,
        synced=rng.random() < 0.5,
        kind=rng.choice((EAGER, COOPERATIVE, CONSUMER, MIXED)),
        plain_producers=rng.randint(0, 1),
        idempotent_producers=rng.randint(1, 2),
        transactional_producers=rng.randint(0, 2),
        readers=rng.randint(1, 4),
        copiers=rng.randint(0, 2),
        read_committed=rng.random() < 0.5,
        loss=rng.choice((0.0, 0.0, 0.01, 0.05)),
        split=rng.choice((0.0, 0.1)),
        max_latency_s=rng.choice((0.001, 0.01, 0.1)),
    )
