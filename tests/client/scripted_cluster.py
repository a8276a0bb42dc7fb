"""A cluster without sockets, for a transactional producer: a test says how requests are answered and when, and reads which went
out, in their order."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any
from unittest.mock import patch

from coterie.client import Producer
from coterie.client.connection.cluster import Cluster
from coterie.client.errors import KafkaError
from coterie.client.settings.settings import ClientSettings
from coterie.machines.cluster_metadata import GROUP
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from coterie.wire.messages.logs.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from coterie.wire.messages.topics.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from coterie.wire.messages.transactions.add_partitions_to_txn import AddPartitionsToTxnResponse
from tests.producing.test_transactions import know, response

NODE = 0
LOST = ErrorCode.NETWORK_EXCEPTION  # no response comes
Kind = type[Message]


def produce_response(request: ProduceRequest, code: ErrorCode) -> ProduceResponse:
    topics = [
        TopicProduceResponse(
            topic.name,
            partition_responses=[
                PartitionProduceResponse(data.index, code, -1 if code else 7, log_start_offset=0)
                for data in topic.partition_data
            ],
        )
        for topic in request.topic_data
    ]
    return ProduceResponse(responses=topics)


class ScriptedCluster(Cluster):
    """One broker, with the topics t and u of two partitions each. ``requested``: the requests; ``newest``: the newest version
    of some. What is not scripted has a response at once, without error."""

    def __init__(self, settings: ClientSettings) -> None:
        super().__init__(settings)
        self.requested: list[Message] = []
        self.newest: dict[Kind, int] = {}
        self.metadata_script: deque[tuple[ErrorCode, int]] = deque()
        self.metadata_requested = 0
        self._codes: dict[Kind, deque[ErrorCode]] = defaultdict(deque)
        self._held: dict[Kind, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    # -- the script -----------------------------------------------------------------------------------------------------

    def fail(self, kind: Kind, *codes: ErrorCode) -> None:
        """The next requests of that type are answered so; LOST: not at all."""
        self._codes[kind].extend(codes)

    def hold(self, kind: Kind) -> None:
        """Requests of that type wait for `release`."""
        self._held[kind] = asyncio.Event()

    def release(self, kind: Kind) -> None:
        self._held.pop(kind).set()

    def kinds(self) -> list[str]:
        """The requests so far, without those for a coordinator."""
        return [
            type(request).__name__.removesuffix("Request")
            for request in self.requested
            if not isinstance(request, FindCoordinatorRequest)
        ]

    def last(self) -> Message | None:
        """The newest request."""
        return self.requested[-1] if self.requested else None

    async def response_to(self, request: Message, highest: int | None = None) -> Any:
        self.requested.append(request)
        kind = type(request)
        if kind in self._held:
            await self._held[kind].wait()
        code = self._codes[kind].popleft() if self._codes[kind] else ErrorCode.NONE
        if code == LOST:
            raise KafkaError(code)
        if isinstance(request, ProduceRequest):
            return produce_response(request, code)
        received = response(request, code, bumps_epoch=highest is None)
        if code and isinstance(received, AddPartitionsToTxnResponse):
            others = [p for t in received.results_by_topic for p in t.results_by_partition][1:]
            for other in others:
                other.partition_error_code = ErrorCode.OPERATION_NOT_ATTEMPTED
        return received

    # -- the cluster ----------------------------------------------------------------------------------------------------

    async def metadata(self, topics: Iterable[str] | None, *, create: bool = False) -> MetadataResponse:
        self.metadata_requested += 1
        code, count = self.metadata_script.popleft() if self.metadata_script else (ErrorCode.NONE, 2)
        partitions = [MetadataResponsePartition(partition_index=n, leader_id=NODE) for n in range(count)]
        response = MetadataResponse(
            brokers=[MetadataResponseBroker(NODE, "scripted", 1)],
            topics=[MetadataResponseTopic(code, name, partitions=partitions) for name in topics or ()],
        )
        self.known.metadata_received(response, time.monotonic() * 1000)
        return response

    async def find_coordinator(self, key: str, kind: int = GROUP) -> int:
        self.requested.append(self.known.coordinator_request(key, kind))
        if self._codes[FindCoordinatorRequest]:
            raise KafkaError(self._codes[FindCoordinatorRequest].popleft())
        know(self.known, key, kind, NODE)
        return NODE

    async def any_connection(self) -> Any:
        return _Connection(self)

    def open_connection(self, node_id: int, purpose: str) -> Any:
        return _Connection(self)

    async def connection(self, node_id: int, purpose: str = "") -> Any:
        return _Connection(self)

    def begin(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()


class _Connection:
    """As much of `Connection` as a producer uses."""

    def __init__(self, cluster: ScriptedCluster) -> None:
        self._cluster = cluster

    def version_of(self, request: Kind, highest: int | None = None) -> int:
        newest = request.versions.last if highest is None else highest
        return min(newest, self._cluster.newest.get(request, newest))

    async def request(self, request: Message, response: Kind, timeout_s: float, *, highest: int | None = None) -> Any:
        return await self._cluster.response_to(request, highest)

    def begin(
        self,
        request: Message,
        version: int,
        timeout_s: float,
        responded: Callable[[Any], None],
        failed: Callable[[Exception], None],
    ) -> None:
        async def outcome() -> None:
            try:
                response = await self._cluster.response_to(request)
            except KafkaError as error:
                failed(error)
            else:
                responded(response)

        self._cluster.begin(outcome())

    def decoded(self, response: Kind, frame: Any, version: int) -> Any:
        return frame


def scripted(**settings: Any) -> tuple[Producer[bytes, bytes], ScriptedCluster]:
    """A producer with short pauses, transactional unless ``transactional_id`` is None; settings with _ for the dot."""
    given = {
        "bootstrap_servers": "scripted:1",
        "transactional_id": "x",
        "linger_ms": 0,
        "default_api_timeout_ms": 20_000,
    }
    given |= {"retry_backoff_ms": 1, "retry_backoff_max_ms": 1} | settings
    named = {name.replace("_", "."): value for name, value in given.items() if value is not None}
    with patch("coterie.client.producer.producer.Cluster", ScriptedCluster):
        producer: Producer[bytes, bytes] = Producer(named)
    cluster = producer._cluster
    assert isinstance(cluster, ScriptedCluster)
    return producer, cluster
