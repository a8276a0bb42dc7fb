"""Work on bytes alone that may take long: carried out by the driver, in a thread for instance, and not where it is met.

A function that meets such work calls its `Aside` with it. The driver's (`resumable`) ends the function by `LongWork`, carries
the work out, and calls the function again; this time the call returns the result. So what the function checks before and after
holds at the same moment, however long the work took.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable
from typing import Any, Protocol, TypeVar

from coterie.wire.errors import Refusal

T = TypeVar("T")
Outcome = tuple[Any, Exception | None]
Steps = Generator[Callable[[], Outcome], Outcome, T]  # what is yielded raises nothing


class Aside(Protocol):
    """Carries out ``work``, which ``key`` names among all of one function, and returns its result or raises its error."""

    def __call__(self, key: Hashable, work: Callable[[], T], /) -> T: ...


class LongWork(Exception):
    """The function is to be called again after ``work``."""

    def __init__(self, key: Hashable, work: Callable[[], Any]) -> None:
        super().__init__(key)
        self.key, self.work = key, work


def at_once(key: Hashable, work: Callable[[], T]) -> T:
    """The `Aside` of a driver that has nobody else to serve."""
    return work()


def _put_off(key: Hashable, work: Callable[[], T]) -> T:
    raise LongWork(key, work)


def resumable(function: Callable[[Aside], T]) -> Steps[T]:
    """Calls ``function`` until no long work is left of it; yields each such work."""
    try:
        return function(_put_off)
    except LongWork as long:
        key, work = long.key, long.work  # not the error, which refers to this frame: a cycle keeps what is unfolded
    outcomes: dict[Hashable, Outcome] = {}

    def aside(key: Hashable, work: Callable[[], Any]) -> Any:
        if key not in outcomes:
            raise LongWork(key, work)
        result, error = outcomes[key]
        if error is None:
            return result
        try:
            raise error
        finally:
            del error

    try:
        while True:
            outcomes[key] = yield _attempt(work)
            try:
                return function(aside)
            except LongWork as long:
                key, work = long.key, long.work
    finally:
        outcomes.clear()


def _attempt(work: Callable[[], Any]) -> Callable[[], Outcome]:
    def attempt() -> Outcome:
        try:
            return work(), None
        except (Refusal, ValueError) as error:
            return None, _without_frames(error)
        except Exception as error:
            return None, error

    return attempt


def _without_frames(error: Exception) -> Exception:
    """An error that is a result: the frames of the thread would keep what they unfolded."""
    link: BaseException | None = error
    while link is not None:
        link.__traceback__ = None
        link = link.__cause__ or link.__context__
    return error
