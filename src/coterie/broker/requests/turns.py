"""Turns of the loop: long work of requests and connections is done some milliseconds at a time, so that other connections are
served meanwhile, and work on bytes alone that cannot be divided in a thread; of many waits of one request some are in flight at
a time; and small responses of one turn are written together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Hashable, Iterable
from functools import partial
from typing import Any, TypeVar

from coterie.broker.process.scheduling import Scheduler
from coterie.broker.requests.pending import Pending
from coterie.log.aside import Outcome
from coterie.runtime.shared_poll import SharedPoll
from coterie.wire.declaration import Message

MAX_TURN_S = 0.010
REPEATED_AT_MOST = 20
AT_ONCE = 100
MAX_THREADS = 2  # of work aside: what it takes of memory is bounded by it
T = TypeVar("T")
R = TypeVar("R")
LongWork = Callable[[], Outcome]
Work = Generator[
    Any, Any, Message | Pending
]  # of one request, a step for each of its items; yields None or a `LongWork`
InThread = Callable[[LongWork, Callable[[Outcome], None]], None]
MAX_WRITES = 64  # that wait for each other, about half a millisecond
SMALL_BYTES = 4096  # larger responses are written at once
IN_FLIGHT = 32  # entities that one request reads or alters at a time; a turn of the loop has a step of each


def at_once(work: LongWork, then: Callable[[Outcome], None]) -> None:
    """The `InThread` of a broker in virtual time."""
    then(work())


def in_thread(loop: asyncio.AbstractEventLoop) -> InThread:
    """Carries work out in a thread of the loop's executor and passes the outcome on in the loop."""

    def carry_out(work: LongWork, then: Callable[[Outcome], None]) -> None:
        future = loop.run_in_executor(None, work)
        future.add_done_callback(lambda done: None if done.cancelled() else then(done.result()))

    return carry_out


class Turns:
    """Shares each iteration of the loop out: work that needs a further turn waits in line, and about 10 ms of the line's work
    is done at a time. ``spent_s`` counts what new requests have had in this iteration; beyond `MAX_TURN_S` they go to the
    line as well."""

    def __init__(self, scheduler: Scheduler, in_thread: InThread = at_once) -> None:
        self._scheduler, self._in_thread = scheduler, in_thread
        self._aside: deque[tuple[LongWork, Callable[[Outcome], None]]] = deque()
        self._threads = 0
        self._line: deque[Callable[[], None]] = deque()
        self._strangers: deque[Callable[[], None]] = deque()  # behind the line, but for one in each iteration
        self.spent_s = 0.0
        self._scheduled = False

    def spend(self, seconds: float) -> None:
        """Adds the duration of new requests."""
        self.spent_s += seconds
        self._schedule()

    def add(self, work: Callable[[], None], *, of_stranger: bool = False) -> None:
        """Calls ``work`` when its turn comes. ``of_stranger``: of a connection without authentication, of which there may be
        thousands; the work of clients does not wait for theirs."""
        (self._strangers if of_stranger else self._line).append(work)
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._scheduler.call_soon(self._run)

    def _run(self) -> None:
        self._scheduled, self.spent_s = False, 0.0
        ends_s = self._scheduler.time() + MAX_TURN_S
        try:
            while self._line and self._scheduler.time() <= ends_s:
                self._line.popleft()()
            while self._strangers:
                self._strangers.popleft()()
                if self._scheduler.time() > ends_s:
                    break
        finally:
            if self._line or self._strangers:
                self._schedule()

    def run_many(self, items: int, work: Work) -> Message | Pending:
        """As `run`, but the time is looked at only where the request has more than `AT_ONCE` items."""
        return self.run(work, timed=items > AT_ONCE)

    def run(self, work: Work, *, timed: bool = True) -> Message | Pending:
        """Runs ``work`` to its return value, the response or what waits for it; each of its yields may end a turn, and what it
        yields is done in a thread, whose outcome it is sent. The response to work of one turn is sent at once. An exception in
        a later turn closes the connection, as it does in the first."""
        step = self.turn(work, None, timed)
        if isinstance(step, Message | Pending):
            return step
        request = _LongRequest(self, work, timed)
        request.proceed(step)
        return request.pending

    def turn(self, work: Work, outcome: Outcome | None, timed: bool) -> Message | Pending | LongWork | None:
        """Up to the return value, to work for a thread, or to the end of the time (None)."""
        ends_s = self._scheduler.time() + MAX_TURN_S
        try:
            while True:
                long: LongWork | None = work.send(outcome)
                outcome = None
                if long is not None or (timed and self._scheduler.time() > ends_s):
                    return long
        except StopIteration as end:
            response: Message | Pending = end.value
            return response

    def aside(self, work: LongWork, then: Callable[[Outcome], None]) -> None:
        """Does ``work`` in a thread, after that before it, and calls ``then`` with its outcome."""
        self._aside.append((work, then))
        self._begin_aside()

    def _begin_aside(self) -> None:
        while self._aside and self._threads < MAX_THREADS:
            work, then = self._aside.popleft()
            self._threads += 1
            self._in_thread(work, partial(self._end_aside, then))

    def _end_aside(self, then: Callable[[Outcome], None], outcome: Outcome) -> None:
        self._threads -= 1
        then(outcome)
        self._begin_aside()


class _LongRequest:
    """A request that takes several turns. What belongs to it refers to no function of its own, as a function that adds itself
    would: a cycle keeps a response until Python looks for cycles."""

    def __init__(self, turns: Turns, work: Work, timed: bool) -> None:
        self._turns, self._work, self._timed = turns, work, timed
        self.pending = Pending()
        self.pending.in_turns = True

    def proceed(self, step: Message | Pending | LongWork | None) -> None:
        """After a turn that ended with ``step``."""
        if isinstance(step, Message | Pending):
            self.pending.respond_with(step)
        elif step is None:
            self._turns.add(partial(self._resume, None))
        else:
            self._turns.aside(step, lambda outcome: self._turns.add(partial(self._resume, outcome)))

    def _resume(self, outcome: Outcome | None) -> None:
        try:
            step = self._turns.turn(self._work, outcome, self._timed)
        except Exception as error:
            self.pending.fail(error)
        else:
            self.proceed(step)


def finish(work: Generator[Any, Any, R]) -> R:
    """Runs ``work`` to its end at once."""
    outcome = None
    while True:
        try:
            long = work.send(outcome)
            outcome = None if long is None else long()
        except StopIteration as end:
            result: R = end.value
            return result


def distinct(items: Iterable[T], key: Callable[[T], Hashable]) -> list[T]:
    """The items of a request; of more than `REPEATED_AT_MOST` each is returned once, so that a request that repeats one name
    gets no response with as many copies."""
    every = list(items)
    if len(every) <= REPEATED_AT_MOST:
        return every
    return list({key(item): item for item in every}.values())


class TurnWrites:
    """Responses are written at the end of a turn, or after `MAX_WRITES`: a client on the same machine is woken once for all of
    them. To wake a thread that sleeps costs the sender some five microseconds, as much as the rest of the system call. A
    request that came alone in its turn waits for nothing, and so does each one without a shared poll."""

    def __init__(self, scheduler: Scheduler, poll: SharedPoll | None) -> None:
        self._scheduler, self._poll = scheduler, poll
        self._waiting: deque[Callable[[], None]] = deque()

    def add(self, write: Callable[[], None], size: int) -> None:
        """Calls ``write``, of so many bytes, once the turn is over, or at once."""
        if self._poll is None or self._poll.events <= 1 or size > SMALL_BYTES:
            write()
            return
        waiting = self._waiting
        if not waiting:
            self._scheduler.call_soon(self._write)
        waiting.append(write)
        if len(waiting) >= MAX_WRITES:
            self._write()

    def _write(self) -> None:
        waiting = self._waiting
        try:
            while waiting:
                waiting.popleft()()
        finally:
            if waiting:
                self._scheduler.call_soon(self._write)


async def each_at_once(items: Iterable[T], work: Callable[[T], Awaitable[R]]) -> list[R]:
    """The result of each, in their order; IN_FLIGHT at a time, since each waits for ZooKeeper several times."""
    items = list(items)
    results, left = dict[int, R](), iter(enumerate(items))

    async def take() -> None:
        for index, item in left:
            results[index] = await work(item)
            await asyncio.sleep(0)  # what is refused at once waits for nothing

    await asyncio.gather(*(take() for _ in items[:IN_FLIGHT]))
    return [results[index] for index in range(len(items))]
