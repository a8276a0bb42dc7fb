"""The cluster as a client sees it: brokers, leaders, connections, and where the coordinator of a group or a transactional id
is. One connection a broker, one more to a coordinator, so that group traffic never queues behind fetches (as in Kafka's
ConsumerNetworkClient). What several tasks need at once is done once."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Generic, TypeVar

from coterie.client.connection.connection import Connection
from coterie.client.connection.handshake import is_unresolved, response_type
from coterie.client.errors import AuthenticationError, BootstrapError, ConfigError, KafkaError, check
from coterie.client.pauses.clock import Waits, now_ms
from coterie.client.settings.settings import ClientSettings
from coterie.machines.cluster_metadata import (
    GROUP,
    NO_NODE,
    TOPICS_BY_ID_FROM,
    TRANSACTION,
    Address,
    ClusterMetadata,
    TopicInfo,
)
from coterie.text.addresses import format_address
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.find_coordinator import FindCoordinatorResponse
from coterie.wire.messages.topics.metadata import MetadataRequest, MetadataResponse

R = TypeVar("R")
M = TypeVar("M", bound=Message)
DATA, COORDINATOR = "data", "coordinator"  # the purposes of connections
NEXT_BROKER_S = 0.5  # before another broker is tried beside one that does not respond
__all__ = ["GROUP", "TRANSACTION", "Cluster", "TopicInfo"]


class Shared(Generic[R]):
    """Work under way by key. A caller that is cancelled does not end it for the others."""

    def __init__(self) -> None:
        self._tasks: dict[object, asyncio.Task[R]] = {}

    async def result(self, key: object, work: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """Joins what is under way for the key, or starts it. Raises what the work raises; after `cancel` KafkaError
        NETWORK_EXCEPTION."""
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.create_task(work())
            task.add_done_callback(lambda done: self._end(key, done))
        await asyncio.wait({task})
        if task.cancelled():
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the client was closed")
        return task.result()

    def _end(self, key: object, task: asyncio.Task[R]) -> None:
        self._tasks.pop(key, None)
        if not task.cancelled():
            task.exception()  # its callers may all have been cancelled

    def cancel(self) -> None:
        """Ends all work under way."""
        for task in self._tasks.values():
            task.cancel()


class Cluster:
    """Connections and metadata, shared by a client's parts. Raises ConfigError without bootstrap.servers."""

    def __init__(self, settings: ClientSettings) -> None:
        if not settings.bootstrap_servers:
            raise ConfigError("bootstrap.servers is missing: set it to HOST:PORT of a broker, such as 127.0.0.1:9092")
        self.settings = settings
        self.timeout_s: float = settings.request_timeout_ms / 1000
        self._bootstrap = settings.bootstrap()
        self._security = settings.security()
        self.known = ClusterMetadata(settings.metadata_max_age_ms)
        group = f", group {settings.group_id}," if settings.group_id else ""
        self.waits = Waits(f"client {settings.client_id}{group}")
        self._connections: dict[tuple[int, str], Connection] = {}
        self._opening: Shared[Connection] = Shared()
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None  # of the connections

    @property
    def has_lost_loop(self) -> bool:
        """Whether the event loop on which the client lives is closed: nothing of it can be sent or awaited any more."""
        return self._loop is not None and self._loop.is_closed()

    def require_loop(self) -> None:
        """Raises RuntimeError once the client's event loop is closed."""
        if self.has_lost_loop:
            raise RuntimeError("the event loop of this client is closed; make a new client in the loop that runs now")

    async def any_connection(self) -> Connection:
        """A connection to whichever broker responds within request.timeout.ms. Raises KafkaError."""
        self.require_loop()
        try:
            async with asyncio.timeout(self.timeout_s):
                return await self._first_that_responds()
        except TimeoutError:
            text = f"no broker answers within {self.timeout_s:g} s"
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, text) from None

    async def _first_that_responds(self) -> Connection:
        """One that is open and idle, else one that is open; else the brokers are tried in turn, and a further one after
        NEXT_BROKER_S without a response: a dead machine says nothing for as long as a connection may take. At last those of
        bootstrap.servers, which may have changed (KIP-899)."""
        nodes = self.known.node_ids()
        opened = [connection for node in nodes if (connection := self.open_connection(node, "data")) is not None]
        if opened:
            return next((connection for connection in opened if not connection.is_waiting), opened[0])
        bootstrap = random.sample(self._bootstrap, len(self._bootstrap))
        keys = [(node, "data") for node in nodes] + [(-1 - number, "bootstrap") for number in range(len(bootstrap))]
        candidates = deque(zip(keys, [*map(self.known.address, nodes), *bootstrap], strict=True))
        attempts: set[asyncio.Task[Connection]] = set()
        errors: list[KafkaError] = []
        try:
            while candidates or attempts:
                if candidates:
                    key, address = candidates.popleft()
                    assert address is not None, "a broker of the metadata without an address"
                    attempts.add(asyncio.create_task(self._open(key, address)))
                patience_s = NEXT_BROKER_S if candidates else None
                done, attempts = await asyncio.wait(attempts, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
                failed = {attempt: failure for attempt in done if (failure := attempt.exception()) is not None}
                for attempt in done - failed.keys():
                    return attempt.result()
                for failure in failed.values():
                    if isinstance(failure, AuthenticationError) or not isinstance(failure, KafkaError):
                        raise failure
                    errors.append(failure)
        finally:
            for attempt in attempts:
                attempt.cancel()
        if not nodes and all(map(is_unresolved, errors)):
            text = f"none of bootstrap.servers can be resolved: {', '.join(self.settings.bootstrap_servers)}"
            raise BootstrapError(ErrorCode.NETWORK_EXCEPTION, text) from errors[-1]
        raise errors[-1]

    async def connection(self, node_id: int, purpose: str = DATA) -> Connection:
        """The connection to a broker, opened when needed. Raises KafkaError."""
        address = self.known.address(node_id)
        if address is None:
            text = f"broker {node_id} is not among the brokers of the metadata"
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, text)
        return await self._open((node_id, purpose), address)

    def open_connection(self, node_id: int, purpose: str) -> Connection | None:
        """The connection to a broker, if it is open."""
        connection = self._connections.get((node_id, purpose))
        return None if connection is None or connection.closed else connection

    async def _open(self, key: tuple[int, str], address: tuple[str, int]) -> Connection:
        """Callers that need the same connection wait for one attempt, and share how it ends."""
        connection = self._connections.get(key)
        if connection is not None and not connection.closed:
            return connection
        if self._closed:
            raise RuntimeError("this client is closed; make a new one")
        self.require_loop()
        self._loop = asyncio.get_running_loop()
        return await self._opening.result(key, lambda: self._connect(key, address))

    async def _connect(self, key: tuple[int, str], address: tuple[str, int]) -> Connection:
        client_id, timeout_s = self.settings.client_id, min(self.timeout_s, 10)
        what, began_ms = f"a connection to {format_address(*address)}", now_ms()
        try:
            connection = await Connection.connect(*address, client_id, timeout_s, self._security)
        except KafkaError as error:
            if error.retriable:
                self.waits.failed(what, error, began_ms)
            raise
        self.waits.succeeded(what)
        assert connection.versions is not None
        self.known.features_received(connection.versions.features, connection.versions.features_epoch)
        self._connections[key] = connection
        return connection

    async def request(self, request: Message, node_id: int | None = None) -> Any:
        """Sends to that broker, or to any. Raises KafkaError."""
        connection = await (self.any_connection() if node_id is None else self.connection(node_id))
        return await connection.request(request, response_type(request), self.timeout_s)

    async def request_controller(self, request: Message, results: Callable[[Any], Iterable[Any]]) -> Any:
        """Sends what the controller alone carries out: to any broker, which may be it, and where one of the ``results`` of the
        response is NOT_CONTROLLER to the one that metadata names. Raises KafkaError; NOT_CONTROLLER where there is none now."""

        def is_refused(response: Any) -> bool:
            return any(result.error_code == ErrorCode.NOT_CONTROLLER for result in results(response))

        response = await self.request(request)
        if is_refused(response):
            controller = (await self.metadata([])).controller_id
            if controller not in self.known.node_ids():
                raise KafkaError(ErrorCode.NOT_CONTROLLER, "the cluster has no controller now")
            response = await self.request(request, controller)
            if is_refused(response):
                raise KafkaError(ErrorCode.NOT_CONTROLLER)
        return response

    async def request_unadvertised(self, request: Message, response: type[M], node_id: int) -> M:
        """Sends version 0 of an API that brokers do not tell of, on a connection of its own, since a broker that does
        not know it closes that. Raises KafkaError, then UNSUPPORTED_VERSION."""
        connection = await self.connection(node_id, "unadvertised")
        try:
            return await connection.request_version(request, response, 0, self.timeout_s)
        except KafkaError as error:
            if error.code == ErrorCode.NETWORK_EXCEPTION:
                text = "this broker is not coterie and has no such request"
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text) from error
            raise

    # -- metadata -----------------------------------------------------------------------------------------------------

    async def refresh(self, topics: Iterable[str] | None, *, create: bool = False) -> dict[str, TopicInfo]:
        """Requests the metadata again; None for all topics. Topics that fail carry their error. Raises KafkaError."""
        response = await self.metadata(topics, create=create)
        infos = {t.name or "": self.known.topic(t.name or "") for t in response.topics}
        return {name: info for name, info in infos.items() if info is not None}

    async def metadata(self, topics: Iterable[str] | None, *, create: bool = False) -> MetadataResponse:
        """The response as it is, once its brokers and topics are known; None for all topics. Raises KafkaError."""
        topics = None if topics is None else list(topics)
        connection = await self.any_connection()
        request = self.known.metadata_request(topics, create=create)
        response = await connection.request(request, MetadataResponse, self.timeout_s)
        check(response.error_code)
        version = connection.version_of(MetadataRequest)
        infos = self.known.metadata_received(response, now_ms(), is_all=topics is None, version=version)
        for name in topics or ():
            info = infos.get(name)
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if info is None else info.error
            if not code and info is not None and NO_NODE in info.leaders.values():
                code = ErrorCode.LEADER_NOT_AVAILABLE
            self.waits.responded(f"topic {name}", code)
        return response

    async def topics(self, names: Iterable[str], *, create: bool = False) -> dict[str, TopicInfo]:
        """Topics from the cache where it has them without error."""
        names = list(names)
        missing = self.known.topics_to_look_up(names, now_ms())
        if missing:
            await self.refresh(missing, create=create)
        return {n: info for n in names if (info := self.known.topic(n)) is not None}

    async def all_topics(self) -> dict[str, TopicInfo]:
        """Every topic there is, requested again once every metadata.max.age.ms. Raises KafkaError."""
        if self.known.must_look_up_all(now_ms()):
            await self.refresh(None)
        return self.known.all_topics()

    async def topic_names(self, topic_ids: Iterable[bytes]) -> dict[bytes, str]:
        """The names of these topic ids, where a broker knows them. Raises KafkaError."""
        wanted = frozenset(topic_ids)
        missing = wanted - self.known.topic_names(wanted).keys()
        if missing:
            connection = await self.any_connection()
            if connection.version_of(MetadataRequest) < TOPICS_BY_ID_FROM:
                await self.refresh(None)
            else:
                request = self.known.topic_ids_request(missing)
                response = await connection.request(request, MetadataResponse, self.timeout_s)
                check(response.error_code)
                self.known.metadata_received(response, now_ms())
        return self.known.topic_names(wanted)

    def leader_epoch(self, topic: str, partition: int) -> int:
        """The epoch of the partition's leader; -1 where it is not known."""
        return self.known.leader_epoch(topic, partition)

    def forget(self, topic: str) -> None:
        """The next look at the topic sends a request."""
        self.known.forget_topic(topic)

    # -- coordinators ---------------------------------------------------------------------------------------------------

    async def find_coordinator(self, key: str, kind: int = GROUP) -> int:
        """The node id of the coordinator of a group, or of a transactional id. Raises KafkaError."""
        connection = await self.any_connection()
        request = self.known.coordinator_request(key, kind)
        response = await connection.request(request, FindCoordinatorResponse, self.timeout_s)
        lookup = self.known.coordinator_received(key, kind, response)
        self.waits.responded(f"the coordinator of {key}", lookup.error_code)
        check(lookup.error_code, lookup.error_message)
        return lookup.node_id

    def node_ids(self) -> list[int]:
        """The brokers that the newest metadata names."""
        return self.known.node_ids()

    def address(self, node_id: int | None) -> Address | None:
        """Where that broker is, if it is known."""
        return self.known.address(node_id)

    async def coordinator_connection(self, node_id: int) -> Connection:
        """One of its own, so that heartbeats do not wait behind fetches. Raises KafkaError."""
        return await self.connection(node_id, COORDINATOR)

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def has_connected(self) -> bool:
        """Whether there was a connection to any broker."""
        return bool(self._connections)

    def close(self) -> None:
        """Every later request raises RuntimeError."""
        self._closed = True
        if not self.has_lost_loop:  # else the sockets end with their transports
            self._opening.cancel()
            for connection in self._connections.values():
                connection.close()
        self._connections.clear()


class Coordinator:
    """Looked up at first use, and again after `forget`."""

    def __init__(self, cluster: Cluster, key: str, kind: int = GROUP) -> None:
        self.cluster, self.key, self._kind = cluster, key, kind
        self._lookup: Shared[int] = Shared()

    async def node(self) -> int:
        """The coordinator's node id, looked up where it is unknown. Raises KafkaError."""
        node = self.cluster.known.coordinator(self.key, self._kind)
        if node is None:
            node = await self._lookup.result(None, lambda: self.cluster.find_coordinator(self.key, self._kind))
        return node

    def forget(self) -> None:
        """The next request looks it up again."""
        self.cluster.known.forget_coordinator(self.key, self._kind)
