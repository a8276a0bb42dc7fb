"""The memory of a broker's process: what the C library keeps of it, and how often Python looks for cycles in it."""

from __future__ import annotations

import ctypes
import gc
import os
from pathlib import Path

KEPT_BYTES = 32 * 1024 * 1024
RETURNED_FROM_BYTES = 64 * 1024 * 1024
LOOKED_AFTER = 16  # closed connections; and every second
COLLECTED_AFTER = 10_000  # objects more than before; Python's own 700 are those of twenty joins
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # glibc's malloc.h


def keep_freed_memory() -> bool:
    """Has glibc keep up to `KEPT_BYTES` that were freed. By default it returns the memory of a large request to the system once
    the request is handled, and the pages of the next one fault in again: more than half of the CPU time of a Produce of 1 MB.
    It concerns later requests for memory only: the buffers of a connection that came before stay as they are. False where the C
    library has no mallopt, or refuses."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return all(mallopt(parameter, KEPT_BYTES) == 1 for parameter in (_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD))


class FreedMemory:
    """Returns to the system what the C library keeps of freed memory, once the process has become larger by
    `RETURNED_FROM_BYTES`. Responses that were dropped lie between small pieces that live on, so that neither the next response
    fits there nor the heap's end falls: 300 closed fetches of 3 MB left 740 MB. A threshold from which each piece is mapped by
    itself would prevent it, and take five to nine times the CPU time of large fetches."""

    def __init__(self, library: ctypes.CDLL, statm: Path = Path("/proc/self/statm")) -> None:
        """Raises AttributeError where the C library has no malloc_trim, OSError where the system does not show a process's
        size."""
        self._trim = library.malloc_trim
        self._statm = os.open(statm, os.O_RDONLY | os.O_CLOEXEC)
        self._smallest_bytes = self._after_trim_bytes = self.resident_bytes()
        self._closed = self._closed_before_trim = 0

    def resident_bytes(self) -> int:
        """The process's memory."""
        return int(os.pread(self._statm, 100, 0).split()[1]) * _PAGE_BYTES

    def connection_closed(self) -> None:
        """Looks at the memory after some connections."""
        self._closed += 1
        if self._closed % LOOKED_AFTER == 0:
            self._return_from(self._after_trim_bytes)

    def give_back(self) -> bool:
        """Looks at the memory, every second; whether some was returned. What the last trim could not return was in use, and may
        be free once further connections have closed."""
        has_closed = self._closed > self._closed_before_trim
        return self._return_from(self._smallest_bytes if has_closed else self._after_trim_bytes)

    def _return_from(self, least_bytes: int) -> bool:
        resident_bytes = self.resident_bytes()
        is_due = resident_bytes - least_bytes >= RETURNED_FROM_BYTES
        if is_due:
            self._trim(KEPT_BYTES)
            self._closed_before_trim = self._closed
            resident_bytes = self._after_trim_bytes = self.resident_bytes()
        self._after_trim_bytes = min(self._after_trim_bytes, resident_bytes)
        self._smallest_bytes = min(self._smallest_bytes, resident_bytes)
        return is_due

    def close(self) -> None:
        os.close(self._statm)


def freed_memory() -> FreedMemory | None:
    """None where the C library or the system does not support it."""
    try:
        return FreedMemory(ctypes.CDLL(None))
    except (AttributeError, OSError):
        return None


def collect_seldom() -> None:
    """Has Python look for cycles among new objects, after `COLLECTED_AFTER` of them. Requests make hardly any cycles, but their
    decisions wait for the end of the turn, and each look at them is for nothing: a sixth of the CPU time of commits.

    What lives now, as modules and the offsets of the logs, is kept out of every look: each would walk all of it, a tenth of
    a second for half a million offsets. The start's own garbage stays with it: 2,000 objects."""
    gc.freeze()
    gc.set_threshold(COLLECTED_AFTER)
    gc.enable()
