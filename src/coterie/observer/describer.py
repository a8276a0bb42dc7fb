"""Groups described by their coordinators: many in one request, one connection to a broker, and no more requests a second than
allowed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from typing import Any

from coterie.client.connection.cluster import Cluster, Coordinator
from coterie.client.errors import KafkaError, check
from coterie.client.settings.settings import client_settings
from coterie.client.types import TopicPartition
from coterie.coordinator.partitioning import partition_for
from coterie.machines.cluster_metadata import NO_NODE
from coterie.observer.group_descriptions import CONSUMER_TYPE, DESCRIPTIONS, classic_group, now_ms
from coterie.observer.internal_topics import OFFSETS_TOPIC
from coterie.observer.machine.sights import Described, NoCoordinatorSeen, TopicsSeen
from coterie.wire import topic_names
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from coterie.wire.messages.groups.list_groups import ListGroupsRequest, ListGroupsResponse
from coterie.wire.messages.groups.offset_fetch import (
    SEVERAL_FROM,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)

REQUESTS_PER_S = 5.0
GROUPS_AT_ONCE = 100  # in one request


class RequestRate:
    """No two requests are closer than the rate allows."""

    def __init__(self, per_s: float) -> None:
        self._pause_s, self._next_s = 1 / per_s, 0.0

    async def turn(self) -> None:
        """Returns once the next request may be sent."""
        now_s = asyncio.get_running_loop().time()
        self._next_s = max(self._next_s, now_s) + self._pause_s
        await asyncio.sleep(self._next_s - self._pause_s - now_s)


class Describer:
    """Its methods raise KafkaError."""

    def __init__(self, client: dict[str, Any], rate: RequestRate) -> None:
        self._cluster, self._rate = Cluster(client_settings(client)), rate
        self._types: dict[str, str] = {}  # of groups that are not of the classic protocol: one of DESCRIPTIONS

    def close(self) -> None:
        self._cluster.close()

    async def topics(self) -> TopicsSeen:
        """All topics with their partitions."""
        await self._rate.turn()
        infos = await self._cluster.refresh(None)
        counts = {name: len(info.leaders) for name, info in infos.items() if not info.error}
        ids = {name: info.topic_id for name, info in infos.items() if any(info.topic_id)}
        return TopicsSeen(now_ms(), counts, ids)

    async def group_names(self) -> list[str]:
        """The groups of all brokers; of one that does not respond none."""
        names: list[str] = []
        for node in self._cluster.node_ids():
            await self._rate.turn()
            try:
                response: ListGroupsResponse = await self._cluster.request(ListGroupsRequest(), node)
                check(response.error_code)
            except KafkaError as error:
                if not error.retriable:
                    raise
                continue
            names += [group.group_id for group in response.groups]
            types = {group.group_id: group.group_type.lower() for group in response.groups}
            self._types |= {name: kind for name, kind in types.items() if kind in DESCRIPTIONS}
        return names

    async def described(self, names: Sequence[str]) -> list[Described | NoCoordinatorSeen]:
        """What the coordinators describe of these groups. A broker that does not respond, or coordinates a group no more,
        describes none; the next call looks for the coordinators again."""
        by_node = await self._coordinated(names)
        lost = by_node.pop(NO_NODE, [])
        sights: list[Described | NoCoordinatorSeen] = [NoCoordinatorSeen(now_ms(), name) for name, _ in lost]
        for node, groups in by_node.items():
            for start in range(0, len(groups), GROUPS_AT_ONCE):
                try:
                    sights += await self._of_one_broker(node, dict(groups[start : start + GROUPS_AT_ONCE]))
                except KafkaError as error:
                    if not error.retriable:
                        raise
                    self._cluster.forget(OFFSETS_TOPIC)
        return sights

    async def committed(self, names: Sequence[str]) -> dict[str, dict[TopicPartition, int]]:
        """The committed offsets of these groups, a hundred groups in a request (KIP-709; of a broker before Kafka 3.0 one). A
        group whose coordinator does not respond, or refuses, is left out."""
        committed: dict[str, dict[TopicPartition, int]] = {}
        by_node = await self._coordinated(names)
        by_node.pop(NO_NODE, None)
        for node, groups in by_node.items():
            with contextlib.suppress(KafkaError):
                connection = await self._cluster.connection(node)
                version = min(connection.version_of(OffsetFetchRequest), topic_names.OFFSET_FETCH)
                at_once = GROUPS_AT_ONCE if version >= SEVERAL_FROM else 1
                for start in range(0, len(groups), at_once):
                    await self._rate.turn()
                    names = [name for name, _ in groups[start : start + at_once]]
                    request = OffsetFetchRequest(
                        names[0], None, [OffsetFetchRequestGroup(name, topics=None) for name in names]
                    )
                    response: OffsetFetchResponse = await connection.request(
                        request, OffsetFetchResponse, self._cluster.timeout_s, highest=version
                    )
                    committed |= _offsets(names[0], response, version)
        return committed

    async def _coordinated(self, names: Sequence[str]) -> dict[int, list[tuple[str, int]]]:
        """The groups by coordinator, each with the leader epoch of its partition."""
        by_node: dict[int, list[tuple[str, int]]] = {}
        for name in names:
            node, epoch = await self._coordinator(name)
            by_node.setdefault(node, []).append((name, epoch))
        return by_node

    async def _coordinator(self, name: str) -> tuple[int, int]:
        """The node and the leader epoch of the group's partition; where that topic is hidden, what FindCoordinator names."""
        infos = await self._cluster.topics([OFFSETS_TOPIC])
        info = infos.get(OFFSETS_TOPIC)
        if info is None or info.error or not info.leaders:
            await self._rate.turn()
            coordinator = Coordinator(self._cluster, name)
            coordinator.forget()
            return await coordinator.node(), -1
        partition = partition_for(name, len(info.leaders))
        leader = info.leaders.get(partition, NO_NODE)
        if leader == NO_NODE:
            self._cluster.forget(OFFSETS_TOPIC)
        return leader, self._cluster.leader_epoch(OFFSETS_TOPIC, partition)

    async def _of_one_broker(self, node: int, epochs: dict[str, int]) -> list[Described]:
        by_type: dict[str, list[str]] = {kind: [] for kind in ("", *DESCRIPTIONS)}
        for name in sorted(epochs):
            by_type[self._types.get(name, "")].append(name)
        sights: list[Described] = []
        if classic := by_type.pop(""):
            await self._rate.turn()
            response: DescribeGroupsResponse = await self._cluster.request(DescribeGroupsRequest(classic), node)
            for group in response.groups:
                if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND or group.group_state == "Dead":
                    by_type[CONSUMER_TYPE].append(group.group_id)  # as it seems from the classic side
                elif self._is_described(group.error_code):
                    sights.append(classic_group(group, (node, epochs[group.group_id])))
        for kind, names in by_type.items():
            request, described_by = DESCRIPTIONS[kind]
            if names and (await self._cluster.connection(node)).serves(request):
                await self._rate.turn()
                of_type: Any = await self._cluster.request(request(names), node)
                for group in of_type.groups:
                    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
                        self._types.pop(group.group_id, None)
                    elif self._is_described(group.error_code):
                        self._types[group.group_id] = kind
                        sights.append(described_by(group, (node, epochs[group.group_id])))
        return sights

    def _is_described(self, error_code: int) -> bool:
        if error_code:
            self._cluster.forget(OFFSETS_TOPIC)
        return not error_code


def _offsets(group: str, response: OffsetFetchResponse, version: int) -> dict[str, dict[TopicPartition, int]]:
    """By group; ``group``: the only one that an older version can name."""
    groups: Iterable[tuple[str, int, Iterable[Any]]] = [(g.group_id, g.error_code, g.topics) for g in response.groups]
    if version < SEVERAL_FROM:
        groups = [(group, response.error_code, response.topics)]
    return {
        name: {
            TopicPartition(topic.name, p.partition_index): p.committed_offset
            for topic in topics
            for p in topic.partitions
            if p.committed_offset >= 0
        }
        for name, code, topics in groups
        if not code
    }
