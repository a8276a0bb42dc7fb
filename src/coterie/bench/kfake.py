"""kfake, the broker in memory of franz-go's own tests (Go), as a peer of the curves of `growth`."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coterie.addresses import parse_address
from coterie.bench.beside import BROKER_CORE, bound
from coterie.conformance.go_programs import FRANZ_GO, go_program

VERSION = "v0.0.0-20260918054303-01f206a7e32c"  # it has no releases
NAME = "kfake 2026-09-18"
END_S = 30.0

Address = tuple[str, int]


def kfake_program() -> Path:
    """Raises CannotRun."""
    modules = f"github.com/twmb/franz-go@{FRANZ_GO}", f"github.com/twmb/franz-go/pkg/kfake@{VERSION}"
    return go_program(Path(__file__).with_suffix(".go"), *modules)


@contextmanager
def kfake(program: Path) -> Iterator[tuple[Address, int]]:
    """A broker bound to BROKER_CORE: its address and its process id."""
    with bound(BROKER_CORE):  # the threads that Go starts at once as well
        process = subprocess.Popen([str(program)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield parse_address(process.stdout.readline().strip()), process.pid
    finally:
        process.terminate()
        process.wait(END_S)
