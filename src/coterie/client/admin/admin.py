"""The admin client: topics, partitions, groups, offsets, records; its calls about other subjects are in their own modules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from coterie.client import arguments
from coterie.client.admin import groups, older, replicas
from coterie.client.admin.acls import AclCalls
from coterie.client.admin.brokers import BrokerCalls, TelemetryClient, telemetry_clients
from coterie.client.admin.calls import only, or_each, repeated
from coterie.client.admin.configs import ConfigCalls
from coterie.client.admin.delegation_tokens import TokenCalls
from coterie.client.admin.each import Each, NewTopic
from coterie.client.admin.group_explanation import GroupExplanation
from coterie.client.admin.quotas import QuotaCalls
from coterie.client.admin.results import cluster_description, topic_descriptions
from coterie.client.admin.share_offsets import ShareOffsetCalls
from coterie.client.admin.transactions import TransactionCalls
from coterie.client.admin.users import ScramCalls
from coterie.client.admin_types import (
    ClusterDescription,
    ConsumerGroupDescription,
    GroupListing,
    Node,
    PartitionLag,
    PartitionReassignment,
    TopicDescription,
)
from coterie.client.connection.cluster import Cluster
from coterie.client.errors import KafkaError, check
from coterie.client.lint.rule import Advice, ObservedFacts
from coterie.client.offsets.offsets import commit_offsets, committed_offsets, delete_records, lags, list_offsets
from coterie.client.offsets.record_times import record_times
from coterie.client.settings.settings import client_settings
from coterie.client.settings.typed import AdminSettings
from coterie.client.types import ByPartition, OffsetAndMetadata, PartitionLike, TopicPartition
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.brokers.describe_cluster import DescribeClusterRequest
from coterie.wire.messages.groups.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse


class Admin(AclCalls, BrokerCalls, ConfigCalls, QuotaCalls, ScramCalls, ShareOffsetCalls, TokenCalls, TransactionCalls):
    """Manages topics, settings, groups, offsets and records of a cluster.

    ``settings``: by Kafka's names; ``bootstrap.servers`` is the one that is needed. Use it as an async context manager, or call
    `close`. `each` has the same operations on many things at once, with a future for each.

    Every method sends requests and raises KafkaError: with the broker's code; NETWORK_EXCEPTION where no broker can be reached,
    at once or, of a client that has reached one before, after default.api.timeout.ms; REQUEST_TIMED_OUT where none responds
    within request.timeout.ms; UNSUPPORTED_VERSION where the broker is too old. What passes, such as a coordinator or controller
    that is not available, is repeated until default.api.timeout.ms before it is raised. An argument of a wrong type
    or out of its range is a TypeError or ValueError, and use after `close` a RuntimeError, before anything is sent.

    >>> async with Admin(settings) as admin:
    ...     print(sorted(await admin.describe_topics()))
    ['__consumer_offsets', 'orders']
    """

    def __init__(self, settings: AdminSettings | Mapping[str, Any]) -> None:
        self._cluster = Cluster(client_settings(settings))
        self.each: Each = Each(self, self._cluster)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections at once; requests that are under way fail."""
        self._cluster.close()

    @repeated
    async def describe_cluster(self) -> ClusterDescription:
        """The cluster's id, its controller and its brokers.

        >>> cluster = await admin.describe_cluster()
        >>> cluster.nodes
        (Node(id=1, host='127.0.0.1', port=..., rack=None),)
        >>> cluster.controller == cluster.nodes[0]
        True
        """
        if not (await self._cluster.any_connection()).serves(DescribeClusterRequest):
            return cluster_description(await older.describe_cluster(self._cluster))
        response = await self._cluster.request(DescribeClusterRequest())
        check(response.error_code, response.error_message)
        return cluster_description(response)

    # -- topics -------------------------------------------------------------------------------------------------------

    @repeated
    async def describe_topics(self, names: Iterable[str] | None = None) -> dict[str, TopicDescription]:
        """All topics by name, internal ones too, or those named. A topic that the broker does not describe carries its
        error; it raises none.

        >>> described = await admin.describe_topics(["orders", "none"])
        >>> [(p.partition, p.leader.id) for p in described["orders"].partitions]
        [(0, 1), (1, 1)]
        >>> described["none"].error
        <ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 3>
        """
        return topic_descriptions(
            await self._cluster.metadata(None if names is None else arguments.names(names, "names"))
        )

    async def create_topic(
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
        INVALID_REPLICA_ASSIGNMENT, INVALID_CONFIG.

        >>> await admin.create_topic("payments", 6, {"retention.ms": "86400000"}, replication_factor=1)
        >>> len(await admin.partitions(["payments"]))
        6
        """
        topic = NewTopic(name, partitions, configs or {}, replication_factor, assignments or {})
        await self.each.create_topics([topic])[name]

    async def delete_topic(self, name: str) -> None:
        """Deletes a topic with its records and the offsets committed for it. Raises KafkaError
        UNKNOWN_TOPIC_OR_PARTITION."""
        await self.each.delete_topics([arguments.text(name, "name")])[name]

    async def create_partitions(self, name: str, count: int) -> None:
        """Adds partitions, so that the topic has ``count``. Records stay where they are, and keys may then go to other
        partitions. Raises KafkaError INVALID_PARTITIONS where it has that many already, UNKNOWN_TOPIC_OR_PARTITION.

        >>> await admin.create_partitions("orders", 4)
        """
        arguments.text(name, "name")
        arguments.whole_number(count, "count", *arguments.INT32)
        await self.each.create_partitions({name: count})[name]

    @or_each
    @repeated
    async def delete_records(
        self, before: ByPartition[int], *, errors: dict[TopicPartition, KafkaError] | None = None
    ) -> dict[TopicPartition, int]:
        """Deletes the records before these offsets (-1: all of the partition); returns the new first offsets. Raises
        KafkaError OFFSET_OUT_OF_RANGE, POLICY_VIOLATION for a topic that is only compacted, UNKNOWN_TOPIC_OR_PARTITION of
        the first partition with one, once the others are done; ``errors`` as in `list_offsets`.

        >>> await admin.delete_records({("orders", 0): 2})
        {TopicPartition(topic='orders', partition=0): 2}
        """
        return await delete_records(self._cluster, arguments.log_starts(before))

    async def list_offsets(
        self,
        timestamps: ByPartition[int],
        *,
        errors: dict[TopicPartition, KafkaError] | None = None,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, int]:
        """The offset of the first record of each partition that is at or after a timestamp, in ms since 1970; -1 for the end of
        the log, -2 for its start. The offset is -1 where every record is older. What passes is repeated for ``timeout_ms``, by
        default default.api.timeout.ms. Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION; with ``errors`` a partition without an
        offset is put there with its error, and the others are returned.

        >>> await admin.list_offsets({("orders", 0): -1, ("orders", 1): -1})
        {TopicPartition(topic='orders', partition=0): 3, TopicPartition(topic='orders', partition=1): 0}
        """
        checked = arguments.timestamps(timestamps)
        if timeout_ms is not None:
            arguments.whole_number(timeout_ms, "timeout_ms", *arguments.INT32)
        return await list_offsets(self._cluster, checked, errors=errors, timeout_ms=timeout_ms)

    @repeated
    async def record_times(self, offsets: ByPartition[int]) -> dict[TopicPartition, int]:
        """When the record at each offset was written, or the first one behind it, in ms since 1970: the time of the first
        record of its batch, as its producer set it or the log. Without the partitions that end there or are not read now."""
        return await record_times(self._cluster, arguments.log_starts(offsets))

    @repeated
    async def partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        """Every partition of these topics, sorted; a topic that does not exist has none.

        >>> await admin.partitions(["orders", "none"])
        [TopicPartition(topic='orders', partition=0), TopicPartition(topic='orders', partition=1)]
        """
        infos = await self._cluster.refresh(arguments.names(topics, "topics"))
        return [TopicPartition(t, p) for t, info in sorted(infos.items()) for p in sorted(info.leaders)]

    # -- replicas -----------------------------------------------------------------------------------------------------

    @repeated
    async def elect_leaders(
        self, partitions: Iterable[PartitionLike] | None = None, *, unclean: bool = False
    ) -> dict[TopicPartition, ErrorCode]:
        """Has the controller elect the preferred leader of each partition; with ``unclean``, of each partition without a leader
        any replica that is there, which loses the records that it lacks. None for all partitions; then the result has only
        those with an election or an error.

        >>> await admin.elect_leaders([("orders", 0)])
        {TopicPartition(topic='orders', partition=0): <ErrorCode.ELECTION_NOT_NEEDED: 84>}
        """
        checked = None if partitions is None else arguments.partitions(partitions)
        return await replicas.elect_leaders(self._cluster, checked, unclean=unclean)

    @or_each
    async def alter_partition_reassignments(
        self,
        reassignments: ByPartition[Sequence[int] | None],
        *,
        errors: dict[TopicPartition, KafkaError] | None = None,
    ) -> None:
        """Begins to move partitions to these brokers, the preferred leader first; None cancels. Returns when it has begun:
        `list_partition_reassignments` has it until its end. Raises KafkaError INVALID_REPLICA_ASSIGNMENT,
        NO_REASSIGNMENT_IN_PROGRESS, UNKNOWN_TOPIC_OR_PARTITION of the first; others begin. ``errors``: see `list_offsets`.

        >>> await admin.alter_partition_reassignments({("orders", 0): [1], ("orders", 1): [1]})
        """
        for future in self.each.alter_partition_reassignments(reassignments).values():
            await future

    @repeated
    async def list_partition_reassignments(
        self, partitions: Iterable[PartitionLike] | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """The reassignments in progress, of these partitions or of all.

        >>> await admin.list_partition_reassignments()
        {}
        """
        checked = None if partitions is None else arguments.partitions(partitions)
        return await replicas.list_partition_reassignments(self._cluster, checked)

    # -- groups -------------------------------------------------------------------------------------------------------

    @repeated
    async def list_groups(
        self, states: Iterable[str] = (), *, errors: dict[Node, KafkaError] | None = None
    ) -> list[GroupListing]:
        """The groups of every broker by group id: all, or those in one of ``states`` (`GroupState`, or its text). With
        ``errors`` a broker that does not list its groups is put there with its error, and the groups of the others are
        returned.

        >>> [(group.group_id, group.state) for group in await admin.list_groups()]
        [('billing', <GroupState.EMPTY: 'Empty'>)]
        >>> await admin.list_groups([GroupState.STABLE])
        []
        """
        return await groups.list_groups(self._cluster, frozenset(arguments.names(states, "states")), errors)

    @repeated
    async def describe_consumer_group(self, group_id: str) -> ConsumerGroupDescription:
        """A group, of the classic or the consumer protocol (KIP-848), with its members, and what each has subscribed to and
        owns. Raises KafkaError GROUP_ID_NOT_FOUND where there is none (a broker before Kafka 4.0 returns one in state DEAD).

        >>> group = await admin.describe_consumer_group("billing")
        >>> group.state, group.members
        (<GroupState.EMPTY: 'Empty'>, ())
        """
        return await groups.describe_group(self._cluster, arguments.text(group_id, "group_id"))

    @repeated
    async def explain_group(self, group_id: str) -> GroupExplanation:
        """Whom the group waits for, for how long yet, and what happens then. Only a coterie broker serves this: of another
        broker KafkaError UNSUPPORTED_VERSION. Raises KafkaError GROUP_ID_NOT_FOUND.

        >>> (await admin.explain_group("billing")).verdict
        'the group has no members...'
        """
        return await groups.explain_group(self._cluster, arguments.text(group_id, "group_id"))

    @repeated
    async def telemetry_clients(self, *, errors: dict[Node, KafkaError] | None = None) -> list[TelemetryClient]:
        """Clients that push metrics (KIP-714), to coterie (else UNSUPPORTED_VERSION); errors as `list_groups`."""
        return await telemetry_clients(self._cluster, errors)

    @repeated
    async def lint_group(self, group_id: str, facts: ObservedFacts | None = None) -> list[Advice]:
        """Whether the group may become cooperative, static, or of the consumer protocol now (KIP-429, KIP-345, KIP-848), and
        what hurts it as it is, by ``facts`` from its records too. Raises KafkaError GROUP_ID_NOT_FOUND.

        >>> [advice.safe for advice in await admin.lint_group("billing")]
        [False, False, False, True, True]
        """
        return await groups.linted(self._cluster, await self.describe_consumer_group(group_id), facts)

    @repeated
    async def delete_consumer_group(self, group_id: str) -> None:
        """Deletes a group that has no members, with its offsets. Raises KafkaError NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND.

        >>> await admin.delete_consumer_group("billing")
        """
        response: DeleteGroupsResponse = await self._request_coordinator(group_id, DeleteGroupsRequest([group_id]))
        check(only(response.results, f"group {group_id}").error_code, subject=f"group {group_id}")

    @repeated
    async def remove_members_from_consumer_group(
        self, group_id: str, members: Iterable[str], reason: str = ""
    ) -> dict[str, ErrorCode]:
        """Removes members, named by group.instance.id or by member id, so that the group rebalances now and not at the end of
        their sessions. Returns a code for each: NONE, or UNKNOWN_MEMBER_ID. ``reason`` is for the broker's log. Raises
        KafkaError GROUP_ID_NOT_FOUND."""
        wanted = arguments.names(members, "members")
        group = await self.describe_consumer_group(group_id)
        return await older.remove_members(self._cluster, group, wanted, reason or None)

    async def list_consumer_group_offsets(self, group_id: str) -> dict[TopicPartition, int]:
        """All committed offsets of a group, of a streams group too; of a group that does not exist none.

        >>> await admin.list_consumer_group_offsets("billing")
        {TopicPartition(topic='orders', partition=0): 2}
        """
        return {tp: at.offset for tp, at in (await self.list_consumer_group_offsets_metadata(group_id)).items()}

    async def list_consumer_group_offsets_metadata(self, group_id: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """As `list_consumer_group_offsets`, with leader epoch and text.

        >>> (await admin.list_consumer_group_offsets_metadata("billing"))[TopicPartition("orders", 0)]
        OffsetAndMetadata(offset=2, leader_epoch=-1, metadata='')
        """
        return await committed_offsets(self._coordinator(group_id), None)

    @or_each
    @repeated
    async def alter_consumer_group_offsets(
        self,
        group_id: str,
        offsets: ByPartition[int | OffsetAndMetadata],
        *,
        errors: dict[TopicPartition, KafkaError] | None = None,
    ) -> None:
        """Commits offsets for a group without members; the group is created where there is none. Raises KafkaError
        UNKNOWN_MEMBER_ID where it has members, UNKNOWN_TOPIC_OR_PARTITION of the first partition with one; the others are
        committed. ``errors`` as in `list_offsets`.

        >>> await admin.alter_consumer_group_offsets("billing", {("orders", 0): 0, ("orders", 1): OffsetAndMetadata(0)})
        >>> await admin.list_consumer_group_offsets("billing")
        {TopicPartition(topic='orders', partition=0): 0, TopicPartition(topic='orders', partition=1): 0}
        """
        checked = arguments.offsets_to_commit(offsets)
        await commit_offsets(self._cluster, await self._coordinator(group_id).node(), group_id, checked)

    @or_each
    @repeated
    async def delete_consumer_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[PartitionLike],
        *,
        errors: dict[TopicPartition, KafkaError] | None = None,
    ) -> None:
        """Deletes committed offsets. Raises KafkaError GROUP_SUBSCRIBED_TO_TOPIC where a member reads the topic,
        GROUP_ID_NOT_FOUND, UNKNOWN_TOPIC_OR_PARTITION, of the first partition with one; the others are deleted.
        ``errors`` as in `list_offsets`.

        >>> await admin.delete_consumer_group_offsets("billing", [("orders", 0)])
        >>> await admin.list_consumer_group_offsets("billing")
        {}
        """
        request = groups.offset_delete_request(group_id, arguments.partitions(partitions))
        groups.check_deleted(group_id, await self._request_coordinator(group_id, request))

    @repeated
    async def lag(
        self, group_id: str, *, errors: dict[TopicPartition, KafkaError] | None = None
    ) -> dict[TopicPartition, PartitionLag]:
        """How far the group is behind in each partition that it has committed; partitions that no longer exist, or have no
        leader now, are left out. With ``errors`` each one without a lag, whatever the reason, is put there with its error.

        >>> (await admin.lag("billing"))[("orders", 0)].lag
        1
        """
        return await lags(self._cluster, await self.list_consumer_group_offsets(group_id), errors)
