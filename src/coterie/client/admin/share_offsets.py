"""An admin's calls about the start offsets of share groups (KIP-932)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from coterie.client import arguments
from coterie.client.admin.calls import only, repeated, reported
from coterie.client.admin_types import SharePartitionOffset
from coterie.client.connection.cluster import Cluster, Coordinator
from coterie.client.errors import KafkaError, check
from coterie.client.types import ByPartition, PartitionLike, TopicPartition
from coterie.wire.declaration import Message
from coterie.wire.messages.share.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from coterie.wire.messages.share.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from coterie.wire.messages.share.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponsePartition,
)


class ShareOffsetCalls:
    """Of `Admin`."""

    _cluster: Cluster

    def _coordinator(self, group_id: str) -> Coordinator:
        return Coordinator(self._cluster, arguments.text(group_id, "group_id"))

    async def _request_coordinator(self, group_id: str, request: Message) -> Any:
        return await self._cluster.request(request, await self._coordinator(group_id).node())

    @repeated
    async def list_share_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[PartitionLike] | None = None,
        *,
        errors: dict[TopicPartition, KafkaError] | None = None,
    ) -> dict[TopicPartition, SharePartitionOffset]:
        """Where a share group is in its partitions, or in ``partitions``; without those where it has
        not read yet; of a group that does not exist none. Raises the KafkaError of the first partition with one; with
        ``errors`` each of these is put there with its error, and the others are returned.

        >>> await admin.alter_share_group_offsets("jobs", {("orders", 0): 1})
        >>> await admin.list_share_group_offsets("jobs")
        {TopicPartition(topic='orders', partition=0): SharePartitionOffset(start_offset=1, leader_epoch=0, lag=2)}
        """
        arguments.text(group_id, "group_id")
        topics = None
        if partitions is not None:
            wanted = _by_topic(arguments.partitions(partitions))
            topics = [DescribeShareGroupOffsetsRequestTopic(t, numbers) for t, numbers in wanted.items()]
        request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(group_id, topics)])
        group = only((await self._request_coordinator(group_id, request)).groups, f"group {group_id}")
        check(group.error_code, group.error_message, subject=f"group {group_id}")
        rows = {TopicPartition(t.topic_name, p.partition_index): p for t in group.topics for p in t.partitions}
        reported(rows, errors)
        return {tp: _offset(row) for tp, row in sorted(rows.items()) if not row.error_code and row.start_offset >= 0}

    @repeated
    async def alter_share_group_offsets(
        self, group_id: str, offsets: ByPartition[int], *, errors: dict[TopicPartition, KafkaError] | None = None
    ) -> None:
        """Sets the start offsets of a share group without members; the group is created where there is none. Records before
        them are not delivered again, those behind them are, whatever had been acknowledged. Raises KafkaError
        NON_EMPTY_GROUP; UNKNOWN_TOPIC_OR_PARTITION of the first partition with one, and then the others are set;
        ``errors`` as in `list_share_group_offsets`.

        >>> await admin.alter_share_group_offsets("jobs", {("orders", 0): 0, ("orders", 1): 0})
        """
        checked = arguments.start_offsets(offsets)
        topics = [
            AlterShareGroupOffsetsRequestTopic(
                topic, [AlterShareGroupOffsetsRequestPartition(n, checked[TopicPartition(topic, n)]) for n in numbers]
            )
            for topic, numbers in _by_topic(checked).items()
        ]
        request = AlterShareGroupOffsetsRequest(arguments.text(group_id, "group_id"), topics)
        response: AlterShareGroupOffsetsResponse = await self._request_coordinator(group_id, request)
        check(response.error_code, response.error_message, subject=f"group {group_id}")
        reported(
            {TopicPartition(t.topic_name, p.partition_index): p for t in response.responses for p in t.partitions},
            errors,
        )

    @repeated
    async def delete_share_group_offsets(
        self, group_id: str, topics: Iterable[str], *, errors: dict[str, KafkaError] | None = None
    ) -> None:
        """Deletes what a share group without members has of these topics: start offsets and the states of records. Raises
        KafkaError NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND; UNKNOWN_TOPIC_OR_PARTITION of the first topic with one, and then the
        others are deleted; ``errors`` receives each of these topics with its error.

        >>> await admin.alter_share_group_offsets("jobs", {("orders", 0): 0})
        >>> await admin.delete_share_group_offsets("jobs", ["orders"])
        >>> await admin.list_share_group_offsets("jobs")
        {}
        """
        names = [DeleteShareGroupOffsetsRequestTopic(name) for name in arguments.names(topics, "topics")]
        request = DeleteShareGroupOffsetsRequest(arguments.text(group_id, "group_id"), names)
        response: DeleteShareGroupOffsetsResponse = await self._request_coordinator(group_id, request)
        check(response.error_code, response.error_message, subject=f"group {group_id}")
        reported({topic.topic_name: topic for topic in response.responses}, errors)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    return topics


def _offset(row: DescribeShareGroupOffsetsResponsePartition) -> SharePartitionOffset:
    return SharePartitionOffset(row.start_offset, row.leader_epoch, None if row.lag < 0 else row.lag)
