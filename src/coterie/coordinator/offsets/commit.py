"""OffsetCommit (scenarios: tests/spec/offsets.txt)."""

from __future__ import annotations

from coterie.coordinator import events as e
from coterie.coordinator.classic.member_checks import known_member, refuse_dead, same_generation
from coterie.coordinator.classic.sync import group_store_error
from coterie.coordinator.consumer.offsets import PartitionCheck, any_partition, check_commit
from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.outcome import Context, CoordinatorConfig, Outcome, Reply
from coterie.coordinator.state import COMPLETING, EMPTY, CommittedOffset, Group, Member
from coterie.coordinator.streams.offsets import check_streams_commit
from coterie.coordinator.streams.state import StreamsGroup
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

GROUP_ID_NOT_FOUND_FROM = 9
MAX_TIME_MS = 2**63 - 1
NO_TOPIC_ID = bytes(16)
TOO_LONG = ErrorCode.OFFSET_METADATA_TOO_LARGE


def commit_refused(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
    """The same error for every partition of the request."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                t.name, t.topic_id, [OffsetCommitResponsePartition(p.partition_index, code) for p in t.partitions]
            )
            for t in request.topics
        ]
    )


_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE})


def commit_store_error(code: ErrorCode) -> ErrorCode:
    """The error of an OffsetCommit whose append failed (scenario testCommitOffsetFailure)."""
    return ErrorCode.INVALID_COMMIT_OFFSET_SIZE if code in _TOO_LARGE else group_store_error(code)


def decide_commit(
    group: Group | ConsumerGroup | StreamsGroup,
    exists: bool,
    request: OffsetCommitRequest,
    ctx: Context,
    config: CoordinatorConfig,
) -> Outcome:
    """Keeps the offsets whose metadata text is not too long. Raises Refusal when the sender may not commit."""
    deadlines, check = _validate(group, exists, request, ctx)
    expire_ms = min(ctx.now_ms + request.retention_time_ms, MAX_TIME_MS) if request.retention_time_ms >= 0 else -1
    outcome, topics = Outcome(deadlines=deadlines), list[OffsetCommitResponseTopic]()
    for topic in request.topics:
        results: list[OffsetCommitResponsePartition] = []
        for p in topic.partitions:
            metadata = p.committed_metadata or ""
            if metadata and len(metadata.encode()) > config.offset_metadata_max_bytes:
                code = TOO_LONG
            else:
                if check is not any_partition:
                    check(topic.name, topic_id_of(topic.name, topic.topic_id, ctx), p.partition_index)
                code = ErrorCode.NONE
                # v1 carries the commit's time; -1 leaves it to the broker.
                at_ms = p.commit_timestamp if p.commit_timestamp >= 0 else ctx.now_ms
                committed = CommittedOffset(p.committed_offset, p.committed_leader_epoch, metadata, at_ms, expire_ms)
                outcome.events.append(e.OffsetStored(topic.name, p.partition_index, committed))
            results.append(OffsetCommitResponsePartition(p.partition_index, code))
        topics.append(OffsetCommitResponseTopic(topic.name, topic.topic_id, results))
    outcome.replies.append(Reply(ctx.token, OffsetCommitResponse(topics=topics)))

    def failed(code: ErrorCode) -> Outcome:
        return Outcome(replies=[Reply(ctx.token, commit_refused(request, commit_store_error(code)))])

    outcome.on_append_error = failed
    return outcome


def topic_id_of(name: str, topic_id: bytes, ctx: Context) -> bytes:
    """The id in the request, or that of the topic's name; zero for a topic that does not exist."""
    image = ctx.topics.topics.get(name)
    return image.topic_id if topic_id == NO_TOPIC_ID and image is not None else topic_id


def _validate(
    group: Group | ConsumerGroup | StreamsGroup, exists: bool, request: OffsetCommitRequest, ctx: Context
) -> tuple[list[tuple[str, int]], PartitionCheck]:
    """The sender's new session deadline, if it is a member of a classic group, and the check of each partition."""
    generation = request.generation_id_or_member_epoch
    if not exists:
        if generation < 0:
            return [], any_partition
        code = (
            ErrorCode.GROUP_ID_NOT_FOUND if ctx.api_version >= GROUP_ID_NOT_FOUND_FROM else ErrorCode.ILLEGAL_GENERATION
        )
        raise Refusal(code)
    if isinstance(group, ConsumerGroup):
        return [], check_commit(group, request.member_id, request.group_instance_id, generation, ctx.api_version)
    if isinstance(group, StreamsGroup):
        return [], check_streams_commit(
            group, request.member_id, request.group_instance_id, generation, ctx.api_version
        )
    member = validate_commit(group, generation, request.member_id, request.group_instance_id)
    deadlines = [] if member is None else [(member.member_id, ctx.now_ms + member.session_timeout_ms)]
    return deadlines, any_partition


def validate_commit(
    group: Group, generation: int, member_id: str, group_instance_id: str | None, *, transactional: bool = False
) -> Member | None:
    """The committing member, None for a simple consumer or for a transaction without a member's data. Raises Refusal."""
    refuse_dead(group)
    if generation < 0 and group.phase == EMPTY:
        return None
    member = None
    if generation >= 0 or member_id or group_instance_id is not None:
        member = known_member(group, member_id, group_instance_id)
        same_generation(group, generation)
    elif not transactional:
        # Neither member nor generation: only a group without members takes a simple consumer's commit.
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID)
    if group.phase == COMPLETING and not transactional:
        raise Refusal(ErrorCode.REBALANCE_IN_PROGRESS)
    return member
