"""Seeded stories of a Spark task's range over simulated brokers: connections break before and after a request arrives,
leaders move, brokers refuse, logs are cut at the front. Every readable record of the range comes once and in order. A
Spark task at a batch that cannot be read: one error that names partition and offset, and no fewer records than asked."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest

from coterie.client.errors import CorruptBatchError, KafkaError
from coterie.client.pauses import clock
from coterie.client.settings.settings import client_settings
from coterie.consuming.fetching.outcomes import REMEDIES, FetchRemedy
from coterie.machines.cluster_metadata import ClusterMetadata
from coterie.pipeline.offsets import DataLossError
from coterie.pipeline.reading import fetching
from coterie.pipeline.reading.fetching import fetched, read_range
from coterie.pipeline.reading.planning import OffsetRange
from coterie.records.batch import batches
from coterie.records.compression import CODEC_BY_NAME
from coterie.records.encoding import encode_batch
from coterie.testing import LocalBroker
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from coterie.wire.messages.logs.list_offsets import ListOffsetsRequest
from coterie.wire.messages.topics.metadata import MetadataRequest, MetadataResponse
from tests.client.fetching.test_damaged_batches import DAMAGES, batch, put
from tests.consuming.cluster import NODES, T0, SimulatedCluster

PASSING = [code for code, remedy in REMEDIES.items() if remedy is FetchRemedy.FIND_LEADER]
SETTINGS = {"bootstrap.servers": "b1:9092,b2:9092", "retry.backoff.ms": "10", "check.crcs": "true"}
SEEDS = 30


class Metadata(ClusterMetadata):
    """Keeps the response that the simulated cluster makes."""

    response: MetadataResponse

    def metadata_received(self, response: MetadataResponse, now_ms: float, **more: Any) -> Any:
        self.response = response
        return super().metadata_received(response, now_ms, **more)


class Brokers:
    """A cluster behind sockets, and the time. ``faults``: whether anything goes wrong still."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.cluster = rng, SimulatedCluster()
        self.now_s, self.faults = 0.0, True
        log = self.cluster.logs[T0]
        for _ in range(rng.randint(1, 30)):
            if rng.random() < 0.3:
                log.transaction(rng.randint(1, 2), rng.randint(1, 3), committed=rng.random() < 0.5)
            else:
                log.plain(rng.randint(1, 6))

    def socket(self, host: str, port: int, **_: object) -> Socket:
        self.break_now_and_then()
        return Socket(self, int(host[1:]))

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self.faults = self.faults and self.now_s < 5  # no longer than the timeout: then all of it must be read

    def monotonic(self) -> float:
        self.now_s += 0.001
        return self.now_s

    def break_now_and_then(self) -> None:
        if self.faults and self.rng.random() < 0.15:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the connection was lost")

    def respond(self, node: int, request: Message) -> Message:
        rng, cluster = self.rng, self.cluster
        if self.faults and rng.random() < 0.2:
            cluster.move(T0, rng.choice(NODES))
        if self.faults and rng.random() < 0.2:
            cluster.errors[T0].append(rng.choice(PASSING))
        if isinstance(request, FetchRequest):
            for topic in request.topics:
                for partition in topic.partitions:
                    partition.partition_max_bytes = 200  # so that a range needs many requests
            return cluster.fetch(node, request)[0]
        if isinstance(request, ListOffsetsRequest):
            return cluster.list_offsets(node, request)
        assert isinstance(request, MetadataRequest)
        known = Metadata(metadata_max_age_ms=0)
        cluster.metadata(known)
        return known.response


class Socket:
    """Answers in the order of the requests; one that broke answers nothing more."""

    def __init__(self, brokers: Brokers, node: int) -> None:
        self._brokers, self._node = brokers, node
        self._responses: deque[Message] = deque()
        self.is_closed = False

    def send(self, request: Message, **_: object) -> int:
        assert not self.is_closed, "a request for a closed connection"
        self._brokers.break_now_and_then()
        self._responses.append(self._brokers.respond(self._node, request))
        return len(self._responses)

    def version_of(self, request: type[Message]) -> int:
        return request.versions.last

    def receive(self, awaited: int) -> Message:
        assert not self.is_closed
        self._brokers.break_now_and_then()
        assert awaited == len(self._responses) == 1, "another request's response"
        return self._responses.popleft()

    def request(self, request: Message, **more: object) -> Message:
        return self.receive(self.send(request, **more))

    def close(self) -> None:
        self.is_closed = True


def began(seed: int, monkeypatch: pytest.MonkeyPatch) -> Brokers:
    brokers = Brokers(random.Random(seed))
    monkeypatch.setattr(fetching, "BrokerSocket", brokers.socket)
    monkeypatch.setattr(fetching, "_sockets", {})
    monkeypatch.setattr(clock, "time", brokers)
    return brokers


def ranges(brokers: Brokers) -> Iterator[OffsetRange]:
    """Several of one worker, whose connections are kept."""
    log, rng = brokers.cluster.logs[T0], brokers.rng
    for _ in range(3):
        start = rng.randint(0, log.end - 1)
        yield OffsetRange(*T0, start, rng.randint(start + 1, log.end), f"b{rng.choice(NODES)}", 9092)


@pytest.mark.parametrize("isolation_level", ["read_uncommitted", "read_committed"])
def test_every_record_of_a_range_comes_once_and_in_order(isolation_level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = client_settings(SETTINGS | {"isolation.level": isolation_level})
    for seed in range(SEEDS):
        brokers = began(seed, monkeypatch)
        log = brokers.cluster.logs[T0]
        readable = log.visible if isolation_level == "read_committed" else log.records
        for r in ranges(brokers):
            parts = fetching.read_range(r, settings, with_headers=False, fail_on_data_loss=True)
            offsets = [offset for columns in parts for offset in columns.offsets.tolist()]
            assert offsets == [offset for offset in readable if r.start <= offset < r.end], f"seed {seed}: {r}"


def test_every_batch_of_a_range_comes_as_it_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(SEEDS):
        brokers = began(seed, monkeypatch)
        for r in ranges(brokers):
            data = b"".join(fetching.fetched(r, client_settings(SETTINGS)))
            bounds = [(header.base_offset, header.last_offset) for _, header in batches(data)]
            stored = [(first, last) for first, last, _ in brokers.cluster.logs[T0].batches]
            inside = [(first, last) for first, last in stored if last >= r.start and first < r.end]
            assert bounds[: len(inside)] == inside, f"seed {seed}: {r}"


def test_records_that_are_gone_are_left_out_or_fail_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(SEEDS):
        brokers = began(seed, monkeypatch)
        log = brokers.cluster.logs[T0]
        log.start = brokers.rng.randint(0, log.end)
        for r in ranges(brokers):
            parts = fetching.read_range(r, client_settings(SETTINGS), with_headers=False, fail_on_data_loss=False)
            offsets = [offset for columns in parts for offset in columns.offsets.tolist()]
            assert offsets == [o for o in log.records if max(r.start, log.start) <= o < r.end], f"seed {seed}: {r}"
            if r.start < log.start:
                with pytest.raises(DataLossError):
                    list(fetching.read_range(r, client_settings(SETTINGS), with_headers=False, fail_on_data_loss=True))


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_range_with_a_damaged_batch_fails_at_its_offset(coterie_broker: LocalBroker, damage: str) -> None:
    coterie_broker.create_topic("t", 1)
    for data in (batch(b"a", b"b"), DAMAGES[damage], batch(b"c")):
        put(coterie_broker, 0, bytes(data))
    requested = OffsetRange("t", 0, 0, 4, coterie_broker.host, coterie_broker.port)
    with pytest.raises(CorruptBatchError, match="t-0 cannot be read at offset 2: "):
        for _ in read_range(requested, client_settings({}), with_headers=True, fail_on_data_loss=True):
            pass


def test_a_length_that_cannot_be_is_named_too(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = bytes(batch(b"a"))
    data = PartitionData(0, records=whole[:8] + b"\0\0\0\x01" + whole[12:])

    class Socket:
        def __init__(self, *_: object, **__: object) -> None:
            self.closed = False

        def send(self, *_: object, **__: object) -> None:
            return

        def receive(self, _: object) -> FetchResponse:
            return FetchResponse(responses=[FetchableTopicResponse("t", partitions=[data])])

        def close(self) -> None:
            self.closed = True

    monkeypatch.setattr(fetching, "BrokerSocket", Socket)
    monkeypatch.setattr(fetching, "_sockets", {})
    with pytest.raises(CorruptBatchError, match="t-0 cannot be read at offset 3: "):
        list(fetched(OffsetRange("t", 0, 3, 5, "127.0.0.1", 1), client_settings({})))


def test_a_range_that_unfolds_to_very_much_is_read_in_pieces(coterie_broker: LocalBroker) -> None:
    """A fetch of some megabytes may hold more than the 2 GiB of an Arrow column: a Spark task failed by that."""
    coterie_broker.create_topic("t", 1)
    for _ in range(4):
        put(coterie_broker, 0, encode_batch([(5, None, bytes(1_000_000), ())] * 10, codec=CODEC_BY_NAME["zstd"]))
    wanted = OffsetRange("t", 0, 5, 38, coterie_broker.host, coterie_broker.port)
    pieces = list(read_range(wanted, client_settings({}), with_headers=True, fail_on_data_loss=True))
    assert [piece.offsets.tolist() for piece in pieces] == [list(range(5, 20)), list(range(20, 38))]
