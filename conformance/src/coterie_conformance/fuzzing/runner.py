"""Fuzzing for a time: inputs of the corpus and made ones, as they are and changed, to each target in turn.

The corpus is a file of lines `targets name hex`; what breaks a target is printed as such a line, to be added to it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from coterie_conformance.fuzzing.target import Broken, Target, check, mutated

TURN_S = 0.5
WITH_MEMORY_EVERY = 4  # memory is measured for one input of so many


@dataclass(frozen=True, slots=True)
class BreakingInput:
    """An input that broke a target, and how."""

    target: str
    problem: str
    data: bytes

    @property
    def corpus_line(self) -> str:
        return f"{self.target} found-{abs(hash(self.data)) % 10**6} {self.data.hex()}"


@cache
def corpus() -> dict[str, dict[str, bytes]]:
    """The kept inputs: by the target's name (or that of several, `Target.corpus`), and by their own."""
    kept: dict[str, dict[str, bytes]] = {}
    text = resources.files("coterie_conformance.fuzzing").joinpath("corpus.txt").read_text("ascii")
    for line in text.splitlines():
        if line and not line.startswith("#"):
            target, name, digits = (line + " ").split(" ")[:3]
            kept.setdefault(target, {})[name] = bytes.fromhex(digits)
    return kept


def kept_inputs(target: Target) -> dict[str, bytes]:
    """The corpus's inputs of a target."""
    return corpus().get(target.corpus or target.name, {})


def inputs(target: Target, seed: int) -> Iterator[bytes]:
    """Without end, the same for the same seed: the corpus first."""
    kept = list(kept_inputs(target).values())
    yield from kept
    while True:
        rng = random.Random(f"{target.name} {seed}")
        data = rng.choice(kept) if kept and rng.random() < 0.3 else target.make(rng)
        yield mutated(data, rng) if rng.random() < 0.8 else data
        seed += 1


def fuzz(
    targets: Sequence[Target], seconds: float, seed: int, progress: Callable[[Target, int], None]
) -> Iterator[BreakingInput]:
    """Findings as they come, at most one for each target, which is then left alone. ``progress`` is given each turn's number
    of inputs. Every target has at least one turn."""
    streams = {target.name: inputs(target, seed) for target in targets}
    left = list(targets)
    end_s = time.monotonic() + seconds
    first = True
    while left and (first or time.monotonic() < end_s):
        for target in list(left):
            turn_s = min(TURN_S, max(0.0, seconds / len(targets)))
            finding, number = _turn(target, streams[target.name], turn_s)
            progress(target, number)
            if finding is not None:
                left.remove(target)
                yield finding
            if not first and time.monotonic() > end_s:
                break
        first = False


def _turn(target: Target, stream: Iterator[bytes], seconds: float) -> tuple[BreakingInput | None, int]:
    end_s = time.monotonic() + seconds
    for number, data in enumerate(stream):
        try:
            check(target, data, with_memory=number % WITH_MEMORY_EVERY == 0)
        except Broken as broken:
            return BreakingInput(target.name, str(broken), data), number + 1
        if time.monotonic() >= end_s:
            return None, number + 1
    raise AssertionError("inputs end")
