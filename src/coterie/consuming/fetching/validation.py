"""Whether a position is still in its partition's log after another leader was elected (KIP-320): the new leader's log may have
been cut before it (SubscriptionState.maybeCompleteValidation, OffsetsForLeaderEpochUtils).

A position whose last record is of an older leader epoch than the metadata's is validated before it is fetched; one of the same
epoch is not, since no leader cuts what it has written itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coterie.consuming.fetching.position import UNKNOWN_EPOCH, FetchState, Position
from coterie.consuming.record import TopicPartition
from coterie.machines.cluster_metadata import ClusterMetadata
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.logs.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

VALIDATED_FROM = (
    3  # the first version of OffsetForLeaderEpoch that a consumer may use: older ones need rights on the cluster
)
_UNDEFINED_OFFSET = -1


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """Where the newest epoch up to the position's ends in the leader's log: ``end_offset`` -1 where the log has none of
    them."""

    code: ErrorCode
    leader_epoch: int = UNKNOWN_EPOCH
    end_offset: int = _UNDEFINED_OFFSET

    @property
    def is_undefined(self) -> bool:
        """Whether the leader cannot tell."""
        return self.end_offset == _UNDEFINED_OFFSET or self.leader_epoch == UNKNOWN_EPOCH


def is_to_validate(position: Position, leader_epoch: int) -> bool:
    """``leader_epoch``: the metadata's, -1 where it has none."""
    return position.state is FetchState.FETCHING and UNKNOWN_EPOCH < position.known_epoch < leader_epoch > (
        position.validated_epoch
    )


def validation_request(
    positions: Mapping[TopicPartition, Position], known: ClusterMetadata
) -> OffsetForLeaderEpochRequest:
    """The request to the leader of these partitions."""
    topics: dict[str, OffsetForLeaderTopic] = {}
    for (topic, index), position in positions.items():
        entry = topics.setdefault(topic, OffsetForLeaderTopic(topic))
        entry.partitions.append(
            OffsetForLeaderPartition(index, known.leader_epoch(topic, index), position.offset_epoch)
        )
    return OffsetForLeaderEpochRequest(topics=list(topics.values()))


def epoch_ends(
    response: OffsetForLeaderEpochResponse, positions: Mapping[TopicPartition, Position]
) -> dict[TopicPartition, EpochEnd]:
    """The end of the epoch of each partition of the request; one that the response does not name has failed."""
    ends = dict.fromkeys(positions, EpochEnd(ErrorCode.NETWORK_EXCEPTION))
    for topic in response.topics:
        for result in topic.partitions:
            partition = TopicPartition(topic.topic, result.partition)
            if partition in ends:
                ends[partition] = EpochEnd(error_of(result.error_code), result.leader_epoch, result.end_offset)
    return ends
