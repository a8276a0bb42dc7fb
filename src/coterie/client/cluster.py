"""The cluster as a client sees it: brokers, leaders, connections. One connection a broker, one more to a coordinator,
so that group traffic never queues behind fetches (as in Kafka's ConsumerNetworkClient)."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from coterie.client.connection import Connection, answer_type
from coterie.client.errors import AuthenticationError, KafkaError, check
from coterie.client.settings import ClientSettings
from coterie.client.sharing import Shared
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from coterie.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

M = TypeVar("M", bound=Message)
GROUP, TRANSACTION = 0, 1  # kinds of coordinators


@dataclass(slots=True)
class TopicInfo:
    """A topic: its id, the leader's node id of each partition, and the racks of each partition's replicas."""

    topic_id: bytes
    leaders: dict[int, int]
    error: ErrorCode = ErrorCode.NONE
    internal: bool = False
    racks: list[frozenset[str]] = field(default_factory=list)
    epochs: dict[int, int] = field(default_factory=dict)  # each partition's leader epoch, -1 where it is not told


@dataclass(slots=True)
class _Known:
    brokers: dict[int, tuple[str, int]] = field(default_factory=dict)
    topics: dict[str, TopicInfo] = field(default_factory=dict)
    updated_s: float = 0.0


class Cluster:
    """Connections and metadata, shared by a client's parts."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self.timeout_s: float = settings.request_timeout_ms / 1000
        self._bootstrap = settings.bootstrap()
        self._security = settings.security()
        self._known = _Known()
        self._all: dict[str, TopicInfo] = {}
        self._all_updated_s = float("-inf")
        self._connections: dict[tuple[int, str], Connection] = {}
        self._opening: Shared[Connection] = Shared()
        self._closed = False

    async def any_connection(self) -> Connection:
        """A connection to whichever broker answers within request.timeout.ms. Raises KafkaError."""
        try:
            async with asyncio.timeout(self.timeout_s):
                return await self._first_that_answers()
        except TimeoutError:
            text = f"no broker answers within {self.timeout_s:g} s"
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, text) from None

    async def _first_that_answers(self) -> Connection:
        for node_id in list(self._known.brokers):
            try:
                return await self.connection(node_id)
            except AuthenticationError:
                raise
            except KafkaError:
                continue
        error: KafkaError | None = None
        for number, address in enumerate(random.sample(self._bootstrap, len(self._bootstrap))):
            try:
                return await self._open((-1 - number, "bootstrap"), address)
            except AuthenticationError:
                raise
            except KafkaError as failed:
                error = failed
        assert error is not None
        raise error

    async def connection(self, node_id: int, purpose: str = "data") -> Connection:
        """The connection to a broker, opened when needed. Raises KafkaError."""
        address = self._known.brokers.get(node_id)
        if address is None:
            text = f"broker {node_id} is not among those that the metadata names"
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, text)
        return await self._open((node_id, purpose), address)

    async def _open(self, key: tuple[int, str], address: tuple[str, int]) -> Connection:
        """Callers that need the same connection wait for one attempt, and share how it ends."""
        connection = self._connections.get(key)
        if connection is not None and not connection.closed:
            return connection
        if self._closed:
            raise RuntimeError("this client is closed; make a new one")
        return await self._opening.result(key, lambda: self._connect(key, address))

    async def _connect(self, key: tuple[int, str], address: tuple[str, int]) -> Connection:
        client_id, timeout_s = self.settings.client_id, min(self.timeout_s, 10)
        connection = await Connection.connect(*address, client_id, timeout_s, self._security)
        self._connections[key] = connection
        return connection

    async def request(self, request: Message, node_id: int | None = None) -> Any:
        """Sends to that broker, or to any. Raises KafkaError."""
        connection = await (self.any_connection() if node_id is None else self.connection(node_id))
        return await connection.request(request, answer_type(request), self.timeout_s)

    async def request_unadvertised(self, request: Message, answer: type[M], node_id: int) -> M:
        """Sends version 0 of an API that brokers do not tell of, on a connection of its own, since a broker that does
        not know it closes that. Raises KafkaError, then UNSUPPORTED_VERSION."""
        connection = await self.connection(node_id, "unadvertised")
        try:
            return await connection.request_version(request, answer, 0, self.timeout_s)
        except KafkaError as error:
            if error.code == ErrorCode.NETWORK_EXCEPTION:
                text = "this broker is not coterie and cannot be asked that"
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text) from error
            raise

    # -- metadata -----------------------------------------------------------------------------------------------------

    async def refresh(self, topics: Iterable[str] | None, *, create: bool = False) -> dict[str, TopicInfo]:
        """Asks anew; None for all topics. Topics that fail carry their error. Raises KafkaError."""
        response = await self.metadata(topics, create=create)
        return {t.name or "": self._known.topics[t.name or ""] for t in response.topics}

    async def metadata(self, topics: Iterable[str] | None, *, create: bool = False) -> MetadataResponse:
        """The response as it is, once the cache has its brokers and topics; None for all topics. Raises KafkaError."""
        asked = None if topics is None else [MetadataRequestTopic(name=t) for t in topics]
        connection = await self.any_connection()
        response = await connection.request(MetadataRequest(asked, create), MetadataResponse, self.timeout_s)
        check(response.error_code)
        self._known.brokers = {b.node_id: (b.host, b.port) for b in response.brokers}
        rack_of = {b.node_id: b.rack for b in response.brokers if b.rack}
        for topic in response.topics:
            ordered = sorted(topic.partitions, key=lambda p: p.partition_index)
            leaders = {p.partition_index: p.leader_id for p in ordered}
            racks = [frozenset(rack_of[n] for n in p.replica_nodes if n in rack_of) for p in ordered]
            info = TopicInfo(topic.topic_id, leaders, error_of(topic.error_code), topic.is_internal, racks)
            info.epochs = {p.partition_index: p.leader_epoch for p in ordered}
            self._known.topics[topic.name or ""] = info
        self._known.updated_s = time.monotonic()
        return response

    async def topics(self, names: Iterable[str], *, create: bool = False) -> dict[str, TopicInfo]:
        """Topics from the cache where it has them without error."""
        names = list(names)
        old = time.monotonic() - self._known.updated_s > self.settings.metadata_max_age_ms / 1000
        missing = [n for n in names if old or n not in self._known.topics or self._known.topics[n].error]
        if missing:
            await self.refresh(missing, create=create)
        return {n: self._known.topics[n] for n in names if n in self._known.topics}

    async def all_topics(self) -> dict[str, TopicInfo]:
        """Every topic there is, asked anew once every metadata.max.age.ms. Raises KafkaError."""
        if time.monotonic() - self._all_updated_s > self.settings.metadata_max_age_ms / 1000:
            self._all = await self.refresh(None)
            self._all_updated_s = time.monotonic()
        return self._all

    def leader(self, topic: str, partition: int) -> int | None:
        info = self._known.topics.get(topic)
        return None if info is None else info.leaders.get(partition)

    def leader_epoch(self, topic: str, partition: int) -> int:
        """-1 where it is not known."""
        info = self._known.topics.get(topic)
        return -1 if info is None else info.epochs.get(partition, -1)

    def forget(self, topic: str) -> None:
        """The next look at the topic asks the broker."""
        self._known.topics.pop(topic, None)

    # -- coordinators ---------------------------------------------------------------------------------------------------

    async def find_coordinator(self, key: str, kind: int = GROUP) -> int:
        """The node id of the coordinator of a group, or of a transactional id. Raises KafkaError."""
        connection = await self.any_connection()
        request = FindCoordinatorRequest(key, kind, [key])
        response = await connection.request(request, FindCoordinatorResponse, self.timeout_s)
        found: Any = response.coordinators[0] if response.coordinators else response
        check(found.error_code, found.error_message)
        self._known.brokers[found.node_id] = (found.host, found.port)
        return int(found.node_id)

    def node_ids(self) -> list[int]:
        """The brokers that the newest metadata names."""
        return sorted(self._known.brokers)

    def address(self, node_id: int | None) -> tuple[str, int] | None:
        """Where that broker is, if it is known."""
        return None if node_id is None else self._known.brokers.get(node_id)

    async def coordinator_connection(self, node_id: int) -> Connection:
        return await self.connection(node_id, "coordinator")

    def close(self) -> None:
        """Every later request raises RuntimeError."""
        self._closed = True
        self._opening.cancel()
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
