"""The most memory that this process and all below it had at once (Linux: /proc)."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType


class PeakMemory:
    """Looks five times a second between `with` and its end. ``mib`` is 0 where there is no /proc."""

    def __init__(self) -> None:
        self.mib = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.2):
            self.mib = max(self.mib, sum(_resident_kib(pid) for pid in _family(os.getpid())) // 1024)


def _family(root: int) -> set[int]:
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(entry.parent.name)] = int(entry.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
    family = {root}
    while more := {pid for pid, parent in parents.items() if parent in family and pid not in family}:
        family |= more
    return family


def _resident_kib(pid: int) -> int:
    """Proportional share, so that what forked workers share counts once."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    except OSError:
        pass
    return 0
