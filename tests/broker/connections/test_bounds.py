"""Bounds on work and memory: what one client asks for, never reads, or never finishes costs the others little."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from coterie.broker.broker import Broker
from coterie.broker.connections import accepted_connection, open_connections
from coterie.broker.connections.accepted_connection import SMALL_REQUEST_BYTES, AcceptedConnection
from coterie.broker.connections.listener_tls import ListenerTls
from coterie.broker.connections.tls_connection import TlsConnection
from coterie.broker.handlers.services import Services
from coterie.broker.process.loggers import LINES_PER_SECOND, LogLines
from coterie.broker.requests.memory import RequestMemory
from coterie.broker.requests.turns import MAX_TURN_S
from coterie.broker.settings import BrokerSettings
from coterie.broker.settings.listeners import Listener
from coterie.laboratory.world import World
from coterie.log.partition_log import PartitionLog
from coterie.records.encoding import encode_batch
from coterie.runtime.receiver import RECEIVE_BYTES
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.framing import decode_response, encode_request
from coterie.wire.messages.clients.api_versions import ApiVersionsRequest, ApiVersionsResponse
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from coterie.wire.messages.logs.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from coterie.wire.messages.logs.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from coterie.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.awaiting import LoopClock, quiet, until
from tests.broker.connections.test_listeners import Certificates
from tests.broker.connections.test_server import Client
from tests.broker.frames_broker import FakeTransport, FramesBroker

BATCH_BYTES = 900_000
API_VERSIONS, METADATA = 18, 3


class Running:
    """A broker in this process with a topic "t" of ``batches`` batches of 0.9 MB."""

    def __init__(self, broker: Broker, address: tuple[str, int]) -> None:
        self.broker, self.address = broker, address
        self.clients: list[Client] = []

    async def connect(self, *, kernel_bytes: int = 0) -> Client:
        """``kernel_bytes``: of the sockets' buffers on both sides, where the system's own are too large for the test."""
        s = socket.socket()
        if kernel_bytes:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, kernel_bytes)
        s.setblocking(False)
        await asyncio.get_running_loop().sock_connect(s, self.address)
        client = Client(*await asyncio.open_connection(sock=s))
        self.clients.append(client)
        await client.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)
        if kernel_bytes:
            for connection in self.accepted():
                accepted = connection._transport.get_extra_info("socket")
                accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, kernel_bytes)
        return client

    def accepted(self) -> list[AcceptedConnection]:
        return [one for one in self.broker.connections if isinstance(one, AcceptedConnection)]

    def unread_bytes(self) -> list[int]:
        """What each connection holds of responses that its client has not read."""
        return [c._transport.get_write_buffer_size() for c in self.accepted()]


@asynccontextmanager
async def running(batches: int = 0, **settings: str) -> AsyncIterator[Running]:
    given = {k.replace("_", "."): v for k, v in settings.items()}
    broker = Broker(BrokerSettings({"offsets.topic.num.partitions": "1"} | given))
    made = Running(broker, await broker.start("127.0.0.1", 0))
    try:
        client = await made.connect()
        await client.ask(MetadataRequest([MetadataRequestTopic(name="t")], True), MetadataResponse, 9)
        for _ in range(batches):
            await client.ask(produce(BATCH_BYTES), ProduceResponse, 9)
        yield made
    finally:
        for client in made.clients:
            client.writer.close()
        await broker.stop()


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await story()

    asyncio.run(bounded())


def produce(size: int, acks: int = -1) -> ProduceRequest:
    batch = encode_batch([(1, b"k", b"x" * size, ())])
    return ProduceRequest(None, acks, 1000, [TopicProduceData("t", partition_data=[PartitionProduceData(0, batch)])])


def fetch(wait_ms: int = 0, min_bytes: int = 1, max_bytes: int = 50_000_000, offset: int = 0) -> FetchRequest:
    requested = FetchPartition(0, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=min_bytes, topics=[FetchTopic("t", partitions=[requested])])


def records_of(frame: bytes) -> bytes:
    return decode_response(FetchResponse, frame, 12).responses[0].partitions[0].records or b""


def wrap(broker: Broker, api_key: int, before: Callable[[Any], None]) -> None:
    """Has ``before`` called with each request's `Call` before its handler."""
    handler = broker.handlers[api_key]

    def wrapped(b: Services, request: Any, call: Any) -> Any:
        before(call)
        return handler(b, request, call)

    broker.handlers = broker.handlers | {api_key: wrapped}


# -- answers that nobody reads ----------------------------------------------------------------------------------------


async def test_requests_wait_while_nobody_reads_the_answers_before_them() -> None:
    async with running(batches=1) as at:
        client = await at.connect(kernel_bytes=4096)
        client.writer.write(encode_request(1, "raw", fetch(), 12) * 60)
        await quiet()
        assert max(at.unread_bytes()) < 2 * BATCH_BYTES
        for _ in range(60):
            assert len(records_of(await client.frame())) > BATCH_BYTES


async def test_unread_answers_of_all_connections_together_have_a_bound() -> None:
    async with running(batches=12, coterie_queued_max_response_bytes="3000000") as at:
        slow = [await at.connect(kernel_bytes=4096) for _ in range(10)]
        for client in slow:
            client.send(fetch(), 12)
        await quiet()
        assert sum(at.unread_bytes()) < 4_000_000
        reader = await at.connect()
        empty = await reader.ask(fetch(wait_ms=50), FetchResponse, 12)
        assert not empty.responses[0].partitions[0].records, "there was no room for more"
        for client in slow:
            client.writer.transport.abort()
        await quiet()
        given = await reader.ask(fetch(wait_ms=50), FetchResponse, 12)
        assert given.responses[0].partitions[0].records


async def test_a_connection_that_stands_still_is_aborted_where_memory_is_lacking() -> None:
    given = {"coterie_queued_max_response_bytes": "1000000", "coterie_connections_max_stalled_ms": "1"}
    async with running(batches=12, **given) as at:
        client, clock = await at.connect(kernel_bytes=4096), LoopClock()
        client.send(fetch(), 12)
        await quiet()
        assert at.broker.response_memory.short
        for _ in range(2):
            at.broker.connections.abort_stalled()
            clock.jump(0.01)
            await quiet()
        assert not at.broker.response_memory.short
        assert len(at.broker.connections) == 1


async def test_idle_closing_does_not_wait_for_a_client_that_never_reads() -> None:
    async with running(batches=12, connections_max_idle_ms="200") as at:
        client, clock = await at.connect(kernel_bytes=4096), LoopClock()
        client.send(fetch(), 12)
        await quiet()
        clock.jump(0.5)
        at.broker.connections.close_idle()
        await quiet()
        assert not at.broker.connections


async def test_a_client_that_reads_slowly_is_not_idle() -> None:
    async with running(batches=12) as at:
        client = await at.connect(kernel_bytes=4096)
        client.send(fetch(), 12)
        await quiet()
        at.broker.connections.abort_stalled()
        [slow] = at.broker.connections.holding
        before_s = slow.last_used_s
        at.broker.connections.abort_stalled()
        assert slow.last_used_s == before_s
        await client.reader.readexactly(3_000_000)
        at.broker.connections.abort_stalled()
        assert slow.last_used_s > before_s


async def test_a_connection_that_is_cut_off_ends_though_its_answers_are_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running(batches=12) as at:
        monkeypatch.setattr(accepted_connection, "CLOSE_GRACE_S", 0.05)
        client = await at.connect(kernel_bytes=4096)
        client.send(fetch(), 12)
        await quiet()
        [slow] = [c for c in at.accepted() if c._transport.get_write_buffer_size()]
        slow._close_with_reason("the test says so")
        await until(lambda: slow not in at.accepted(), "the connection ends")


async def test_the_broker_stops_whatever_clients_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_connections, "STOP_GRACE_S", 0.1)
    async with running(batches=12) as at:
        client = await at.connect(kernel_bytes=4096)
        for _ in range(10):
            client.send(fetch(), 12)
        await quiet()
        await at.broker.stop()
        await quiet()
        assert not at.broker.connections


# -- requests ---------------------------------------------------------------------------------------------------------


async def test_a_connection_with_much_work_lets_others_have_their_turns() -> None:
    async with running() as at:
        order: list[str] = []
        bystander, greedy = await at.connect(), await at.connect()
        raw = bystander.writer.get_extra_info("socket").dup()

        def before(call: Any) -> None:
            if not order:
                raw.send(encode_request(1, "bystander", ApiVersionsRequest(), 0))
            order.append(call.client_id)
            time.sleep(1.5 * MAX_TURN_S)

        wrap(at.broker, API_VERSIONS, before)
        greedy.writer.write(encode_request(1, "greedy", ApiVersionsRequest(), 0) * 50)
        await bystander.frame()
        raw.close()
        assert order.index("bystander") < 5
        for _ in range(50):
            await greedy.frame()


async def test_long_work_of_many_clients_shares_each_iteration_of_the_loop() -> None:
    """However many ask for it, about two turns' worth is done before the loop looks at its sockets again."""
    async with running() as at:
        steps, marks = 0, [0]

        def work() -> Generator[None, None, Message]:
            nonlocal steps
            for _ in range(8):
                time.sleep(MAX_TURN_S / 2)
                steps += 1
                yield
            return ApiVersionsResponse()

        async def mark() -> None:
            while True:
                marks.append(steps)
                await asyncio.sleep(0)

        clients = [await at.connect() for _ in range(20)]
        at.broker.handlers = at.broker.handlers | {API_VERSIONS: lambda broker, *_: broker.turns.run(work())}
        marking = asyncio.create_task(mark())
        for client in clients:
            client.send(ApiVersionsRequest(), 0)
        for client in clients:
            await client.frame()
        marking.cancel()
        assert steps == 160
        assert max(after - before for before, after in pairwise(marks)) < 15


async def test_requests_in_the_buffer_are_handled_though_the_client_has_closed() -> None:
    async with running() as at:
        wrap(at.broker, 0, lambda _: time.sleep(1.5 * MAX_TURN_S))
        client, other = await at.connect(), await at.connect()
        for _ in range(10):
            client.send(produce(10, acks=0), 9)
        client.writer.close()
        await until(lambda: len(at.broker.connections) == 2, "the closed connection has ended")
        response = await other.ask(fetch(), FetchResponse, 12)
        assert response.responses[0].partitions[0].high_watermark == 10


async def test_requests_that_are_being_received_have_a_bound_and_small_ones_need_no_room() -> None:
    async with running(queued_max_request_bytes="1000000", socket_request_max_bytes="1000000") as at:
        frame = encode_request(7, "large", produce(600_000), 9)
        first, second, third = [await at.connect() for _ in range(3)]
        for client in (first, second, third):  # the second gets the rest, the third has to wait
            client.writer.write(frame[:300_000])
            await quiet()
        third.writer.write(frame[300_000:])
        await quiet()
        assert at.broker.request_memory.short
        small = await at.connect()
        assert (await small.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)).error_code == 0
        for client in (first, second):
            client.writer.write(frame[300_000:])
            await client.frame()
        await third.frame()
        assert not at.broker.request_memory.short


async def test_memory_of_a_request_is_given_back_when_its_connection_ends() -> None:
    async with running(queued_max_request_bytes="1000000", socket_request_max_bytes="1000000") as at:
        frame = encode_request(7, "large", produce(900_000), 9)
        for _ in range(5):
            client = await at.connect()
            client.writer.write(frame[:300_000])
            await quiet()
            client.writer.transport.abort()
            await quiet()
        whole = await at.connect()
        whole.writer.write(frame)
        await whole.frame()


class PausingTransport(FakeTransport):
    is_paused = False

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


@pytest.mark.parametrize("is_busy", [False, True])
def test_a_request_without_memory_takes_that_of_a_small_one(is_busy: bool) -> None:
    """A hundred clients send half of a request of 600,000 bytes each, as fast as they are read. ``is_busy``: each connection
    waits for its turn at first."""
    world = World(1)
    broker = FramesBroker(world, queued_max_request_bytes="1000000")
    half = encode_request(7, "large", produce(600_000), 9)[:300_000]
    pairs = [(AcceptedConnection(broker), PausingTransport()) for _ in range(100)]
    left = dict.fromkeys(range(100), half)
    most = 0
    for connection, transport in pairs:
        connection.connection_made(transport)
    for poll in range(10):
        if is_busy and poll < 5:
            broker.turns.spend(1.0)
        for number, (connection, transport) in enumerate(pairs):
            if left[number] and not transport.is_paused:
                buffer = connection.get_buffer(-1)
                piece, left[number] = left[number][: len(buffer)], left[number][len(buffer) :]
                buffer[: len(piece)] = piece
                connection.buffer_updated(len(piece))
        most = max(most, sum(len(connection._frames) for connection, _ in pairs))
        if poll > 3:
            world.run_until(world.now_ms + 100)  # turns
    assert most == 2 * 300_000 + 98 * SMALL_REQUEST_BYTES
    assert sum(not transport.is_paused for _, transport in pairs) == 2


def test_tls_reads_no_more_than_a_small_request_at_once_where_memory_has_a_bound(tmp_path: Path) -> None:
    certificates, listener = Certificates(tmp_path), Listener("SSL", "", 1, "SSL")
    tls = ListenerTls(BrokerSettings(certificates.settings()), listener)
    for bound, size in (("1000000", SMALL_REQUEST_BYTES), ("-1", RECEIVE_BYTES)):
        broker = FramesBroker(World(1), queued_max_request_bytes=bound)
        assert len(TlsConnection(broker, tls, AcceptedConnection(broker, listener)).get_buffer(-1)) == size


def test_request_memory_wakes_in_order() -> None:
    memory, woken = RequestMemory(100), list[str]()
    assert memory.reserve(150)
    assert not memory.reserve(1)
    for name in ("first", "gone", "second"):
        memory.wait(name, lambda name=name: woken.append(name) or memory.reserve(100))  # type: ignore[misc, arg-type]
    memory.forget("gone")
    memory.release(150)
    assert woken == ["first"]
    memory.release(100)
    assert woken == ["first", "second"]
    assert not memory.short


async def test_metadata_that_cannot_be_stored_is_refused_at_once(caplog: pytest.LogCaptureFixture) -> None:
    async with running(message_max_bytes="1000") as at:
        client = await at.connect()
        join = JoinGroupRequest("g", 6_000, 6_000, "", None, "consumer", [])
        for size, code in ((1001, ErrorCode.INVALID_REQUEST), (500, ErrorCode.MEMBER_ID_REQUIRED)):
            join.protocols = [JoinGroupRequestProtocol("range", bytes(size))]
            assert (await client.ask(join, JoinGroupResponse, 5)).error_code == code
    assert "1001 bytes of metadata" in caplog.text


async def test_many_deadlines_at_once_take_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coterie.broker.groups.hosted_shard.MAX_TURN_S", 0.0)
    async with running() as at:
        client, ids = await at.connect(), 50
        join = JoinGroupRequest("g", 6_000, 6_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")])
        for _ in range(ids):
            await client.ask(join, JoinGroupResponse, 5)
        group = at.broker.groups.group("g")
        assert group is not None
        at.broker.clock.jump(7_000)
        at.broker.groups._deadlines.fire()
        assert len(group.reservations) == ids - 1
        await until(lambda: not group.reservations, "every reservation has expired")


# -- fetches that wait ------------------------------------------------------------------------------------------------


async def test_a_waiting_fetch_ends_with_its_connection() -> None:
    async with running() as at:
        client = await at.connect()
        client.send(fetch(wait_ms=2**31 - 1), 12)
        watchers = at.broker.topics.by_name["t"].partitions[0].watchers
        await until(lambda: len(watchers) == 1, "the fetch waits")
        client.writer.close()
        await until(lambda: not watchers, "the fetch has ended")


async def test_a_fetch_waits_no_longer_than_a_connection_may_be_idle() -> None:
    async with running(connections_max_idle_ms="100") as at:
        client = await at.connect()
        async with asyncio.timeout(5):
            response = await client.ask(fetch(wait_ms=2**31 - 1), FetchResponse, 12)
        assert not response.responses[0].partitions[0].records


async def test_an_append_reads_nothing_for_fetches_that_need_more(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = 0
    read = PartitionLog.read

    def counting(*args: Any, **kwargs: Any) -> bytes:
        nonlocal reads
        reads += 1
        return read(*args, **kwargs)

    monkeypatch.setattr(PartitionLog, "read", counting)
    async with running() as at:
        producer = await at.connect()
        waiting = [await at.connect() for _ in range(20)]
        for n, client in enumerate(waiting):
            request = fetch(wait_ms=20_000, min_bytes=100_000)
            request.isolation_level = n % 2
            client.send(request, 12)
        await quiet()
        reads = 0
        for _ in range(10):
            await producer.ask(produce(1000), ProduceResponse, 9)
        assert reads == 0
        await producer.ask(produce(100_000), ProduceResponse, 9)
        for client in waiting:
            assert len(records_of(await client.frame())) > 100_000


async def test_a_second_fetch_waits_for_the_answer_to_the_first() -> None:
    async with running() as at:
        client, producer = await at.connect(), await at.connect()
        client.writer.write(encode_request(1, "raw", fetch(wait_ms=20_000), 12) * 5)
        watchers = at.broker.topics.by_name["t"].partitions[0].watchers
        await quiet()
        assert len(watchers) == 1
        await producer.ask(produce(10), ProduceResponse, 9)
        for _ in range(5):
            assert records_of(await client.frame())


# -- lines ------------------------------------------------------------------------------------------------------------


async def test_a_thousand_bad_requests_are_a_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.get_running_loop()
    lines = LogLines(logging.getLogger("coterie.test"), loop)
    for n in range(1000):
        lines.warning("bad request %d", n)
    lines.warning("another kind")
    lines.flush()
    assert len(caplog.records) == LINES_PER_SECOND + 2
    assert caplog.messages[-1] == f"{1000 - LINES_PER_SECOND} more lines within a second like: bad request %d"
