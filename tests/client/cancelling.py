"""A call of a client that is cancelled at each of its awaits in turn, in a run of its own each time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from enum import Enum
from typing import Any

from tests.async_tests import AsyncTest, run_by

MOST_AWAITS = 300
TEST_S = 30.0  # under load; one that hangs takes for ever


class When(Enum):
    """The cancellation comes as soon as the call awaits something, or in the turn in which that something ends."""

    AT_ONCE = "at once"
    AT_THE_END = "as it ends"


class Cancelled:
    """Awaits ``call`` in the present task, and cancels that at the await of this number. ``is_due``: the call came to it."""

    def __init__(self, number: int, when: When) -> None:
        self.is_due = False
        self._number, self._when = number, when

    async def during(self, call: Awaitable[object]) -> None:
        """Returns once the call has ended, by the cancellation or, where it has fewer awaits, by itself."""
        task = asyncio.create_task(_At(self, call).run())
        await asyncio.wait({task})
        if not task.cancelled():
            error = task.exception()
            assert not self.is_due or error is not None, "the call swallowed its cancellation"
            if error is not None:
                raise error

    def reached(self, number: int, awaited: Any) -> None:
        """The call awaits something, which is None for a turn of the loop."""
        if number != self._number:
            return
        self.is_due = True
        task = asyncio.current_task()
        assert task is not None
        if self._when is When.AT_THE_END and asyncio.isfuture(awaited):
            awaited.add_done_callback(lambda _: task.cancel())
        else:
            asyncio.get_running_loop().call_soon(task.cancel)


class _At:
    """An awaitable that hands on what ``call`` awaits."""

    def __init__(self, cancelled: Cancelled, call: Awaitable[object]) -> None:
        self._cancelled, self._call = cancelled, call

    async def run(self) -> None:
        await self

    def __await__(self) -> Generator[Any, Any, None]:
        steps = self._call.__await__()
        error: BaseException | None = None
        number = 0
        while True:
            try:
                awaited = next(steps) if error is None else steps.throw(error)
            except StopIteration:
                return
            self._cancelled.reached(number, awaited)
            number, error = number + 1, None
            try:
                yield awaited
            except BaseException as thrown:
                error = thrown


def at_every_await(least: int = 1) -> Callable[[AsyncTest], Callable[..., None]]:
    """Decorates a test, which is run until its call has no further await, and was cancelled at that many at ``least``."""

    def run(test: AsyncTest) -> None:
        assert sum(_cancelled_awaits(test, when) for when in When) >= least

    return run_by(run)


def _cancelled_awaits(test: AsyncTest, when: When) -> int:
    for number in range(MOST_AWAITS):
        cancelled = Cancelled(number, when)
        try:
            asyncio.run(_bounded(test(cancelled)))
        except BaseException as error:
            error.add_note(f"cancelled at await {number}, {when.value}")
            raise
        if not cancelled.is_due:
            return number
    raise AssertionError(f"the call has more than {MOST_AWAITS} awaits")


async def _bounded(test: Awaitable[None]) -> None:
    async with asyncio.timeout(TEST_S):
        await test
