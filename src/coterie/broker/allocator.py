"""The memory of a broker's process: what the C library keeps of it, and how often Python looks for cycles in it."""

from __future__ import annotations

import ctypes
import gc

KEPT_BYTES = 32 * 1024 * 1024
COLLECTED_AFTER = 10_000  # objects more than before; Python's own 700 are those of twenty joins
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # glibc's malloc.h


def keep_freed_memory() -> bool:
    """Has glibc keep up to `KEPT_BYTES` that were freed. By default it returns the memory of a large request to the system once
    the request is handled, and the pages of the next one fault in anew: more than half of the CPU time of a Produce of 1 MB.
    It concerns later requests for memory only: the buffers of a connection that came before stay as they are. False where the C
    library has no mallopt, or refuses."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return all(mallopt(parameter, KEPT_BYTES) == 1 for parameter in (_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD))


def collect_seldom() -> None:
    """Has Python look for cycles among new objects, after `COLLECTED_AFTER` of them. Requests make hardly any cycles, but their
    decisions wait for the end of the turn, and each look at them is for nothing: a sixth of the CPU time of commits.

    What lives now, as modules and the offsets of the logs, is kept out of every look: each would walk all of it, a tenth of
    a second for half a million offsets. The start's own garbage stays with it: 2,000 objects."""
    gc.freeze()
    gc.set_threshold(COLLECTED_AFTER)
    gc.enable()
