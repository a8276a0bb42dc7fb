"""A broker whose time is the processor time of this thread, so that other processes cannot make a turn of its loop longer.

Turns end by that time, as they end by the loop's clock in a real broker; `MeteredScheduler.longest_s` is how long a bystander's
request would have waited for the processor.
"""

from __future__ import annotations

import gc
import heapq
import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from coterie.broker.connections.accepted_connection import AcceptedConnection
from coterie.broker.connections.open_connections import OpenConnections
from coterie.broker.handlers import HANDLERS, import_all
from coterie.broker.node import BrokerNode
from coterie.broker.process.scheduling import Clock
from coterie.broker.requests.memory import RequestMemory
from coterie.broker.requests.turns import LongWork, finish
from coterie.broker.settings import BrokerSettings
from coterie.broker.storage.disk import DiskFileSystem
from coterie.log.aside import Outcome
from coterie.runtime.allocator import COLLECTED_AFTER
from coterie.runtime.receiver import RECEIVE_BYTES
from coterie.wire.declaration import Message
from coterie.wire.framing import encode_request
from tests.broker.frames_broker import FakeTransport


class _Timer:
    cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class MeteredScheduler:
    """A `Scheduler` whose clock is `time.thread_time`; where nothing is left to do it jumps to the next timer."""

    def __init__(self) -> None:
        self._ahead_s = 0.0
        self._ready: list[Callable[[], object]] = []
        self._timers: list[tuple[float, int, _Timer, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self.longest_s = 0.0
        self.total_s = 0.0

    def time(self) -> float:
        return time.thread_time() + self._ahead_s

    def call_soon(self, callback: Callable[[], object], /) -> None:
        self._ready.append(callback)

    def call_later(self, delay: float, callback: Callable[[], object], /) -> _Timer:
        timer = _Timer()
        heapq.heappush(self._timers, (self.time() + delay, next(self._numbers), timer, callback))
        return timer

    @property
    def is_busy(self) -> bool:
        """Whether something is to be called soon."""
        return bool(self._ready)

    def run_until(self, done: Callable[[], object]) -> None:
        """One iteration of the loop after another, until ``done()``."""
        while not done():
            if not self._ready:
                self._jump()
            callbacks, self._ready = self._ready, []
            started_s = time.thread_time()
            for callback in callbacks:
                callback()
            took_s = time.thread_time() - started_s
            self.total_s += took_s
            self.longest_s = max(self.longest_s, took_s)

    def _jump(self) -> None:
        assert self._timers, "the request waits for something that never comes"
        due_s, _, timer, callback = heapq.heappop(self._timers)
        self._ahead_s += max(0.0, due_s - self.time())
        if not timer.cancelled:
            self._ready.append(callback)


class MeteredBroker(BrokerNode):
    """A broker alone with what its connections use of it (`accepted_connection.Owner`) and a topic "t" of two partitions.

    ``partitions``: of a topic "many"; ``topics``: how many of one partition there are, "many0" and so on."""

    def __init__(self, data: Path, partitions: int = 0, topics: int = 0) -> None:
        settings = BrokerSettings({"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"})
        super().__init__(settings, Clock(), random.Random(0))
        self.data = data
        self.handlers = HANDLERS
        self.request_memory = RequestMemory(-1)
        self.connections = OpenConnections(self)
        self.max_request_bytes: int = settings.current.socket_request_max_bytes
        self.max_elements: int = settings.current.coterie_request_max_elements
        self.loop: Any = MeteredScheduler()
        self.open(DiskFileSystem(data), self.loop, lambda files, synced: synced(None), _fail, in_thread=_in_a_thread)
        wanted = [("t", 2), *[("many", partitions)] * bool(partitions), *((f"many{n}", 1) for n in range(topics))]
        self.topics.publish([finish(self.topics.preparing(name, count, {})) for name, count in wanted])
        self.load_transactions()

    def ask(self, request: Message, version: int) -> bytes:
        """The frame of the response, "" where there is none; the request comes in pieces, as from a socket. Counts the time in
        ``loop``."""
        loop, transport = self.loop, FakeTransport()
        connection = AcceptedConnection(self)
        connection.connection_made(transport)
        frame = encode_request(1, "client", request, version)
        pieces = [frame[at : at + RECEIVE_BYTES] for at in range(0, len(frame), RECEIVE_BYTES)]
        loop.longest_s = loop.total_s = 0.0
        for piece in pieces:
            loop.call_soon(partial(connection.data_received, piece))
            loop.run_until(lambda: not loop.is_busy or connection.client_id)
        loop.run_until(lambda: transport.written or transport.closed or not (loop.is_busy or connection.is_waiting()))
        assert not transport.closed, "the request was refused"
        connection.connection_lost(None)
        return b"".join(transport.written)


def _fail(error: OSError) -> None:
    raise error


def _in_a_thread(work: LongWork, then: Callable[[Outcome], None]) -> None:
    """Whose processor time is not the loop's."""
    outcomes: list[Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(work()))
    thread.start()
    thread.join()
    then(outcomes[0])


@contextmanager
def metered_broker(data: Path, partitions: int = 0, topics: int = 0) -> Iterator[MeteredBroker]:
    """Every handler is imported, and Python's collector set, as once a broker listens; the broker itself is not frozen, for no
    look at its end to walk what the suite has frozen (conftest.py)."""
    list(import_all())
    gc.collect()
    gc.freeze()
    broker = MeteredBroker(data, partitions, topics)
    threshold = gc.get_threshold()
    gc.collect()
    gc.set_threshold(COLLECTED_AFTER)
    try:
        yield broker
    finally:
        gc.set_threshold(*threshold)
        for log in broker.topics.every_log():
            log.close_files()
