"""Responses of one turn of the loop are written together at its end, in their order; none is lost with its connection."""

from __future__ import annotations

import asyncio
import select
import selectors
import socket
from collections.abc import Callable

import pytest

from coterie.broker.broker import Broker
from coterie.broker.connections.accepted_connection import AcceptedConnection
from coterie.broker.requests.turn_writes import MAX_WRITES, SMALL_BYTES, TurnWrites
from coterie.broker.settings import BrokerSettings
from coterie.runtime.counting_loop import MOST_EVENTS, CountingLoop, CountingSelector
from coterie.wire.framing import encode_request
from coterie.wire.messages.clients.api_versions import ApiVersionsRequest
from tests.async_tests import AsyncTest, run_by
from tests.awaiting import quiet
from tests.broker.fake_transport import FakeTransport


class Served:
    """A broker in a loop whose last poll had ``events``, with a connection."""

    def __init__(self, broker: Broker) -> None:
        self.broker, self.transport = broker, FakeTransport()
        self.connection = AcceptedConnection(broker)
        self.connection.connection_made(self.transport)

    def request(self, *correlation_ids: int) -> None:
        """Sends requests as one piece of bytes."""
        self.broker.turns.spent_s = 0.0  # the share of real time of a turn of the loop
        frames = [encode_request(number, "raw", ApiVersionsRequest("raw", "1"), 3) for number in correlation_ids]
        self.connection.data_received(b"".join(frames))

    def written(self) -> list[list[int]]:
        """The correlation ids of the responses in each write so far."""
        return [_correlation_ids(data) for data in self.transport.written]


def _correlation_ids(data: bytes) -> list[int]:
    read = []
    while data:
        size = 4 + int.from_bytes(data[:4], "big")
        read.append(int.from_bytes(data[4:8], "big"))
        data = data[size:]
    return read


def in_loop(events: int) -> Callable[[AsyncTest], Callable[..., None]]:
    """Decorates a test with a connection, in a loop whose next poll has so many events."""

    async def run(test: AsyncTest) -> None:
        broker = Broker(BrokerSettings())
        await broker.start("127.0.0.1", 0)
        try:
            await quiet()
            loop = asyncio.get_running_loop()
            assert isinstance(loop, CountingLoop)
            served = Served(broker)
            served.request(0)  # the handler is imported
            served.transport.written.clear()
            loop.poll.events = events
            await test(served)
        finally:
            await broker.stop()

    def run_in_loop(test: AsyncTest) -> None:
        with asyncio.Runner(loop_factory=CountingLoop) as runner:
            runner.run(run(test))

    return run_by(run_in_loop)


@in_loop(events=2)
async def test_a_response_of_a_shared_turn_is_written_at_its_end(served: Served) -> None:
    served.request(1)
    assert served.written() == []
    await asyncio.sleep(0)
    assert served.written() == [[1]]


@in_loop(events=1)
async def test_a_request_that_came_alone_waits_for_nothing(served: Served) -> None:
    served.request(1)
    assert served.written() == [[1]]


@in_loop(events=2)
async def test_responses_of_one_connection_keep_their_order(served: Served) -> None:
    served.request(1)
    served.request(2, 3)  # handled as a turn of its own, which ends with a write
    served.request(4)
    await asyncio.sleep(0)
    assert served.written() == [[1, 2, 3], [4]]


@pytest.mark.parametrize("end", ["close", "eof", "unreadable"])
@in_loop(events=2)
async def test_a_response_that_waits_is_written_before_the_connection_ends(served: Served, end: str) -> None:
    served.request(1)
    if end == "close":
        served.connection.close()
    elif end == "eof":
        await asyncio.sleep(0)  # the end of a stream is an event of a later poll
        assert not served.connection.eof_received()
    else:
        served.connection.data_received(b"\x7f\xff\xff\xff")
    assert served.written() == [[1]]


@in_loop(events=2)
async def test_an_aborted_connection_writes_nothing(served: Served) -> None:
    served.request(1)
    served.connection.connection_lost(None)
    await asyncio.sleep(0)
    assert served.written() == []


def test_so_many_are_written_before_the_end_of_the_turn() -> None:
    loop, written = CountingLoop(), list[int]()
    loop.poll.events = 2
    writes = TurnWrites(loop)
    for number in range(MAX_WRITES + 1):
        writes.add(lambda number=number: written.append(number), 1)  # type: ignore[misc]
    assert written == list(range(MAX_WRITES))
    loop.run_until_complete(asyncio.sleep(0))
    assert written == list(range(MAX_WRITES + 1))
    loop.close()


def test_a_write_that_fails_holds_up_no_other() -> None:
    loop, written = CountingLoop(), list[int]()
    loop.poll.events = 2
    writes = TurnWrites(loop)
    writes.add(lambda: [][0], 1)
    for number in range(MAX_WRITES - 2):
        writes.add(lambda number=number: written.append(number), 1)  # type: ignore[misc]
    with pytest.raises(IndexError):
        writes.add(lambda: written.append(-1), 1)
    loop.run_until_complete(asyncio.sleep(0))
    assert written == [*range(MAX_WRITES - 2), -1]
    loop.close()


def test_large_responses_and_those_of_other_loops_do_not_wait() -> None:
    loop, other, written = CountingLoop(), asyncio.SelectorEventLoop(), list[str]()
    loop.poll.events = 2
    writes = TurnWrites(loop)
    writes.add(lambda: written.append("small"), SMALL_BYTES)
    writes.add(lambda: written.append("large"), SMALL_BYTES + 1)
    TurnWrites(other).add(lambda: written.append("of another loop"), 1)
    assert written == ["large", "of another loop"]
    loop.close()
    other.close()


def test_a_loop_counts_the_events_of_its_polls() -> None:
    loop, counts = CountingLoop(), list[int]()
    pairs = [socket.socketpair() for _ in range(2)]

    def readable(reader: socket.socket) -> None:
        reader.recv(1)
        counts.append(loop.poll.events)

    for reader, _ in pairs:
        loop.add_reader(reader, readable, reader)
    for sent in (2, 1):
        for _, writer in pairs[:sent]:
            writer.send(b"x")
        loop.run_until_complete(asyncio.sleep(0))
    assert counts == [2, 2, 1]
    for reader, writer in pairs:
        loop.remove_reader(reader)
        reader.close()
        writer.close()
    loop.close()


@pytest.mark.skipif(not hasattr(select, "epoll"), reason="a poll of other systems returns all events")
def test_a_poll_leaves_some_events_to_the_next() -> None:
    """A descriptor that becomes ready is returned, although others are ready at each poll."""
    selector, pairs = CountingSelector(), [socket.socketpair() for _ in range(MOST_EVENTS + 10)]
    for reader, writer in pairs:
        selector.register(reader, selectors.EVENT_READ)
        writer.send(b"x")
    polls = [{key.fd for key, _ in selector.select(0)} for _ in range(2)]
    assert [len(each) for each in polls] == [MOST_EVENTS, MOST_EVENTS]
    assert polls[0] | polls[1] == {reader.fileno() for reader, _ in pairs}
    selector.close()
    for reader, writer in pairs:
        reader.close()
        writer.close()
