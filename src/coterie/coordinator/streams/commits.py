"""Which commits of offsets a streams group takes (Kafka's StreamsGroup.validateOffsetCommit)."""

from __future__ import annotations

from coterie.coordinator.consumer.commits import MEMBER_EPOCH_FROM, PartitionCheck, any_partition
from coterie.coordinator.consumer.member_checks import known_member
from coterie.coordinator.streams.leave import source_topics
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
