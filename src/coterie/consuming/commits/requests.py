"""Encodes OffsetCommit for some offsets, and reads its response."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

# By (topic, partition) the offset, or the offset with leader epoch (-1: unknown) and metadata. A mapping's keys are
# invariant, and drivers have named tuples for them: hence Any.
CommitOffsets = Mapping[Any, int | tuple[int, int, str]]


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
