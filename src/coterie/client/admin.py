"""The admin client: topics, partitions, settings, groups, offsets, records. Every method raises KafkaError."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from coterie.client import admin_older, arguments
from coterie.client.admin_each import Each, NewTopic, only
from coterie.client.cluster import Cluster, TopicInfo
from coterie.client.errors import KafkaError, check
from coterie.client.lint import Advice, lint_group
from coterie.client.offsets import commit_offsets, committed_offsets, list_offsets
from coterie.client.settings import ClientSettings
from coterie.client.types import ByPartition, OffsetAndMetadata, PartitionLike, TopicPartition
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from coterie.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from coterie.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from coterie.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from coterie.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from coterie.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from coterie.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from coterie.wire.messages.explain_group import ExplainGroupRequest, ExplainGroupResponse
from coterie.wire.messages.join_group import JoinGroupRequest
from coterie.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from coterie.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from coterie.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)

TOPIC_RESOURCE = 2
DEFAULT = 5  # the source of a setting in DescribeConfigs (Kafka: ConfigSource.DEFAULT_CONFIG); version 0 has is_default
STATES_FROM = 4  # the version of ListGroups that tells states (KIP-518)
BATCHES_FROM = 3  # the version of LeaveGroup that takes several members (KIP-345)


class Admin:
    """Settings by Kafka's names; bootstrap.servers is the one that matters."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._cluster = Cluster(ClientSettings(settings))
        self.each = Each(self, self._cluster)

    async def __aenter__(self) -> Admin:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._cluster.close()

    async def describe_cluster(self) -> DescribeClusterResponse:
        """The cluster's id, controller and brokers."""
        if not (await self._cluster.any_connection()).serves(DescribeClusterRequest):
            return await admin_older.describe_cluster(self._cluster)
        response: DescribeClusterResponse = await self._cluster.request(DescribeClusterRequest())
        check(response.error_code, response.error_message)
        return response

    # -- topics -------------------------------------------------------------------------------------------------------

    async def topics(self, names: Iterable[str] | None = None) -> dict[str, TopicInfo]:
        """All topics, or those named; one that does not exist carries its error."""
        return await self._cluster.refresh(None if names is None else arguments.names(names, "names"))

    async def create_topic(self, name: str, partitions: int = -1, configs: Mapping[str, str] | None = None) -> None:
        """Creates a topic with the broker's default.replication.factor. ``partitions`` -1: the broker's num.partitions.
        ``configs``: topic settings by Kafka's names, as text. Raises KafkaError TOPIC_ALREADY_EXISTS,
        INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS, INVALID_CONFIG.

        >>> await admin.create_topic("payments", 6, {"retention.ms": "86400000"})
        >>> len(await admin.partitions(["payments"]))
        6
        """
        await self.each.create_topics([NewTopic(name, partitions, configs or {})])[name]

    async def delete_topic(self, name: str) -> None:
        arguments.text(name, "name")
        request = DeleteTopicsRequest([DeleteTopicState(name)], [name], 30_000)
        for result in (await self._cluster.request(request)).responses:
            check(result.error_code, result.error_message)

    async def create_partitions(self, name: str, count: int) -> None:
        arguments.text(name, "name")
        arguments.whole_number(count, "count", *arguments.INT32)
        request = CreatePartitionsRequest([CreatePartitionsTopic(name, count)], 30_000)
        for result in (await self._cluster.request(request)).results:
            check(result.error_code, result.error_message)

    async def topic_configs(self, name: str, *, defaults: bool = True) -> dict[str, str | None]:
        """Setting -> value. ``defaults`` False: only settings of the topic or the broker, without Kafka's defaults."""
        arguments.text(name, "name")
        request = DescribeConfigsRequest([DescribeConfigsResource(TOPIC_RESOURCE, name, None)])
        result = only((await self._cluster.request(request)).results, f"topic {name}")
        check(result.error_code, result.error_message)
        return {c.name: c.value for c in result.configs if defaults or not (c.is_default or c.config_source == DEFAULT)}

    async def alter_topic_configs(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Setting -> value; None takes the broker's default back."""
        await self.each.alter_topic_configs({name: changes})[name]

    async def delete_records(self, before: ByPartition[int]) -> dict[TopicPartition, int]:
        """Drops records before these offsets (-1: all); returns the new starts."""
        checked = arguments.log_starts(before)
        infos = await self._cluster.topics({t for t, _ in checked})
        starts: dict[TopicPartition, int] = {}
        for (topic, partition), offset in checked.items():
            asked = DeleteRecordsTopic(topic, [DeleteRecordsPartition(partition, offset)])
            node = self._cluster.leader(topic, partition)
            if node is None:
                code = infos[topic].error if topic in infos else ErrorCode.NONE
                raise KafkaError(code or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic}-{partition}")
            for answered in (await self._cluster.request(DeleteRecordsRequest([asked], 30_000), node)).topics:
                for p in answered.partitions:
                    check(p.error_code, f"{topic}-{partition}")
                    starts[TopicPartition(topic, p.partition_index)] = p.low_watermark
        for topic, partition in checked.keys() - starts.keys():
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the broker's answer does not name {topic}-{partition}")
        return starts

    async def offsets(self, timestamps: ByPartition[int]) -> dict[TopicPartition, int]:
        """Offsets for timestamps; -1 is the end, -2 the start."""
        return await list_offsets(self._cluster, arguments.timestamps(timestamps))

    async def partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        """Every partition of these topics that exist."""
        infos = await self._cluster.refresh(arguments.names(topics, "topics"))
        return [TopicPartition(t, p) for t, info in sorted(infos.items()) for p in sorted(info.leaders)]

    # -- groups -------------------------------------------------------------------------------------------------------

    async def list_groups(self, states: Iterable[str] = ()) -> list[ListedGroup]:
        """The groups of every broker, of all or of these states."""
        wanted = frozenset(arguments.names(states, "states"))
        listed: list[ListedGroup] = []
        await self._cluster.refresh([])
        for node in self._cluster.node_ids():
            connection = await self._cluster.connection(node)
            response: ListGroupsResponse = await self._cluster.request(ListGroupsRequest(sorted(wanted)), node)
            check(response.error_code)
            groups = response.groups
            if connection.version_of(ListGroupsRequest) < STATES_FROM:
                groups = await admin_older.with_states(self._cluster, node, groups)
            listed += [g for g in groups if not wanted or g.group_state in wanted]
        return sorted(listed, key=lambda g: g.group_id)

    async def _find(self, group_id: str) -> int:
        return await self._cluster.find_coordinator(arguments.text(group_id, "group_id"))

    async def _coordinator(self, group_id: str, request: Any) -> Any:
        node = await self._find(group_id)
        return await self._cluster.request(request, node)

    async def describe_group(self, group_id: str) -> DescribedGroup:
        """A group that does not exist: KafkaError GROUP_ID_NOT_FOUND (a broker older than 4.0 says state Dead)."""
        response: DescribeGroupsResponse = await self._coordinator(group_id, DescribeGroupsRequest([group_id]))
        group = only(response.groups, f"group {group_id}")
        check(group.error_code, group.error_message)
        return group

    async def explain_group(self, group_id: str) -> dict[str, Any]:
        """The group explained (`coordinator.explain`). Only coterie can: of another broker KafkaError
        UNSUPPORTED_VERSION."""
        node = await self._find(group_id)
        response = await self._cluster.request_unadvertised(ExplainGroupRequest(group_id), ExplainGroupResponse, node)
        check(response.error_code, group_id)
        try:
            document: dict[str, Any] = json.loads(response.document)
        except ValueError as error:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the broker explains {group_id} with no JSON") from error
        return document

    async def lint_group(self, group_id: str) -> list[Advice]:
        """Whether the group may go from eager to cooperative, or from dynamic to static members, now (`client.lint`)."""
        group = await self.describe_group(group_id)
        listed: dict[str, list[str]] | None = None
        with contextlib.suppress(KafkaError):  # only coterie tells what else a member lists
            document = await self.explain_group(group_id)
            listed = {m["member_id"]: m["assignors"] for m in document["members"]}
        node = await self._find(group_id)
        connection = await self._cluster.connection(node)
        return lint_group(group, listed, connection.version_of(JoinGroupRequest))

    async def delete_group(self, group_id: str) -> None:
        response: DeleteGroupsResponse = await self._coordinator(group_id, DeleteGroupsRequest([group_id]))
        check(only(response.results, f"group {group_id}").error_code, group_id)

    async def remove_members(self, group_id: str, members: Iterable[str], reason: str = "") -> dict[str, ErrorCode]:
        """Takes members out of a group, by group.instance.id or by member id; for each what came of it."""
        wanted = arguments.names(members, "members")
        group = await self.describe_group(group_id)
        static = {m.group_instance_id for m in group.members if m.group_instance_id}
        identities = [
            MemberIdentity("", m, reason or None) if m in static else MemberIdentity(m, None, reason or None)
            for m in wanted
        ]
        node = await self._find(group_id)
        if (await self._cluster.connection(node)).version_of(LeaveGroupRequest) < BATCHES_FROM:
            response = await admin_older.leave_one_by_one(self._cluster, node, group_id, identities)
        else:
            response = await self._cluster.request(LeaveGroupRequest(group_id, "", identities), node)
        check(response.error_code, group_id)
        if len(response.members) != len(wanted):
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the broker's answer does not name each of {wanted}")
        return {m: error_of(r.error_code) for m, r in zip(wanted, response.members, strict=True)}

    async def group_offsets(self, group_id: str) -> dict[TopicPartition, int]:
        """All committed offsets of a group."""
        node = await self._find(group_id)
        found = await committed_offsets(self._cluster, node, group_id, None)
        return {tp: said.offset for tp, said in found.items()}

    async def commit_group_offsets(self, group_id: str, offsets: ByPartition[int | OffsetAndMetadata]) -> None:
        """Sets the offsets of a group that has no members. Raises TypeError, ValueError for offsets that cannot be."""
        checked = arguments.offsets_to_commit(offsets)
        await commit_offsets(self._cluster, await self._find(group_id), group_id, checked)

    async def delete_group_offsets(self, group_id: str, partitions: Iterable[PartitionLike]) -> None:
        topics: dict[str, OffsetDeleteRequestTopic] = {}
        for topic, partition in arguments.partitions(partitions):
            entry = topics.setdefault(topic, OffsetDeleteRequestTopic(topic))
            entry.partitions.append(OffsetDeleteRequestPartition(partition))
        request = OffsetDeleteRequest(group_id, list(topics.values()))
        response: OffsetDeleteResponse = await self._coordinator(group_id, request)
        check(response.error_code, group_id)
        for answered in response.topics:
            for p in answered.partitions:
                check(p.error_code, f"{answered.name}-{p.partition_index}")

    async def lag(self, group_id: str) -> dict[TopicPartition, tuple[int, int]]:
        """(committed offset, end of the log) of each partition the group has committed."""
        committed = await self.group_offsets(group_id)
        ends: dict[TopicPartition, int] = {}
        try:
            ends = await list_offsets(self._cluster, dict.fromkeys(committed, -1), wait=False)
        except KafkaError:
            for partition in committed:  # a topic that is gone must not hide the others
                try:
                    ends.update(await list_offsets(self._cluster, {partition: -1}, wait=False))
                except KafkaError:
                    continue
        return {tp: (offset, ends[tp]) for tp, offset in committed.items() if tp in ends}
