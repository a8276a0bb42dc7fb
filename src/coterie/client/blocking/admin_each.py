"""BlockingEach: written by tests/client/blocking_source.py from `coterie.client.Each`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future

from coterie.client.admin.admin import Admin
from coterie.client.admin.cluster_types import Resource
from coterie.client.admin.each import NewTopic
from coterie.client.admin_types import ConfigEntry, ConsumerGroupDescription
from coterie.client.blocking.thread import BlockingClient
from coterie.client.types import ByPartition, OffsetAndMetadata, PartitionLike, TopicPartition


class BlockingEach:
    """`Admin.each` for programs without asyncio, as `BlockingAdmin.each`: every method returns at once a
    concurrent.futures.Future for each thing, in the order given. A future has the result of the method of `Admin` that
    does the same for one, or its KafkaError; RuntimeError where the admin is closed before the response."""

    def __init__(self, admin: BlockingClient[Admin]) -> None:
        self._admin = admin
        self._each = admin._client.each

    def create_topics(self, topics: Iterable[NewTopic]) -> dict[str, Future[None]]:
        """A future for each name, as `Admin.create_topic`, in one request."""
        return self._admin._futures(self._each.create_topics, topics)

    def delete_topics(self, names: Iterable[str]) -> dict[str, Future[None]]:
        """A future for each name, as `Admin.delete_topic`, in one request."""
        return self._admin._futures(self._each.delete_topics, names)

    def create_partitions(self, counts: Mapping[str, int]) -> dict[str, Future[None]]:
        """A future for each topic, which then has so many partitions, as `Admin.create_partitions`, in one request."""
        return self._admin._futures(self._each.create_partitions, counts)

    def alter_partition_reassignments(
        self, reassignments: ByPartition[Sequence[int] | None]
    ) -> dict[TopicPartition, Future[None]]:
        """A future for each partition, as `Admin.alter_partition_reassignments`, in one request."""
        return self._admin._futures(self._each.alter_partition_reassignments, reassignments)

    def describe_consumer_groups(self, group_ids: Iterable[str]) -> dict[str, Future[ConsumerGroupDescription]]:
        """A future for each group, as `Admin.describe_consumer_group`."""
        return self._admin._futures(self._each.describe_consumer_groups, group_ids)

    def delete_consumer_groups(self, group_ids: Iterable[str]) -> dict[str, Future[None]]:
        """A future for each group, as `Admin.delete_consumer_group`."""
        return self._admin._futures(self._each.delete_consumer_groups, group_ids)

    def list_consumer_group_offsets(self, group_ids: Iterable[str]) -> dict[str, Future[dict[TopicPartition, int]]]:
        """A future for each group with its committed offsets, as `Admin.list_consumer_group_offsets`."""
        return self._admin._futures(self._each.list_consumer_group_offsets, group_ids)

    def alter_consumer_group_offsets(
        self, group_id: str, offsets: ByPartition[int | OffsetAndMetadata]
    ) -> dict[TopicPartition, Future[None]]:
        """A future for each partition, committed for a group without members as by `Admin.alter_consumer_group_offsets`."""
        return self._admin._futures(self._each.alter_consumer_group_offsets, group_id, offsets)

    def delete_consumer_group_offsets(
        self, group_id: str, partitions: Iterable[PartitionLike]
    ) -> dict[TopicPartition, Future[None]]:
        """A future for each partition, as `Admin.delete_consumer_group_offsets`."""
        return self._admin._futures(self._each.delete_consumer_group_offsets, group_id, partitions)

    def remove_members_from_consumer_group(
        self, group_id: str, members: Iterable[str], reason: str = ""
    ) -> dict[str, Future[None]]:
        """A future for each member, named by group.instance.id or by member id, in one request; as
        `Admin.remove_members_from_consumer_group`."""
        return self._admin._futures(self._each.remove_members_from_consumer_group, group_id, members, reason)

    def delete_records(self, before: ByPartition[int]) -> dict[TopicPartition, Future[int]]:
        """A future for each partition with the new first offset of its log, as `Admin.delete_records`."""
        return self._admin._futures(self._each.delete_records, before)

    def list_offsets(self, timestamps: ByPartition[int]) -> dict[TopicPartition, Future[int]]:
        """A future for each partition with the offset for its timestamp, in one request a leader; as `Admin.list_offsets`."""
        return self._admin._futures(self._each.list_offsets, timestamps)

    def describe_configs(self, resources: Iterable[Resource]) -> dict[Resource, Future[dict[str, ConfigEntry]]]:
        """A future for each topic or `ConfigResource` with its settings by name, as `Admin.describe_configs`, in one request a
        broker."""
        return self._admin._futures(self._each.describe_configs, resources)

    def incremental_alter_configs(
        self, changes: Mapping[Resource, Mapping[str, str | None]]
    ) -> dict[Resource, Future[None]]:
        """A future for each topic or `ConfigResource`, whose settings are then set, as `Admin.incremental_alter_configs`, in
        one request a broker."""
        return self._admin._futures(self._each.incremental_alter_configs, changes)
