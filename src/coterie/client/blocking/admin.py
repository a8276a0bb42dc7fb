"""BlockingAdmin: written by tests/client/blocking_source.py from `coterie.client.Admin`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from coterie.client.admin.admin import Admin
from coterie.client.admin.brokers import TelemetryClient
from coterie.client.admin.group_explanation import GroupExplanation
from coterie.client.admin_types import (
    ClusterDescription,
    ConsumerGroupDescription,
    GroupListing,
    Node,
    PartitionLag,
    PartitionReassignment,
    TopicDescription,
)
from coterie.client.blocking.admin_calls import BlockingAdminCalls
from coterie.client.blocking.admin_each import BlockingEach
from coterie.client.errors import KafkaError
from coterie.client.lint.rule import Advice, ObservedFacts
from coterie.client.settings.typed import AdminSettings
from coterie.client.types import ByPartition, OffsetAndMetadata, PartitionLike, TopicPartition
from coterie.wire.errors import ErrorCode


class BlockingAdmin(BlockingAdminCalls):
    """`coterie.client.Admin` for programs without asyncio. The futures of `each` are concurrent.futures.Future.

    >>> futures = admin.each.delete_topics(["orders", "none"])
    >>> futures["orders"].result()
    >>> futures["none"].exception().code
    <ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 3>
    """

    def __init__(self, settings: AdminSettings | Mapping[str, Any]) -> None:
        super().__init__(lambda: Admin(settings))
        self.each: BlockingEach = BlockingEach(self)

    def close(self) -> None:
        """Closes the connections at once; requests that are under way fail."""
        self._close(self._client.close)

    def describe_cluster(self) -> ClusterDescription:
        """The cluster's id, its controller and its brokers."""
        return self._await(self._client.describe_cluster)

    def describe_topics(self, names: Iterable[str] | None = None) -> dict[str, TopicDescription]:
        """All topics by name, internal ones too, or those named. A topic that the broker does not describe carries its
        error; it raises none."""
        return self._await(self._client.describe_topics, names)

    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        configs: Mapping[str, str] | None = None,
        *,
        replication_factor: int = -1,
        assignments: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        """Creates a topic. ``partitions``, ``replication_factor`` -1: the broker's num.partitions, default.replication.factor.
        ``configs``: topic settings by Kafka's names, as text. ``assignments``: as in `NewTopic`. Raises KafkaError
        TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR,
        INVALID_REPLICA_ASSIGNMENT, INVALID_CONFIG."""
        self._await(
            self._client.create_topic,
            name,
            partitions,
            configs,
            replication_factor=replication_factor,
            assignments=assignments,
        )

    def delete_topic(self, name: str) -> None:
        """Deletes a topic with its records and the offsets committed for it. Raises KafkaError
        UNKNOWN_TOPIC_OR_PARTITION."""
        self._await(self._client.delete_topic, name)

    def create_partitions(self, name: str, count: int) -> None:
        """Adds partitions, so that the topic has ``count``. Records stay where they are, and keys may then go to other
        partitions. Raises KafkaError INVALID_PARTITIONS where it has that many already, UNKNOWN_TOPIC_OR_PARTITION."""
        self._await(self._client.create_partitions, name, count)

    def delete_records(
        self, before: ByPartition[int], *, errors: dict[TopicPartition, KafkaError] | None = None
    ) -> dict[TopicPartition, int]:
        """Deletes the records before these offsets (-1: all of the partition); returns the new first offsets. Raises
        KafkaError OFFSET_OUT_OF_RANGE, POLICY_VIOLATION for a topic that is only compacted, UNKNOWN_TOPIC_OR_PARTITION of
        the first partition with one, once the others are done; ``errors`` as in `list_offsets`."""
        return self._await(self._client.delete_records, before, errors=errors)

    def list_offsets(
        self,
        timestamps: ByPartition[int],
        *,
        errors: dict[TopicPartition, KafkaError] | None = None,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, int]:
        """The offset of the first record of each partition that is at or after a timestamp, in ms since 1970; -1 for the end of
        the log, -2 for its start. The offset is -1 where every record is older. What passes is repeated for ``timeout_ms``, by
        default default.api.timeout.ms. Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION; with ``errors`` a partition without an
        offset is put there with its error, and the others are returned."""
        return self._await(self._client.list_offsets, timestamps, errors=errors, timeout_ms=timeout_ms)

    def record_times(self, offsets: ByPartition[int]) -> dict[TopicPartition, int]:
        """When the record at each offset was written, or the first one behind it, in ms since 1970: the time of the first
        record of its batch, as its producer set it or the log. Without the partitions that end there or are not read now."""
        return self._await(self._client.record_times, offsets)

    def partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        """Every partition of these topics, sorted; a topic that does not exist has none."""
        return self._await(self._client.partitions, topics)

    def elect_leaders(
        self, partitions: Iterable[PartitionLike] | None = None, *, unclean: bool = False
    ) -> dict[TopicPartition, ErrorCode]:
        """Has the controller elect the preferred leader of each partition; with ``unclean``, of each partition without a leader
        any replica that is there, which loses the records that it lacks. None for all partitions; then the result has only
        those with an election or an error."""
        return self._await(self._client.elect_leaders, partitions, unclean=unclean)

    def alter_partition_reassignments(
        self,
        reassignments: ByPartition[Sequence[int] | None],
        *,
        errors: dict[TopicPartition, KafkaError] | None = None,
    ) -> None:
        """Begins to move partitions to these brokers, the preferred leader first; None cancels. Returns when it has begun:
        `list_partition_reassignments` has it until its end. Raises KafkaError INVALID_REPLICA_ASSIGNMENT,
        NO_REASSIGNMENT_IN_PROGRESS, UNKNOWN_TOPIC_OR_PARTITION of the first; others begin. ``errors``: see `list_offsets`."""
        self._await(self._client.alter_partition_reassignments, reassignments, errors=errors)

    def list_partition_reassignments(
        self, partitions: Iterable[PartitionLike] | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """The reassignments in progress, of these partitions or of all."""
        return self._await(self._client.list_partition_reassignments, partitions)

    def list_groups(
        self, states: Iterable[str] = (), *, errors: dict[Node, KafkaError] | None = None
    ) -> list[GroupListing]:
        """The groups of every broker by group id: all, or those in one of ``states`` (`GroupState`, or its text). With
        ``errors`` a broker that does not list its groups is put there with its error, and the groups of the others are
        returned."""
        return self._await(self._client.list_groups, states, errors=errors)

    def describe_consumer_group(self, group_id: str) -> ConsumerGroupDescription:
        """A group, of the classic or the consumer protocol (KIP-848), with its members, and what each has subscribed to and
        owns. Raises KafkaError GROUP_ID_NOT_FOUND where there is none (a broker before Kafka 4.0 returns one in state DEAD)."""
        return self._await(self._client.describe_consumer_group, group_id)

    def explain_group(self, group_id: str) -> GroupExplanation:
        """Whom the group waits for, for how long yet, and what happens then. Only a coterie broker serves this: of another
        broker KafkaError UNSUPPORTED_VERSION. Raises KafkaError GROUP_ID_NOT_FOUND."""
        return self._await(self._client.explain_group, group_id)

    def telemetry_clients(self, *, errors: dict[Node, KafkaError] | None = None) -> list[TelemetryClient]:
        """Clients that push metrics (KIP-714), to coterie (else UNSUPPORTED_VERSION); errors as `list_groups`."""
        return self._await(self._client.telemetry_clients, errors=errors)

    def lint_group(self, group_id: str, facts: ObservedFacts | None = None) -> list[Advice]:
        """Whether the group may become cooperative, static, or of the consumer protocol now (KIP-429, KIP-345, KIP-848), and
        what hurts it as it is, by ``facts`` from its records too. Raises KafkaError GROUP_ID_NOT_FOUND."""
        return self._await(self._client.lint_group, group_id, facts)

    def delete_consumer_group(self, group_id: str) -> None:
        """Deletes a group that has no members, with its offsets. Raises KafkaError NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND."""
        self._await(self._client.delete_consumer_group, group_id)

    def remove_members_from_consumer_group(
        self, group_id: str, members: Iterable[str], reason: str = ""
    ) -> dict[str, ErrorCode]:
        """Removes members, named by group.instance.id or by member id, so that the group rebalances now and not at the end of
        their sessions. Returns a code for each: NONE, or UNKNOWN_MEMBER_ID. ``reason`` is for the broker's log. Raises
        KafkaError GROUP_ID_NOT_FOUND."""
        return self._await(self._client.remove_members_from_consumer_group, group_id, members, reason)

    def list_consumer_group_offsets(self, group_id: str) -> dict[TopicPartition, int]:
        """All committed offsets of a group, of a streams group too; of a group that does not exist none."""
        return self._await(self._client.list_consumer_group_offsets, group_id)

    def list_consumer_group_offsets_metadata(self, group_id: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """As `list_consumer_group_offsets`, with leader epoch and text."""
        return self._await(self._client.list_consumer_group_offsets_metadata, group_id)

    def alter_consumer_group_offsets(
        self,
        group_id: str,
        offsets: ByPartition[int | OffsetAndMetadata],
        *,
        errors: dict[TopicPartition, KafkaError] | None = None,
    ) -> None:
        """Commits offsets for a group without members; the group is created where there is none. Raises KafkaError
        UNKNOWN_MEMBER_ID where it has members, UNKNOWN_TOPIC_OR_PARTITION of the first partition with one; the others are
        committed. ``errors`` as in `list_offsets`."""
        self._await(self._client.alter_consumer_group_offsets, group_id, offsets, errors=errors)

    def delete_consumer_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[PartitionLike],
        *,
        errors: dict[TopicPartition, KafkaError] | None = None,
    ) -> None:
        """Deletes committed offsets. Raises KafkaError GROUP_SUBSCRIBED_TO_TOPIC where a member reads the topic,
        GROUP_ID_NOT_FOUND, UNKNOWN_TOPIC_OR_PARTITION, of the first partition with one; the others are deleted.
        ``errors`` as in `list_offsets`."""
        self._await(self._client.delete_consumer_group_offsets, group_id, partitions, errors=errors)

    def lag(
        self, group_id: str, *, errors: dict[TopicPartition, KafkaError] | None = None
    ) -> dict[TopicPartition, PartitionLag]:
        """How far the group is behind in each partition that it has committed; partitions that no longer exist, or have no
        leader now, are left out. With ``errors`` each one without a lag, whatever the reason, is put there with its error."""
        return self._await(self._client.lag, group_id, errors=errors)
