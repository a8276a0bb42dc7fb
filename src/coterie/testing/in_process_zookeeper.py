"""The laboratory's ZooKeeper in real time: one for all brokers of a process, in their event loop, without Java."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Callable
from functools import partial

from coterie.broker.cluster.zookeeper.session import SessionEvents
from coterie.laboratory.scripts.zookeeper_server import Session, ZooKeeperServer
from coterie.laboratory.world import NetworkFaults, World
from coterie.zookeeper.operations import ConnectionLost, Operation, SessionExpired, ZooKeeperError

TICK_MS = 50  # sessions expire at whole ticks; a real server's are 2 s


class InProcessZooKeeper:
    """Make it in the event loop that runs it. A session lives for as long as its broker is not cut off, or killed.
    ``latency_s`` is drawn for each connection of one: what its operations, results and events take, in their order."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = contextvars.Context()  # of no process: the clocks of a simulation's brokers differ
        self._ahead_ms = int(time.time() * 1000 - self._now_s() * 1000)
        self.world = World(0, self._now_ms())
        self.world.faults = NetworkFaults(min_delay_ms=0, max_delay_ms=0)
        self.server = ZooKeeperServer(self.world, TICK_MS)
        self._timer: asyncio.TimerHandle | None = None
        self._context = contextvars.copy_context()  # its own: the timers are not of the broker of the last request
        self.latency_s: Callable[[], float] = lambda: 0.0

    def _now_s(self) -> float:
        return self._clock.run(self._loop.time)

    def _now_ms(self) -> int:
        return self._ahead_ms + int(self._now_s() * 1000)

    def advance(self) -> None:
        """Does what is due: watches that fired, sessions that expire."""
        self.world.run_until(max(self._now_ms(), self.world.now_ms))
        self.arm()

    def arm(self) -> None:
        """Has `advance` called when the next event is due."""
        due_ms = self.world.next_ms()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due_ms is not None:
            self._timer = self.later(max(due_ms - self._now_ms(), 0) / 1000, self.advance)

    def later(self, pause_s: float, call: Callable[..., None], *arguments: object) -> asyncio.TimerHandle:
        """By its own clock, and whether or not the broker of the request lives until then."""
        return self._clock.run(partial(self._loop.call_later, pause_s, call, *arguments, context=self._context))

    def apply(self, operation: Operation) -> object:
        """For a test, or a tool: an operation outside of every broker's session. Raises ZooKeeperError."""
        self.advance()
        try:
            return self.server.apply(self.server.connect(TICK_MS, lambda _: None), operation)
        finally:
            self.arm()

    async def open_session(self, session_timeout_ms: int, events: SessionEvents) -> InProcessSession:
        """A new session of a broker."""
        return InProcessSession(self, session_timeout_ms, events)


class InProcessSession:
    """One broker's, with what may happen to it."""

    def __init__(self, zookeeper: InProcessZooKeeper, session_timeout_ms: int, events: SessionEvents) -> None:
        self._zookeeper, self._timeout_ms, self._events = zookeeper, session_timeout_ms, events
        self._is_cut_off = self._is_dead = False
        self._begins = False  # a new session does, once the broker has heard of the end of the one before
        self._loop, self._context = asyncio.get_running_loop(), contextvars.copy_context()
        self._session = self._connect()

    def _connect(self) -> Session:
        def event(path: str) -> None:
            if not self._is_dead and session is self._session:
                self._tell(self._events.changed, path)

        self._zookeeper.advance()
        self._latency_s = self._zookeeper.latency_s()
        session = self._zookeeper.server.connect(self._timeout_ms, event)
        return session

    def _tell(self, event: Callable[..., None], *arguments: object) -> None:
        """Calls the broker in its own context, in a turn of its own."""
        if self._latency_s:
            self._loop.call_later(self._latency_s, event, *arguments, context=self._context)
        else:
            self._loop.call_soon(event, *arguments, context=self._context)

    async def apply(self, operation: Operation) -> object:
        """The result. Raises ZooKeeperError; after ConnectionLost it may have been carried out."""
        session, result = self._session, self._loop.create_future()
        self._zookeeper.later(self._latency_s, self._arrived, session, operation, result)
        return await result

    def _arrived(self, session: Session, operation: Operation, result: asyncio.Future[object]) -> None:
        """At the server, also after the death of the broker."""
        error: ZooKeeperError | None = None
        response: object = None
        try:
            if self._is_cut_off or session is not self._session:
                raise ConnectionLost
            self._zookeeper.advance()
            response = self._zookeeper.server.apply(session, operation)
        except ZooKeeperError as refused:
            error = refused
        finally:
            self._zookeeper.arm()
        self._tell(self._responded, session, result, response, error)

    def _responded(
        self, session: Session, result: asyncio.Future[object], response: object, error: ZooKeeperError | None
    ) -> None:
        if result.done():
            return
        if self._is_cut_off or self._is_dead or session is not self._session:
            error = ConnectionLost()
        if error is None:
            result.set_result(response)
        else:
            result.set_exception(error)

    def cut_off(self) -> None:
        """No way to ZooKeeper; after its timeout the session is over."""
        self._begins = False
        if not self._is_cut_off:
            self._is_cut_off = True
            self._unheard()
            self._tell(self._events.suspended)

    def _unheard(self) -> None:
        self._zookeeper.advance()
        self._zookeeper.server.unheard(self._session)
        self._zookeeper.arm()

    def heal(self) -> None:
        """The way is open again: for the old session if it lives, else for a new one."""
        if not self._is_cut_off or self._is_dead or self._begins:
            return
        self._zookeeper.advance()
        try:
            self._zookeeper.server.reconnected(self._session)
        except SessionExpired:
            self._begins = True
            self._tell(self._begin_again)
        else:
            self._is_cut_off = False
            self._tell(self._events.connected)
        self._zookeeper.arm()

    def _begin_again(self) -> None:
        """The broker learns of the end, and only then has a new session: nothing of the old one's runs in it."""
        if self._begins and not self._is_dead:
            self._events.expired()
            self._session, self._is_cut_off, self._begins = self._connect(), False, False
            self._tell(self._events.connected)
            self._zookeeper.arm()

    def die(self) -> None:
        """The process has died: nothing more is heard of it."""
        if not self._is_dead:
            self._is_dead = True
            self._unheard()

    async def close(self) -> None:
        """Ends the session: its ephemeral nodes go at once."""
        if self._is_cut_off or self._is_dead:
            return
        self._is_dead = True
        self._zookeeper.advance()
        self._zookeeper.server.close(self._session)
        self._zookeeper.arm()
