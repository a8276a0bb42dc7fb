"""Long work of requests and connections, some milliseconds at a time, so that other connections are served meanwhile."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable
from typing import TypeVar

from coterie.broker.process.scheduling import Scheduler
from coterie.broker.requests.pending import Pending
from coterie.wire.declaration import Message

MAX_TURN_S = 0.010
REPEATED_AT_MOST = 20
AT_ONCE = 100
T = TypeVar("T")
R = TypeVar("R")
Work = Generator[None, None, Message | Pending]  # of one request, a step for each of its items


class Turns:
    """Shares each iteration of the loop out: work that needs a further turn waits in line, and about 10 ms of the line's work
    is done at a time. ``spent_s`` counts what new requests have had in this iteration; beyond `MAX_TURN_S` they go to the
    line as well."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._line: deque[Callable[[], None]] = deque()
        self.spent_s = 0.0
        self._scheduled = False

    def spend(self, seconds: float) -> None:
        """Adds the duration of new requests."""
        self.spent_s += seconds
        self._schedule()

    def add(self, work: Callable[[], None]) -> None:
        """Calls ``work`` when its turn comes."""
        self._line.append(work)
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
        finally:
            if self._line:
                self._schedule()

    def run_many(self, items: int, work: Work) -> Message | Pending:
        """As `run`, where the request has more than `AT_ONCE` items: fewer are no work for which the time is looked at."""
        return finish(work) if items <= AT_ONCE else self.run(work)

    def run(self, work: Work) -> Message | Pending:
        """Runs ``work`` to its return value, the response or what waits for it; each of its yields may end a turn. Work of one
        turn is answered at once. An exception in a later turn closes the connection, as it does in the first."""
        answer = self._turn(work)
        if answer is not None:
            return answer
        pending = Pending()
        pending.in_turns = True

        def go_on() -> None:
            try:
                answer = self._turn(work)
            except Exception as error:
                pending.fail(error)
                return
            if answer is None:
                self.add(go_on)
            else:
                pending.answer_with(answer)

        self.add(go_on)
        return pending

    def _turn(self, work: Work) -> Message | Pending | None:
        ends_s = self._scheduler.time() + MAX_TURN_S
        try:
            while self._scheduler.time() <= ends_s:
                next(work)
        except StopIteration as end:
            answer: Message | Pending = end.value
            return answer
        return None


def finish(work: Generator[None, None, R]) -> R:
    """Runs ``work`` to its end at once."""
    while True:
        try:
            next(work)
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
