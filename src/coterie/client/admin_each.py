"""The admin's work on many things at once: one request where the API takes several, and a future per key, so that what
fails for one says nothing about the others.

    futures = admin.each.delete_topics(["a", "b"])
    await futures["a"]
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from coterie.client import arguments
from coterie.client.admin_older import replace_topic_configs, with_broker_defaults
from coterie.client.cluster import Cluster
from coterie.client.errors import KafkaError, unexpected
from coterie.client.types import ByPartition, PartitionLike, TopicPartition
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from coterie.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from coterie.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from coterie.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from coterie.wire.messages.describe_groups import DescribedGroup
from coterie.wire.messages.incremental_alter_configs import (
    DELETE,
    SET,
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

if TYPE_CHECKING:
    from coterie.client.admin import Admin

K = TypeVar("K")
P = TypeVar("P")
TOPIC_RESOURCE = 2
TIMEOUT_MS = 30_000
Futures = dict[K, "asyncio.Future[Any]"]


@dataclass(frozen=True, slots=True)
class NewTopic:
    """``partitions`` -1: as many as the broker's default."""

    name: str
    partitions: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    replication_factor: int = -1


def _creatable(topic: NewTopic) -> CreatableTopic:
    """Raises TypeError, ValueError."""
    if not isinstance(topic, NewTopic):
        raise TypeError(f"a topic to create must be a NewTopic, not {topic!r}")
    return CreatableTopic(
        arguments.text(topic.name, "name"),
        arguments.whole_number(topic.partitions, "partitions", *arguments.INT32),
        arguments.whole_number(topic.replication_factor, "replication_factor", -1, 2**15 - 1),
        [],
        [CreatableTopicConfig(k, v) for k, v in arguments.settings(topic.configs).items()],
    )


def only(parts: Sequence[P], name: str) -> P:
    """The one part that the answer to a question about ``name`` has. Raises KafkaError."""
    if len(parts) != 1:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the broker's answer has {len(parts)} parts for {name}")
    return parts[0]


class Each:
    """Every method returns at once; a key's future has its result, or its KafkaError."""

    def __init__(self, admin: Admin, cluster: Cluster) -> None:
        self._admin, self._cluster = admin, cluster
        self._tasks: set[asyncio.Task[None]] = set()

    # -- topics -------------------------------------------------------------------------------------------------------

    def create_topics(self, topics: Iterable[NewTopic]) -> Futures[str]:
        wanted = list(topics)
        items = [_creatable(t) for t in wanted]
        return self._together([t.name for t in wanted], self._create(items), lambda a: {t.name: t for t in a.topics})

    async def _create(self, items: list[CreatableTopic]) -> CreateTopicsResponse:
        complete = await with_broker_defaults(self._cluster, items)
        response: CreateTopicsResponse = await self._cluster.request(CreateTopicsRequest(complete, TIMEOUT_MS))
        return response

    def delete_topics(self, names: Iterable[str]) -> Futures[str]:
        wanted = arguments.names(names, "names")
        request = DeleteTopicsRequest([DeleteTopicState(n) for n in wanted], wanted, TIMEOUT_MS)
        return self._together(wanted, self._cluster.request(request), lambda a: {t.name: t for t in a.responses})

    def create_partitions(self, counts: Mapping[str, int]) -> Futures[str]:
        """Topic -> how many it is to have."""
        for name, count in counts.items():
            arguments.text(name, "a topic's name")
            arguments.whole_number(count, "a count", *arguments.INT32)
        request = CreatePartitionsRequest([CreatePartitionsTopic(n, c) for n, c in counts.items()], TIMEOUT_MS)
        return self._together(counts, self._cluster.request(request), lambda a: {t.name: t for t in a.results})

    def topic_configs(self, names: Iterable[str]) -> Futures[str]:
        """The result: setting -> value."""
        wanted = arguments.names(names, "names")
        request = DescribeConfigsRequest([DescribeConfigsResource(TOPIC_RESOURCE, n, None) for n in wanted])
        return self._together(
            wanted,
            self._cluster.request(request),
            lambda a: {r.resource_name: r for r in a.results},
            lambda r: {c.name: c.value for c in r.configs},
        )

    def alter_topic_configs(self, changes: Mapping[str, Mapping[str, str | None]]) -> Futures[str]:
        """Topic -> setting -> value; None takes the broker's default back."""
        checked = {arguments.text(t, "a topic's name"): arguments.settings(c, deletes=True) for t, c in changes.items()}
        return self._together(checked, self._alter(checked), lambda a: {r.resource_name: r for r in a.responses})

    async def _alter(self, changes: Mapping[str, Mapping[str, str | None]]) -> Any:
        if not (await self._cluster.any_connection()).serves(IncrementalAlterConfigsRequest):
            return await replace_topic_configs(self._cluster, changes)
        resources = [
            AlterConfigsResource(
                TOPIC_RESOURCE, name, [AlterableConfig(k, DELETE if v is None else SET, v) for k, v in configs.items()]
            )
            for name, configs in changes.items()
        ]
        return await self._cluster.request(IncrementalAlterConfigsRequest(resources))

    # -- groups -------------------------------------------------------------------------------------------------------

    def describe_groups(self, group_ids: Iterable[str]) -> dict[str, asyncio.Future[DescribedGroup]]:
        return self._apart({g: self._admin.describe_group(g) for g in arguments.names(group_ids, "group_ids")})

    def delete_groups(self, group_ids: Iterable[str]) -> Futures[str]:
        return self._apart({g: self._admin.delete_group(g) for g in arguments.names(group_ids, "group_ids")})

    def group_offsets(self, group_ids: Iterable[str]) -> dict[str, asyncio.Future[dict[TopicPartition, int]]]:
        return self._apart({g: self._admin.group_offsets(g) for g in arguments.names(group_ids, "group_ids")})

    def alter_group_offsets(self, group_id: str, offsets: ByPartition[int]) -> Futures[TopicPartition]:
        """Of a group without members."""
        checked = arguments.offsets_to_commit(offsets)
        return self._apart({tp: self._admin.commit_group_offsets(group_id, {tp: o}) for tp, o in checked.items()})

    def delete_group_offsets(self, group_id: str, partitions: Iterable[PartitionLike]) -> Futures[TopicPartition]:
        return self._apart(
            {tp: self._admin.delete_group_offsets(group_id, [tp]) for tp in arguments.partitions(partitions)}
        )

    def remove_members(self, group_id: str, members: Iterable[str], reason: str = "") -> Futures[str]:
        """Members by group.instance.id or by member id."""
        wanted = list(dict.fromkeys(arguments.names(members, "members")))

        async def work() -> dict[str, Any]:
            found = await self._admin.remove_members(group_id, wanted, reason)
            return {member: None if not code else KafkaError(code, member) for member, code in found.items()}

        return self._resolved(wanted, work())

    # -- records ------------------------------------------------------------------------------------------------------

    def delete_records(self, before: ByPartition[int]) -> dict[TopicPartition, asyncio.Future[int]]:
        """The result: where the log begins now."""

        async def one(partition: TopicPartition, offset: int) -> int:
            return (await self._admin.delete_records({partition: offset}))[partition]

        return self._apart({tp: one(tp, offset) for tp, offset in arguments.log_starts(before).items()})

    def offsets(self, timestamps: ByPartition[int]) -> dict[TopicPartition, asyncio.Future[int]]:
        """For each timestamp (-1 end, -2 start) the offset."""

        async def one(partition: TopicPartition, timestamp: int) -> int:
            return (await self._admin.offsets({partition: timestamp}))[partition]

        return self._apart({tp: one(tp, at) for tp, at in arguments.timestamps(timestamps).items()})

    # -- futures ------------------------------------------------------------------------------------------------------

    def _together(
        self,
        keys: Iterable[K],
        response: Awaitable[Any],
        parts: Callable[[Any], Mapping[K, Any]],
        result: Callable[[Any], Any] = lambda part: None,
    ) -> Futures[K]:
        """One request; each key's part of the answer has its own error."""

        async def work() -> dict[K, Any]:
            found: dict[K, Any] = {}
            for key, part in parts(await response).items():
                code = error_of(part.error_code)
                found[key] = KafkaError(code, part.error_message) if code else result(part)
            return found

        return self._resolved(list(keys), work())

    def _resolved(self, keys: list[K], work: Awaitable[dict[K, Any]]) -> Futures[K]:
        loop = asyncio.get_running_loop()
        futures: Futures[K] = {key: loop.create_future() for key in keys}
        for future in futures.values():
            future.add_done_callback(lambda f: f.cancelled() or f.exception())

        async def resolve() -> None:
            try:
                found = await work
            except (KafkaError, RuntimeError) as error:  # RuntimeError: the admin is closed
                found = dict.fromkeys(keys, error)
            except Exception as error:  # a future without an end would hide it
                found = dict.fromkeys(keys, unexpected(error))
            for key, future in futures.items():
                value = found.get(key, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the broker did not speak of {key}"))
                if not future.done():
                    future.set_exception(value) if isinstance(value, Exception) else future.set_result(value)

        task = asyncio.ensure_future(resolve())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return futures

    def _apart(self, work: Mapping[K, Awaitable[Any]]) -> Futures[K]:
        """A request for each."""
        futures: Futures[K] = {key: asyncio.ensure_future(one) for key, one in work.items()}
        for future in futures.values():
            future.add_done_callback(lambda f: f.cancelled() or f.exception())
        return futures
