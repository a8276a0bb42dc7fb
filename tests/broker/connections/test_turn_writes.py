"""Responses of one turn of the loop are written together at its end, in their order; none is lost with its connection.
How the work of connections is shared out between those who have logged in and the many who have not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from coterie.broker.broker import Broker
from coterie.broker.connections.accepted_connection import AcceptedConnection
from coterie.broker.process.scheduling import Timer
from coterie.broker.requests.turns import MAX_TURN_S, MAX_WRITES, SMALL_BYTES, Turns, TurnWrites
from coterie.broker.settings import BrokerSettings
from coterie.runtime.shared_poll import SharedPoll
from coterie.wire.framing import encode_request
from coterie.wire.messages.clients.api_versions import ApiVersionsRequest
from tests.async_tests import AsyncTest, run_by
from tests.awaiting import quiet
from tests.broker.frames_broker import FakeTransport

STEP_S = 0.001  # of a handshake


class Served:
    """A broker with a connection."""

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
    """Decorates a test with a connection of a broker whose last poll had so many events."""

    async def run(test: AsyncTest) -> None:
        broker = Broker(BrokerSettings())
        await broker.start("127.0.0.1", 0)
        try:
            await quiet()
            assert broker.poll is not None
            served = Served(broker)
            served.request(0)  # the handler is imported
            served.transport.written.clear()
            broker.poll.events = events
            await test(served)
        finally:
            await broker.stop()

    def run_in_loop(test: AsyncTest) -> None:
        asyncio.run(run(test))

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


@contextmanager
def polled(events: int) -> Iterator[tuple[asyncio.AbstractEventLoop, TurnWrites]]:
    """A loop, and writes beside a poll that had so many events."""
    loop = asyncio.new_event_loop()
    poll = SharedPoll(loop)
    poll.events = events
    yield loop, TurnWrites(loop, poll)
    poll.close()
    loop.close()


def test_so_many_are_written_before_the_end_of_the_turn() -> None:
    written = list[int]()
    with polled(2) as (loop, writes):
        for number in range(MAX_WRITES + 1):
            writes.add(lambda number=number: written.append(number), 1)  # type: ignore[misc]
        assert written == list(range(MAX_WRITES))
        loop.run_until_complete(asyncio.sleep(0))
    assert written == list(range(MAX_WRITES + 1))


def test_a_write_that_fails_holds_up_no_other() -> None:
    written = list[int]()
    with polled(2) as (loop, writes):
        writes.add(lambda: [][0], 1)
        for number in range(MAX_WRITES - 2):
            writes.add(lambda number=number: written.append(number), 1)  # type: ignore[misc]
        with pytest.raises(IndexError):
            writes.add(lambda: written.append(-1), 1)
        loop.run_until_complete(asyncio.sleep(0))
    assert written == [*range(MAX_WRITES - 2), -1]


def test_large_responses_and_those_without_a_shared_poll_do_not_wait() -> None:
    written = list[str]()
    with polled(2) as (loop, writes):
        writes.add(lambda: written.append("small"), SMALL_BYTES)
        writes.add(lambda: written.append("large"), SMALL_BYTES + 1)
        TurnWrites(loop, None).add(lambda: written.append("without a poll"), 1)
        assert written == ["large", "without a poll"]


class Iterations:
    """A loop whose time is what its work takes. ``order``: whose work was done."""

    def __init__(self) -> None:
        self._now_s, self._soon = 0.0, list[Callable[[], object]]()
        self.order: list[str] = []

    def time(self) -> float:
        return self._now_s

    def call_soon(self, callback: Callable[[], object]) -> None:
        self._soon.append(callback)

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> Timer:
        raise NotImplementedError

    def iterate(self) -> None:
        callbacks, self._soon = self._soon, []
        for callback in callbacks:
            callback()

    def work(self, who: str, took_s: float = STEP_S) -> None:
        self._now_s += took_s
        self.order.append(who)


def test_a_client_does_not_wait_for_thousands_of_handshakes() -> None:
    loop = Iterations()
    turns = Turns(loop)
    for _ in range(3_000):
        turns.add(partial(loop.work, "stranger"), of_stranger=True)
    loop.iterate()
    turns.add(partial(loop.work, "client"))
    handled = len(loop.order)
    loop.iterate()
    assert loop.order[handled] == "client"
    assert len(loop.order) < 3 * MAX_TURN_S / STEP_S


def test_strangers_go_on_beside_clients_who_fill_each_turn() -> None:
    loop = Iterations()
    turns = Turns(loop)

    def fill() -> None:
        loop.work("client", 2 * MAX_TURN_S)
        turns.add(fill)

    fill()
    for _ in range(5):
        turns.add(partial(loop.work, "stranger"), of_stranger=True)
    for _ in range(5):
        loop.iterate()
    assert loop.order.count("stranger") == 5
