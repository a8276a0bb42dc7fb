"""One target under Atheris (libFuzzer), which changes inputs by the code that they reach; a process of its own, since libFuzzer
ends it. `python -m coterie_conformance.fuzzing.with_atheris TARGET FOLDER [libFuzzer's options]`.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from pathlib import Path

MADE_INPUTS = 30


def run_target(name: str, seconds: float, seed: int) -> tuple[int, bytes | None, str]:
    """Runs a target in a process; (its exit status, the input that broke it, the end of its output)."""
    with tempfile.TemporaryDirectory() as folder:
        options = [
            f"-max_total_time={max(1, round(seconds))}",
            f"-seed={seed + 1}",
            "-rss_limit_mb=2048",
            "-timeout=30",
        ]
        command = [sys.executable, "-m", "coterie_conformance.fuzzing.with_atheris", name, folder, *options]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        broken = sorted(Path(folder).glob("broken-*"))
        return done.returncode, broken[0].read_bytes() if broken else None, done.stderr[-2_000:]


def main() -> None:
    """Does not return."""
    import atheris

    with atheris.instrument_imports(include=["coterie"]):
        from coterie_conformance.fuzzing.runner import kept_inputs
        from coterie_conformance.fuzzing.target import check
        from coterie_conformance.fuzzing.targets import TARGETS
    target, folder = TARGETS[sys.argv[1]], Path(sys.argv[2])
    seeds = folder / "corpus"
    seeds.mkdir()
    made = [target.make(random.Random(seed)) for seed in range(MADE_INPUTS)]
    for number, data in enumerate([*kept_inputs(target).values(), *made]):
        (seeds / str(number)).write_bytes(data)

    def one(data: bytes) -> None:
        check(target, bytes(data), with_memory=False)

    atheris.Setup([sys.argv[0], *sys.argv[3:], f"-artifact_prefix={folder}/broken-", str(seeds)], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
