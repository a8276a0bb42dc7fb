"""What a coordinator's partition may have lost: batches that its load skipped, and damage that was set aside.

A group whose commits are gone would go on from an older offset or from none, and its next commit would hide that. So no request
for a group of such a partition of `__consumer_offsets` is served, as by Kafka 4.3 after a load that failed, until an
administrator accepts each loss by its mark in coterie.offsets.losses.accepted.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from coterie.broker.storage.topic import Partition
from coterie.log.reading import SkippedBatch
from coterie.log.segments.recovery import SET_ASIDE

logger = logging.getLogger(__name__)

SETTING = "coterie.offsets.losses.accepted"
EVERY = "*"


@dataclass(frozen=True, slots=True)
class Loss:
    """``mark``: how the setting names it, PARTITION@OFFSET or PARTITION@FILE; ``text``: a clause."""

    mark: str
    text: str


def losses_of(partition: Partition, skipped: Iterable[SkippedBatch], accepted: Collection[str]) -> list[Loss]:
    """What is not accepted of it. Raises OSError."""
    if EVERY in accepted:
        return []
    index, log = partition.index, partition.log
    losses = [Loss(f"{index}@{batch.first_offset}", f"{batch} and is skipped") for batch in skipped]
    if not partition.in_cluster:  # a replica's gap is filled by its leader
        aside = [name for name in log.fs.names(log.directory) if SET_ASIDE in name]
        losses += [Loss(f"{index}@{name}", f"damage was set aside in {log.directory}/{name}") for name in aside]
    return [loss for loss in losses if loss.mark not in accepted]


def log_losses(partition: Partition, losses: Collection[Loss], accepted: Iterable[str]) -> None:
    """What may be missing, and what an administrator can do."""
    name = f"{partition.topic}-{partition.index}"
    for loss in losses:
        logger.error("%s: %s; commits and members of groups that it held are missing", name, loss.text)
    logger.error("%s: %s", name, remedy(losses, accepted))


def remedy(losses: Iterable[Loss], accepted: Iterable[str]) -> str:
    """What an administrator can do."""
    marks = ",".join([*accepted, *(loss.mark for loss in losses)])
    wanted = f"set {SETTING}={marks} for this broker, now or at a start"
    return f"its groups get NOT_COORDINATOR until the loss is accepted: {wanted}"


def verdict(partition: Partition, losses: Collection[Loss], accepted: Iterable[str]) -> str:
    """Why a group of the partition is not served, in one sentence; "" where nothing is lost."""
    if not losses:
        return ""
    texts = "; ".join(loss.text for loss in losses)
    return f"{partition.topic}-{partition.index} may have lost commits ({texts}); {remedy(losses, accepted)}"


def log_skipped(partition: Partition, batch: SkippedBatch) -> None:
    """For transactions, whose coordinator goes on with what it could read, as Kafka's."""
    text = "%s-%d: %s and is skipped; transactional ids whose last state it held are in an earlier one, or unknown"
    logger.error(text, partition.topic, partition.index, batch)
