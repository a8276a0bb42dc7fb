"""The offsets of a streams group: which commits it takes (Kafka's StreamsGroup.validateOffsetCommit), which offsets go while it
lives, and its end."""

from __future__ import annotations

from coterie.coordinator.consumer.member_checks import known_member
from coterie.coordinator.consumer.offsets import (
    MEMBER_EPOCH_FROM,
    PartitionCheck,
    any_partition,
    check_deletable,
    expired_offsets,
    offset_tombstones,
)
from coterie.coordinator.outcome import CoordinatorConfig, Outcome
from coterie.coordinator.state import Cause
from coterie.coordinator.streams.leave import source_topics, streams_tombstones, subscribed_by_streams
from coterie.coordinator.streams.state import StreamsGroup
from coterie.wire.errors import ErrorCode, Refusal


def check_streams_commit(
    group: StreamsGroup,
    member_id: str,
    instance_id: str | None,
    epoch: int,
    api_version: int,
    *,
    transactional: bool = False,
) -> PartitionCheck:
    """The check of each partition. A member's own epoch commits any; an older one only that of a task that it has active since
    then or before. Raises Refusal where the sender may commit nothing."""
    if epoch < 0 and not group.members:
        return any_partition
    if transactional and epoch == -1 and not member_id and instance_id is None:
        return any_partition
    member = known_member(group, member_id)
    if not transactional and api_version < MEMBER_EPOCH_FROM:
        text = "OffsetCommit version 9 or above must be used by members using the streams group protocol"
        raise Refusal(ErrorCode.UNSUPPORTED_VERSION, text)
    if epoch == member.current.member_epoch:
        return any_partition
    if epoch > member.current.member_epoch:
        raise Refusal(ErrorCode.STALE_MEMBER_EPOCH)
    sources = source_topics(group)

    def since_assignment(topic: str, topic_id: bytes, partition: int) -> None:
        subtopology_id = sources.get(topic)
        assigned = None if subtopology_id is None else member.current.assignment_epoch((subtopology_id, partition))
        if assigned is None or epoch < assigned:
            raise Refusal(ErrorCode.STALE_MEMBER_EPOCH)

    return since_assignment


def decide_delete_streams_group(group: StreamsGroup, exists: bool) -> Outcome:
    """DeleteGroups: a group without members goes with its offsets; its internal topics stay. Raises Refusal."""
    check_deletable(exists and not group.is_dead, bool(group.members))
    return Outcome([*offset_tombstones(group), *streams_tombstones(Cause("deleted"))], divisible=True)


def decide_expire_streams_offsets(group: StreamsGroup, now_ms: int, config: CoordinatorConfig) -> Outcome:
    """Offsets of topics that the topology does not read go when they are old, and with the last one an empty group."""
    gone = expired_offsets(group, subscribed_by_streams(group), now_ms, config)
    outcome = Outcome([*gone], divisible=True)
    if not group.members and len(gone) == len(group.offsets) and not group.pending_offsets:
        outcome.events += streams_tombstones(Cause("expired"))
    return outcome
