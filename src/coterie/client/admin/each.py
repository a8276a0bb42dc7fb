"""The admin's operations on many things at once: one request where the API takes several, and a future per key, so that the
failure of one leaves the others as they are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from coterie.client import arguments
from coterie.client.admin.calls import Futures, nothing, until_done
from coterie.client.admin.configs import EachConfigCalls
from coterie.client.admin.older import with_broker_defaults
from coterie.client.admin_types import ConsumerGroupDescription
from coterie.client.connection.cluster import Cluster
from coterie.client.errors import KafkaError, check, error_about
from coterie.client.pauses.retrying import NO_SUCH_TOPIC
from coterie.client.types import ByPartition, OffsetAndMetadata, PartitionLike, TopicPartition
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.topics.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from coterie.wire.messages.topics.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from coterie.wire.messages.topics.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from coterie.wire.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState

TIMEOUT_MS = 30_000


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. ``partitions`` -1: the broker's num.partitions; ``replication_factor`` -1: its
    default.replication.factor. ``configs``: topic settings by Kafka's names, as text. ``assignments``: in the stead of these
    two numbers, the broker ids of each partition's replicas by its number, the preferred leader first."""

    name: str
    partitions: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    replication_factor: int = -1
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)


def _creatable(topic: NewTopic) -> CreatableTopic:
    """Raises TypeError, ValueError."""
    if not isinstance(topic, NewTopic):
        raise TypeError(f"a topic to create must be a NewTopic, not {topic!r}")
    assignments = arguments.replica_assignments(topic.assignments)
    if assignments and (topic.partitions, topic.replication_factor) != (-1, -1):
        raise ValueError("a topic has either assignments or partitions and replication_factor, not both")
    return CreatableTopic(
        arguments.text(topic.name, "name"),
        arguments.whole_number(topic.partitions, "partitions", *arguments.INT32),
        arguments.whole_number(topic.replication_factor, "replication_factor", -1, 2**15 - 1),
        [CreatableReplicaAssignment(partition, ids) for partition, ids in assignments.items()],
        [CreatableTopicConfig(k, v) for k, v in arguments.settings(topic.configs).items()],
    )


class OneByOne(Protocol):
    """The operations of `Admin` that `Each` repeats, a request for each thing; what they return and raise stands there."""

    async def describe_consumer_group(self, group_id: str) -> ConsumerGroupDescription: ...

    async def delete_consumer_group(self, group_id: str) -> None: ...

    async def remove_members_from_consumer_group(
        self, group_id: str, members: Iterable[str], reason: str
    ) -> dict[str, ErrorCode]: ...

    async def list_consumer_group_offsets(self, group_id: str) -> dict[TopicPartition, int]: ...

    async def alter_consumer_group_offsets(
        self, group_id: str, offsets: ByPartition[int | OffsetAndMetadata]
    ) -> None: ...

    async def delete_consumer_group_offsets(self, group_id: str, partitions: Iterable[PartitionLike]) -> None: ...

    async def delete_records(self, before: ByPartition[int]) -> dict[TopicPartition, int]: ...

    async def list_offsets(
        self, timestamps: ByPartition[int], *, errors: dict[TopicPartition, KafkaError]
    ) -> dict[TopicPartition, int]: ...


class Each(EachConfigCalls):
    """`Admin`'s operations on many things at once, as `Admin.each`: every method returns at once a future for each thing, in
    the order given. A future has the result of the method of `Admin` that does the same for one, or its KafkaError.

    A future whose error nobody reads logs no warning. Arguments of a wrong type are a TypeError or ValueError of the call.

    >>> futures = admin.each.delete_topics(["orders", "none"])
    >>> await futures["orders"]
    >>> futures["none"].exception().code
    <ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 3>
    """

    def __init__(self, admin: OneByOne, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._admin = admin

    # -- topics -------------------------------------------------------------------------------------------------------

    def create_topics(self, topics: Iterable[NewTopic]) -> Futures[str, None]:
        """A future for each name, as `Admin.create_topic`, in one request.

        >>> futures = admin.each.create_topics([NewTopic("payments", 3), NewTopic("orders")])
        >>> await futures["payments"]
        >>> futures["orders"].exception().code
        <ErrorCode.TOPIC_ALREADY_EXISTS: 36>
        """
        wanted = list(topics)
        items = [_creatable(t) for t in wanted]
        names = [t.name for t in wanted]

        async def create(left: list[str]) -> Any:
            complete = await with_broker_defaults(self._cluster, [item for item in items if item.name in left])
            request = CreateTopicsRequest(complete, TIMEOUT_MS)
            return (await self._cluster.request_controller(request, lambda a: a.topics)).topics

        return self._together(names, self._change(names, create), dict, nothing)

    def delete_topics(self, names: Iterable[str]) -> Futures[str, None]:
        """A future for each name, as `Admin.delete_topic`, in one request."""
        wanted = arguments.names(names, "names")

        async def delete(left: list[str]) -> Any:
            request = DeleteTopicsRequest([DeleteTopicState(n) for n in left], left, TIMEOUT_MS)
            return (await self._cluster.request_controller(request, lambda a: a.responses)).responses

        return self._together(wanted, self._change(wanted, delete), dict, nothing)

    def create_partitions(self, counts: Mapping[str, int]) -> Futures[str, None]:
        """A future for each topic, which then has so many partitions, as `Admin.create_partitions`, in one request."""
        for name, count in counts.items():
            arguments.text(name, "a topic's name")
            arguments.whole_number(count, "a count", *arguments.INT32)
        wanted = dict(counts)

        async def create(left: list[str]) -> Any:
            request = CreatePartitionsRequest([CreatePartitionsTopic(n, wanted[n]) for n in left], TIMEOUT_MS)
            return (await self._cluster.request_controller(request, lambda a: a.results)).results

        return self._together(wanted, self._change(list(wanted), create), dict, nothing)

    async def _change(self, names: list[str], send: Callable[[list[str]], Awaitable[Any]]) -> dict[str, Any]:
        """The parts of the responses by topic, once ``send`` is done with each: what the quota of changes to topics refuses
        (KIP-599) is requested again, alone. Raises KafkaError where there is no response."""
        parts: dict[str, Any] = {}

        def left() -> list[str]:
            return [n for n in names if n not in parts or parts[n].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED]

        async def attempt() -> None:
            parts.update({part.name: part for part in await send(left())})
            if any(name in parts for name in left()):
                raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)

        try:
            await until_done(self._cluster, attempt, final=NO_SUCH_TOPIC)
        except KafkaError:
            if not parts:
                raise
        return parts

    # -- replicas -----------------------------------------------------------------------------------------------------

    def alter_partition_reassignments(
        self, reassignments: ByPartition[Sequence[int] | None]
    ) -> Futures[TopicPartition, None]:
        """A future for each partition, as `Admin.alter_partition_reassignments`, in one request.

        >>> futures = admin.each.alter_partition_reassignments({("orders", 0): [1], ("orders", 1): [7]})
        >>> await futures["orders", 0]
        >>> futures["orders", 1].exception().code
        <ErrorCode.INVALID_REPLICA_ASSIGNMENT: 39>
        """
        checked = arguments.reassignments(reassignments)
        topics: dict[str, ReassignableTopic] = {}
        for (topic, partition), replicas in checked.items():
            entry = topics.setdefault(topic, ReassignableTopic(topic))
            entry.partitions.append(ReassignablePartition(partition, replicas))

        async def send() -> AlterPartitionReassignmentsResponse:
            request = AlterPartitionReassignmentsRequest(TIMEOUT_MS, topics=list(topics.values()))
            response: AlterPartitionReassignmentsResponse = await self._request_controller(request, lambda a: [a])
            check(response.error_code, response.error_message)
            return response

        def parts(response: AlterPartitionReassignmentsResponse) -> dict[TopicPartition, Any]:
            return {TopicPartition(t.name, p.partition_index): p for t in response.responses for p in t.partitions}

        return self._together(checked, send(), parts, nothing)

    # -- groups -------------------------------------------------------------------------------------------------------

    def describe_consumer_groups(self, group_ids: Iterable[str]) -> Futures[str, ConsumerGroupDescription]:
        """A future for each group, as `Admin.describe_consumer_group`."""
        return self._apart({g: self._admin.describe_consumer_group(g) for g in arguments.names(group_ids, "group_ids")})

    def delete_consumer_groups(self, group_ids: Iterable[str]) -> Futures[str, None]:
        """A future for each group, as `Admin.delete_consumer_group`."""
        return self._apart({g: self._admin.delete_consumer_group(g) for g in arguments.names(group_ids, "group_ids")})

    def list_consumer_group_offsets(self, group_ids: Iterable[str]) -> Futures[str, dict[TopicPartition, int]]:
        """A future for each group with its committed offsets, as `Admin.list_consumer_group_offsets`.

        >>> await admin.each.list_consumer_group_offsets(["billing"])["billing"]
        {TopicPartition(topic='orders', partition=0): 2}
        """
        return self._apart(
            {g: self._admin.list_consumer_group_offsets(g) for g in arguments.names(group_ids, "group_ids")}
        )

    def alter_consumer_group_offsets(
        self, group_id: str, offsets: ByPartition[int | OffsetAndMetadata]
    ) -> Futures[TopicPartition, None]:
        """A future for each partition, committed for a group without members as by `Admin.alter_consumer_group_offsets`."""
        checked = arguments.offsets_to_commit(offsets)
        return self._apart(
            {tp: self._admin.alter_consumer_group_offsets(group_id, {tp: o}) for tp, o in checked.items()}
        )

    def delete_consumer_group_offsets(
        self, group_id: str, partitions: Iterable[PartitionLike]
    ) -> Futures[TopicPartition, None]:
        """A future for each partition, as `Admin.delete_consumer_group_offsets`."""
        return self._apart(
            {tp: self._admin.delete_consumer_group_offsets(group_id, [tp]) for tp in arguments.partitions(partitions)}
        )

    def remove_members_from_consumer_group(
        self, group_id: str, members: Iterable[str], reason: str = ""
    ) -> Futures[str, None]:
        """A future for each member, named by group.instance.id or by member id, in one request; as
        `Admin.remove_members_from_consumer_group`."""
        wanted = list(dict.fromkeys(arguments.names(members, "members")))

        async def work() -> dict[str, Any]:
            codes = await self._admin.remove_members_from_consumer_group(group_id, wanted, reason)
            return {member: error_about(code, f"member {member}") if code else None for member, code in codes.items()}

        return self._resolved(wanted, work())

    # -- records ------------------------------------------------------------------------------------------------------

    def delete_records(self, before: ByPartition[int]) -> Futures[TopicPartition, int]:
        """A future for each partition with the new first offset of its log, as `Admin.delete_records`."""

        async def one(partition: TopicPartition, offset: int) -> int:
            return (await self._admin.delete_records({partition: offset}))[partition]

        return self._apart({tp: one(tp, offset) for tp, offset in arguments.log_starts(before).items()})

    def list_offsets(self, timestamps: ByPartition[int]) -> Futures[TopicPartition, int]:
        """A future for each partition with the offset for its timestamp, in one request a leader; as `Admin.list_offsets`."""
        wanted = arguments.timestamps(timestamps)

        async def work() -> dict[TopicPartition, Any]:
            errors: dict[TopicPartition, KafkaError] = {}
            return {**await self._admin.list_offsets(wanted, errors=errors), **errors}

        return self._resolved(list(wanted), work())
