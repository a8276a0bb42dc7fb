"""The memory that a broker keeps for each member with its connection, and for each committed offset: bytes that Python
has allocated, without buffers of the kernel, asyncio's objects, and what the allocator leaves unused. Requests leave no
reference cycles with records in them: those stay in memory until Python looks for cycles, in a broker after 10,000
objects (`runtime/allocator`). A broker of a cluster took 450 MB of Produces of a megabyte."""

from __future__ import annotations

import gc
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from coterie.broker.connections.accepted_connection import AcceptedConnection
from coterie.broker.requests.turns import finish
from coterie.client.blocking import BlockingAdmin, BlockingConsumer, BlockingProducer
from coterie.coordinator.events import OffsetStored
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.shard import Shard
from coterie.coordinator.state import CommittedOffset
from coterie.coordinator.stored_records.stored import to_record
from coterie.laboratory.world import World
from coterie.testing import LocalBroker
from coterie.wire.declaration import Message
from coterie.wire.framing import decode_response, encode_request
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from coterie.wire.messages.groups.sync_group import SyncGroupRequest
from tests.broker.frames_broker import FakeTransport, FramesBroker

JOIN, SYNC, HEARTBEAT, COMMIT = 3, 3, 4, 8
MEMBER_BYTES = 2_600  # of them 270 of its latest heartbeat, which is not decoded again while it stays the same
OFFSET_BYTES = 300  # with its record in a log in memory
LOADED_OFFSET_BYTES = 350
RECORD_BYTES = 5_000
TOPIC = "t"


class PeerTransport(FakeTransport):
    """A connection from that port."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port

    def get_extra_info(self, name: str, default: object = None) -> tuple[str, int]:
        return ("127.0.0.1", self._port if name == "peername" else 9092)


class Crew:
    """Members of one group, each with a connection of its own."""

    def __init__(self) -> None:
        self.world = World(1)
        self.broker = FramesBroker(self.world)
        self.transports: list[PeerTransport] = []
        self.connections: list[AcceptedConnection] = []

    def connect(self, count: int) -> None:
        for _ in range(count):
            transport, connection = PeerTransport(20_000 + len(self.transports)), AcceptedConnection(self.broker)
            connection.connection_made(transport)
            self.transports.append(transport)
            self.connections.append(connection)

    def send(self, number: int, request: Message, version: int) -> None:
        self.broker.turns.spent_s = 0.0  # the share of real time of a turn of the loop
        self.connections[number].data_received(encode_request(number, "client", request, version))

    def response(self, number: int) -> bytes:
        """The one response that the connection has sent; it is taken away."""
        (written,) = self.transports[number].written
        self.transports[number].written.clear()
        return written[4:]

    def settle(self, group: str, numbers: range) -> None:
        """Has the connections' members join the group, as one generation, and heartbeat."""
        first, *others = numbers
        self._join(first, group)
        joined = {first: self._joined(first)}
        for number in others:
            self._join(number, group)
        if others:
            self._join(first, group, joined[first].member_id)
            joined = {number: self._joined(number) for number in numbers}
        for number, response in joined.items():
            self.send(number, SyncGroupRequest(group, response.generation_id, response.member_id), SYNC)
        self._wait()
        for number, response in joined.items():
            self.response(number)
            self.send(number, HeartbeatRequest(group, response.generation_id, response.member_id), HEARTBEAT)
            self.response(number)

    def _join(self, number: int, group: str, member_id: str = "") -> None:
        protocols = [JoinGroupRequestProtocol("range", b"")]
        self.send(number, JoinGroupRequest(group, 120_000, 120_000, member_id, None, "consumer", protocols), JOIN)
        self._wait()

    def _joined(self, number: int) -> JoinGroupResponse:
        response = decode_response(JoinGroupResponse, self.response(number), JOIN)
        assert response.error_code == 0
        return response

    def _wait(self) -> None:
        self.world.run_until(self.world.now_ms + 10)

    def commit(self, group: str, partitions: int) -> None:
        """Commits an offset of each partition of the topic "many", as a simple consumer."""
        offsets = [OffsetCommitRequestPartition(p, 1_000 + p, -1, committed_metadata="") for p in range(partitions)]
        request = OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic("many", partitions=offsets)])
        self.send(0, request, COMMIT)
        self._wait()
        response = decode_response(OffsetCommitResponse, self.response(0), COMMIT)
        assert {p.error_code for p in response.topics[0].partitions} == {0}


def kept_bytes(work: Callable[[], None]) -> int:
    """The bytes more that are allocated after the work."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def test_a_member_with_its_connection() -> None:
    crew, members = Crew(), 500
    crew.connect(1)
    crew.settle("first", range(1))
    transports = kept_bytes(lambda: crew.transports.extend(PeerTransport(n) for n in range(members)))
    del crew.transports[1:]

    def join() -> None:
        crew.connect(members)
        crew.settle("g", range(1, members + 1))

    assert (kept_bytes(join) - transports) / members < MEMBER_BYTES


def test_a_committed_offset() -> None:
    crew, groups, partitions = Crew(), 20, 1_000
    finish(crew.broker.topics.creating("many", partitions, {}))
    crew.connect(1)
    crew.commit("first", partitions)

    def commit() -> None:
        for number in range(groups):
            crew.commit(f"g{number}", partitions)

    assert kept_bytes(commit) / (groups * partitions) < OFFSET_BYTES


def test_an_offset_that_was_loaded() -> None:
    shard, count = Shard(CoordinatorConfig()), 5_000
    records = [
        to_record(f"g{number % 10}", OffsetStored("many", number, CommittedOffset(1_000 + number, -1, "", number)))
        for number in range(count)
    ]

    def load() -> None:
        for record in records:
            assert record is not None
            shard.load(record.key, record.value, 0)
        shard.loaded(0)

    assert kept_bytes(load) / count < LOADED_OFFSET_BYTES


@contextmanager
def no_records_in_cycles() -> Iterator[None]:
    """Fails where garbage of the block refers to as many bytes as a record has."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield
        gc.collect()
        holders = Counter(type(one).__qualname__ for one in gc.garbage if holds_record(one))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not holders


def holds_record(one: object) -> bool:
    return any(isinstance(part, bytes | bytearray) and len(part) >= RECORD_BYTES for part in gc.get_referents(one))


def produce_and_consume(server: str) -> None:
    producer_settings = {"bootstrap.servers": server, "acks": "all", "linger.ms": "0"}
    consumer_settings = {"bootstrap.servers": server, "group.id": "g", "auto.offset.reset": "earliest"}
    with BlockingProducer(producer_settings) as producer, BlockingConsumer(consumer_settings) as consumer:
        consumer.subscribe([TOPIC])
        read = 0
        while read < 10:
            producer.send(TOPIC, bytes(RECORD_BYTES), b"%d" % read).result()
            read += sum(map(len, consumer.poll(2_000).values()))
            consumer.commit()


def commit_transactions(server: str) -> None:
    settings = {"bootstrap.servers": server, "transactional.id": "x"}
    with BlockingProducer(settings) as producer:
        producer.init_transactions()
        for number in range(5):
            producer.begin_transaction()
            producer.send(TOPIC, bytes(RECORD_BYTES), b"%d" % number).result()
            producer.commit_transaction()


@pytest.mark.parametrize("brokers", [1, 3])
@pytest.mark.parametrize("work", [produce_and_consume, commit_transactions])
@pytest.mark.slow
def test_records_are_in_no_cycle(work: Callable[[str], None], brokers: int) -> None:
    with LocalBroker(brokers=brokers) as local:
        server = local.bootstrap_servers
        with BlockingAdmin({"bootstrap.servers": server}) as admin:
            admin.create_topic(TOPIC, 1, replication_factor=brokers)
        work(server)  # the first look-ups, and what is kept for good
        with no_records_in_cycles():
            work(server)


def test_a_cycle_is_seen() -> None:
    def leave_one() -> None:
        cycle: list[object] = [bytes(RECORD_BYTES)]
        cycle.append(cycle)

    with pytest.raises(AssertionError), no_records_in_cycles():
        leave_one()
