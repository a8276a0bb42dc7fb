"""What the consumer's machines ask of their driver; each effect is returned once, carried out, and its end reported back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coterie.consuming.fetch_session import Wanted
from coterie.consuming.position import Position
from coterie.consuming.record import TopicPartition
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.fetch import FetchRequest


@dataclass(frozen=True, slots=True, eq=False)
class SendFetch:
    """Send to that broker, then call `answered`, `failed` or `refused` with this effect. The response is
    for ``positions``: a partition that has another one by then was sought or assigned anew."""

    node_id: int
    request: FetchRequest
    positions: Mapping[TopicPartition, Position]
    wanted: Mapping[TopicPartition, Wanted]


@dataclass(frozen=True, slots=True)
class RefreshMetadata:
    """Ask any broker for the leaders of these topics, then call `metadata_refreshed`, also where that failed."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class PartitionFailed:
    """Report to the caller of poll: this partition cannot be read, or not within the timeout."""

    partition: TopicPartition
    code: ErrorCode


Effect = SendFetch | RefreshMetadata | PartitionFailed
