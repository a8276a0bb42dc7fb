"""Fuzz targets, their property, and the mutation of inputs.

The property: whatever the bytes, a decoder returns or raises one of its declared errors, within bounds on processor time and
on memory.
"""

from __future__ import annotations

import gc
import random
import signal
import struct
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType

MOST_S = 5.0  # processor time for one input
_AGAIN_S = 0.1  # processor time until a decoder is interrupted again
MOST_BYTES = 64 * 1024 * 1024  # allocated while one input is decoded
_TRIED_BYTES = (0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF)
_TRIED_NUMBERS = (0, 1, -1, -2, 127, 128, 2**15 - 1, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63))
_VARINTS = (
    b"\xfe\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x80\x00",
    b"\xff" * 9 + b"\x01",
    b"\xff" * 11,
)


@dataclass(frozen=True, slots=True)
class Target:
    """``decode`` takes the bytes; ``declared`` are the errors that it may raise; ``make`` gives an input that is right in most
    places. ``what``: a line of help. ``corpus``: whose entries of the corpus it takes, its own if empty. ``most_bytes``: its
    bound on memory."""

    name: str
    what: str
    decode: Callable[[bytes], object]
    declared: tuple[type[BaseException], ...]
    make: Callable[[random.Random], bytes]
    corpus: str = ""
    most_bytes: int = MOST_BYTES


class Broken(Exception):
    """An input for which the property does not hold; the text has the violation."""


def check(target: Target, data: bytes, *, with_memory: bool = True) -> None:
    """Raises Broken unless the property holds; ``with_memory``: measured too, which takes several times as long.

    An interrupt is lost in a decoder that catches it, so that it is repeated; in a callback of the garbage collection
    (Hypothesis has one) it would be lost with a warning, so that there are none meanwhile."""
    if with_memory:
        tracemalloc.start()
    callbacks, gc.callbacks[:] = gc.callbacks[:], []
    previous = signal.signal(signal.SIGPROF, _too_long)
    began_s = time.process_time()
    try:
        signal.setitimer(signal.ITIMER_PROF, MOST_S, _AGAIN_S)
        try:
            target.decode(data)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    except target.declared:
        pass
    except _TooLongError as error:
        raise Broken(f"{target.name}: more than {MOST_S} s of processor time for {len(data)} bytes") from error
    except Exception as error:
        raise Broken(f"{target.name}: {type(error).__name__}: {error}") from error
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)  # again, where the first one was interrupted
        signal.signal(signal.SIGPROF, previous)
        gc.callbacks[:] = callbacks
        peak = tracemalloc.get_traced_memory()[1] if with_memory else 0
        if with_memory:
            tracemalloc.stop()
    if peak > target.most_bytes:
        raise Broken(f"{target.name}: {peak} bytes of memory for an input of {len(data)}")
    if time.process_time() - began_s > MOST_S:
        raise Broken(f"{target.name}: more than {MOST_S} s of processor time for {len(data)} bytes")


class _TooLongError(BaseException):
    pass


def _too_long(_number: int, _frame: FrameType | None) -> None:
    raise _TooLongError


def mutated(data: bytes, rng: random.Random) -> bytes:
    """The data with one to eight changes: bits, bytes, numbers and varints at the edges, pieces left out, doubled, cut."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        at = rng.randrange(len(changed) + 1)
        match rng.randrange(7):
            case 0 if at < len(changed):
                changed[at] ^= 1 << rng.randrange(8)
            case 1:
                changed[at : at + 1] = bytes((rng.choice(_TRIED_BYTES),))
            case 2:
                letter = rng.choice((">h", ">i", ">q", "<i"))
                size = struct.calcsize(letter)
                value = rng.choice(_TRIED_NUMBERS) & (1 << 8 * size) - 1
                changed[at : at + size] = value.to_bytes(size, "big" if letter[0] == ">" else "little")
            case 3:
                changed[at : at + rng.randrange(3)] = rng.choice(_VARINTS)
            case 4:
                del changed[at : at + rng.choice((1, 2, 8, 64))]
            case 5:
                changed[at:at] = changed[at : at + rng.choice((1, 4, 16, 64))]
            case _:
                changed[at : at + 1] = rng.randbytes(rng.choice((1, 2, 9)))
    if rng.random() < 0.1:
        del changed[rng.randrange(len(changed) + 1) :]
    return bytes(changed)
