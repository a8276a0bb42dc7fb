"""What the clients of a cluster's story know of a partition."""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence
from dataclasses import dataclass

from coterie.replication.states import TopicPartition


@dataclass(frozen=True, slots=True)
class KnownRecords:
    """``acknowledged``: values of records; ``read``: of each consumer, offset and value of each record."""

    partition: TopicPartition
    acknowledged: Collection[str]
    read: Sequence[Container[tuple[int, str]]] = ()
