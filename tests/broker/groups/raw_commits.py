"""Commits of a group without members, over a raw connection."""

from __future__ import annotations

from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tests.broker.connections.test_server import Client


async def commit(client: Client, group: str, offset: int) -> int:
    partitions = [OffsetCommitRequestPartition(0, offset, -1, committed_metadata="")]
    request = OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic("t", partitions=partitions)])
    return (await client.ask(request, OffsetCommitResponse, 8)).topics[0].partitions[0].error_code
