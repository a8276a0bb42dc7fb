"""kfake (`conformance.kfake`) as a peer of the curves of `growth`."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coterie.text.addresses import parse_address
from coterie_conformance.bench.beside import BROKER_CORE, bound

END_S = 30.0

Address = tuple[str, int]


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
