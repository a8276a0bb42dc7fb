"""The assignors' time and memory with very large groups: in a process of its own.

`./run conformance --part assignors` has the same groups beside Apache Kafka's Java classes.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from coterie_conformance.assignors.comparison import large_cases
from coterie_conformance.bench.measurement import Measurement

AIM_S = {"1,000,000": 2.0, "100,000": 5.0}
AIM_MIB = 1024


def assignment_rows(_: Path) -> Iterator[Measurement]:
    """Seconds for the first assignment and for the one after a member has left; peak memory over all."""
    done = subprocess.run([sys.executable, "-m", __name__], capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        name, _tab, value = line.rpartition("\t")
        if name == "memory":
            yield Measurement(
                "assignors, peak memory of the process", float(value), "MiB", AIM_MIB, lower_is_better=True
            )
        else:
            yield Measurement(name, float(value), "s", AIM_S[name.split(" ")[0]], lower_is_better=True)


def main() -> None:
    """Prints a line ``CASE<TAB>SECONDS`` for each large group of `large_cases`, then ``memory<TAB>MB`` at its
    highest."""
    for what, case in large_cases():
        started = time.perf_counter()
        case.ours()
        print(f"{what}\t{time.perf_counter() - started}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"memory\t{peak / (1024 * 1024 if sys.platform == 'darwin' else 1024)}")


if __name__ == "__main__":
    main()
