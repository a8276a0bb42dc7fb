"""Work spread over this machine's cores, in processes that end with the command."""

from __future__ import annotations

import gc
import multiprocessing
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

import click

from coterie.runtime.interruption import deferred

# Seeds make much garbage that counts itself away; looking for cycles that often costs a tenth of the time.
GC_THRESHOLD = 50_000
T = TypeVar("T")
R = TypeVar("R")


def over_cores(work: Callable[[T], R], items: Sequence[T], processes: int | None = None, chunk: int = 1) -> Iterator[R]:
    """The results in the order of the items, ``chunk`` items to a process at a time. An interrupt, or an end of the
    iteration before the last, ends the processes. Raises ClickException where a process was killed."""

    def begin(pool: ProcessPoolExecutor) -> Iterator[R]:
        # Not `map`: it cancels the rest when a process was killed, and then the pool's own thread fails (CPython 3.11).
        futures = deque(pool.submit(_each, work, items[at : at + chunk]) for at in range(0, len(items), chunk))
        return (result for future in _emptied(futures) for result in future.result())

    yield from _over_cores(begin, processes)


def as_completed_over_cores(work: Callable[[T], R], items: Sequence[T], processes: int | None = None) -> Iterator[R]:
    """The same, each result as soon as it is there."""

    def begin(pool: ProcessPoolExecutor) -> Iterator[R]:
        futures = [pool.submit(work, item) for item in items]
        return (future.result() for future in as_completed(futures))

    yield from _over_cores(begin, processes)


def _each(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    return [work(item) for item in items]


def _emptied(futures: deque[Future[R]]) -> Iterator[Future[R]]:
    """Each in turn, and no longer held: its result may be large."""
    while futures:
        yield futures.popleft()


def _over_cores(begin: Callable[[ProcessPoolExecutor], Iterator[R]], processes: int | None) -> Iterator[R]:
    with ProcessPoolExecutor(processes, initializer=gc.set_threshold, initargs=(GC_THRESHOLD,)) as pool:
        try:
            with deferred():  # the processes are started here
                results = begin(pool)
            yield from results
        except BrokenProcessPool as error:
            text = "a worker process was killed before it was done; where memory is short, run fewer at once"
            raise click.ClickException(text) from error
        except BaseException:
            for process in multiprocessing.active_children():
                process.terminate()
            raise
