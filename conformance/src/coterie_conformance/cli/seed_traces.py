"""The traces of seeds from fresh processes, each with another order of its hashes: equal, or something iterates over a set."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence

from coterie_conformance.stories.story import FuzzFailure, run_story_seed


def different_traces(
    seeds: Sequence[int], minutes: float, brokers: int | None, hash_seeds: Sequence[int]
) -> Iterator[tuple[int, list[str]]]:
    """Each seed whose traces differ, with them: a process for each PYTHONHASHSEED runs all seeds. Raises CalledProcessError."""
    command = [sys.executable, "-m", __name__, str(minutes), str(brokers or 0), *map(str, seeds)]
    environments = [os.environ | {"PYTHONHASHSEED": str(each)} for each in hash_seeds]
    running = [subprocess.Popen(command, env=each, stdout=subprocess.PIPE, text=True) for each in environments]
    outputs = [process.communicate()[0] for process in running]
    for process in running:
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
    for seed, traces in zip(seeds, zip(*(output.splitlines() for output in outputs), strict=True), strict=True):
        if len(set(traces)) > 1:
            yield seed, list(traces)


def trace(seed: int, minutes: float, brokers: int | None) -> str:
    """Of the network; of a seed that fails its first line."""
    try:
        return run_story_seed(seed, minutes, brokers=brokers).trace
    except FuzzFailure as failure:
        return str(failure).splitlines()[0]


if __name__ == "__main__":
    for each in sys.argv[3:]:
        print(trace(int(each), float(sys.argv[1]), int(sys.argv[2]) or None), flush=True)
