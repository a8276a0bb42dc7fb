"""What the consumer's machines request of their driver; each effect is returned once, carried out, and its end reported
back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coterie.consuming.fetching.position import Position
from coterie.consuming.fetching.requests import Wanted
from coterie.consuming.record import TopicPartition
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.fetch import FetchRequest
from coterie.wire.messages.logs.offset_for_leader_epoch import OffsetForLeaderEpochRequest


@dataclass(frozen=True, slots=True, eq=False)
class SendFetch:
    """Send to that broker, then call `responded`, `failed` or `refused` with this effect. The response is
    for ``positions``: a partition that has another one by then was sought or assigned again. ``by_id``: every topic is named by
    its id too, so that versions above `wire.topic_names.FETCH` may be used."""

    node_id: int
    request: FetchRequest
    positions: Mapping[TopicPartition, Position]
    wanted: Mapping[TopicPartition, Wanted]
    by_id: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class SendValidation:
    """Send to that broker, then call `validated`, `validation_failed` or, where the broker has no version from VALIDATED_FROM
    on, `validation_unserved`. ``positions`` as in `SendFetch`."""

    node_id: int
    request: OffsetForLeaderEpochRequest
    positions: Mapping[TopicPartition, Position]
    leader_epochs: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class RefreshMetadata:
    """Ask any broker for the leaders of these topics, then call `metadata_refreshed`, also where that failed."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class PartitionFailed:
    """Report to the caller of poll: this partition cannot be read, or not within the timeout."""

    partition: TopicPartition
    code: ErrorCode


@dataclass(frozen=True, slots=True)
class LogTruncated:
    """Report to the caller of poll, or to the log where the position was reset: the leader's log was cut before ``offset``.
    ``divergent_offset``: up to where it is the log that was read (-1 where it has nothing of it), of ``divergent_epoch``."""

    partition: TopicPartition
    offset: int
    divergent_offset: int
    divergent_epoch: int


Effect = SendFetch | SendValidation | RefreshMetadata | PartitionFailed | LogTruncated


@dataclass(frozen=True, slots=True)
class LookUpCoordinator:
    """Find the group's coordinator, put it into the cluster's metadata, then call the machine's ``coordinator_looked_up``."""
