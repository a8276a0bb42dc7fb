"""The event loop of a process of the laboratory's cluster, in virtual time."""

from __future__ import annotations

from collections.abc import Callable

from coterie.laboratory.cluster.process import Process
from coterie.laboratory.node.scheduler import VirtualScheduler


class ProcessScheduler(VirtualScheduler):
    """The event loop of one life of a process."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def time(self) -> float:
        return self._process.monotonic_ms / 1000

    def run(self, callback: Callable[[], object]) -> None:
        callback()

    def _after(self, ms: int, due: Callable[[], None]) -> None:
        self._process.later(ms, due)
