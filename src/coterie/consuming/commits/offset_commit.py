"""OffsetCommit for some offsets, its response, and what an error code there means where no member's machine is at hand
(ConsumerCoordinator's OffsetCommitResponseHandler without a generation). Imports no machine: Spark's driver needs none."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from coterie.wire.errors import COORDINATOR_LOST, ErrorCode, error_of
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

# By (topic, partition) the offset, or the offset with leader epoch (-1: unknown) and metadata. A mapping's keys are
# invariant, and drivers have named tuples for them: hence Any.
CommitOffsets = Mapping[Any, int | tuple[int, int, str]]


class Verdict(Enum):
    """What to do after a commit, or instead of one that may not be sent. RETRIED lists the verdicts after which it is sent
    again; of the others all but DONE are errors of the call."""

    DONE = "committed"
    RETRY = "try the same again after a pause"
    FIND_COORDINATOR = "look the coordinator up, then try again"
    REBALANCING = "a rebalance is under way; commit after it"
    COMMIT_FAILED = "the group has moved on; the partitions may have new owners"
    GIVE_UP = "tell the caller"
    TIMED_OUT = "the time of the call is over"


RETRIED = frozenset({Verdict.RETRY, Verdict.FIND_COORDINATOR})
NOT_A_MEMBER = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})
OF_ANY_COMMIT: Mapping[ErrorCode, Verdict] = {
    ErrorCode.NONE: Verdict.DONE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Verdict.RETRY,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Verdict.RETRY,
    **dict.fromkeys(COORDINATOR_LOST, Verdict.FIND_COORDINATOR),
}
_WITHOUT_MACHINE: Mapping[ErrorCode, Verdict] = {
    **OF_ANY_COMMIT,
    **dict.fromkeys(NOT_A_MEMBER, Verdict.COMMIT_FAILED),
    ErrorCode.STALE_MEMBER_EPOCH: Verdict.COMMIT_FAILED,
    ErrorCode.REBALANCE_IN_PROGRESS: Verdict.REBALANCING,
}


def verdict_without_machine(code: ErrorCode) -> Verdict:
    """On a commit without membership, or in the name of a member whose machine is elsewhere."""
    return _WITHOUT_MACHINE.get(code, Verdict.GIVE_UP)


def commit_request(
    group_id: str, offsets: CommitOffsets, generation: int, member_id: str, group_instance_id: str | None
) -> OffsetCommitRequest:
    """For a member of the group; generation -1 and member id "" for a group without members."""
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (topic, partition), committed in offsets.items():
        entry = topics.setdefault(topic, OffsetCommitRequestTopic(topic))
        offset, epoch, text = (committed, -1, "") if isinstance(committed, int) else committed
        entry.partitions.append(OffsetCommitRequestPartition(partition, offset, epoch, committed_metadata=text))
    return OffsetCommitRequest(group_id, generation, member_id, group_instance_id, topics=list(topics.values()))


def first_error(response: OffsetCommitResponse) -> tuple[ErrorCode, str]:
    """The first partition's error with that partition's name, such as "orders-0"; NONE where every offset is committed."""
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code:
                return error_of(partition.error_code), f"{topic.name}-{partition.partition_index}"
    return ErrorCode.NONE, ""
