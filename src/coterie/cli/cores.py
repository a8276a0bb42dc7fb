"""Work spread over this machine's cores, in processes that end with the command."""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

import click

from coterie.interruption import deferred

# Seeds make much garbage that counts itself away; looking for cycles that often costs a tenth of the time.
GC_THRESHOLD = 50_000
T = TypeVar("T")
R = TypeVar("R")


def over_cores(work: Callable[[T], R], items: Sequence[T], processes: int | None = None, chunk: int = 1) -> Iterator[R]:
    """The results in the order of the items, ``chunk`` items to a process at a time. An interrupt, or an end of the
    iteration before the last, ends the processes. Raises ClickException where a process was killed."""
    with ProcessPoolExecutor(processes, initializer=gc.set_threshold, initargs=(GC_THRESHOLD,)) as pool:
        try:
            with deferred():  # the processes are started here
                results = pool.map(work, items, chunksize=chunk)
            yield from results
        except BrokenProcessPool as error:
            text = "a worker process was killed before it was done; where memory is short, run fewer at once"
            raise click.ClickException(text) from error
        except BaseException:
            for process in multiprocessing.active_children():
                process.terminate()
            raise
