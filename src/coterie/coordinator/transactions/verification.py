"""What a partition's leader knows of a producer's transaction by itself, and what it asks the coordinator for (KIP-890)."""

from __future__ import annotations

from coterie.coordinator.transactions.steps import Claim
from coterie.log.partition_log import PartitionLog

Guard = tuple[int, int, int]


def is_open(log: PartitionLog, claim: Claim) -> bool:
    """Whether the log has records of the producer's transaction that no marker has ended: they were verified before."""
    producer = log.producers.by_id.get(claim.producer_id)
    return claim.producer_id in log.transactions.open and producer is not None and producer.epoch == claim.epoch


def guard_of(log: PartitionLog, leader_epoch: int, claim: Claim) -> Guard:
    """Another one as soon as a marker of the producer has been written to the log, or another broker has led it: what was
    verified before then may be over (Kafka's VerificationGuard)."""
    producer = log.producers.by_id.get(claim.producer_id)
    return leader_epoch, -1 if producer is None else producer.epoch, 0 if producer is None else producer.markers
