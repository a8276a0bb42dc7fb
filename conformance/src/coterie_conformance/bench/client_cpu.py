"""Our client beside that of another checkout: the CPU of one operation, in rounds that alternate between two processes over
one broker. What disturbs the machine disturbs both, and the near-best round of each is compared. What a process has by luck
(where its heap ends, its hashes) stays for all of its rounds: there are several pairs, and their median counts.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import coterie
from coterie.text.addresses import format_address
from coterie_conformance.bench.beside import BROKER_CORE, DRIVER_CORE, bind
from coterie_conformance.bench.clients import rate
from coterie_conformance.bench.loads import client_rounds, load
from coterie_conformance.bench.measurement import Measurement, broker

PAIRS = 5  # of processes
ROUNDS = 16  # of each process
NEAR_BEST = 0.1  # the quantile of a client's rounds that is reported: below it are flukes, above it disturbances
CONSUMED = 120_000
OURS = Path(coterie.__file__).parents[1]


def sources_of(tree: Path) -> Path:
    """The folder of a checkout's modules. Raises ValueError for one that cannot be compared with ours."""
    sources = tree.resolve() / "src"
    if not (sources / "coterie" / "client").is_dir():
        raise ValueError(f"{tree} must be a checkout of coterie: it has no folder src/coterie/client")
    is_built = [any((each / "coterie" / "records").glob("_unfold.*.so")) for each in (OURS, sources)]
    if is_built[0] != is_built[1]:
        without = sources if is_built[0] else OURS
        raise ValueError(
            f"{without} lacks the compiled decoder that the other one has; build it by `./run setup` there"
        )
    return sources


def client_cpu(
    sources: Path,
    operations: Iterable[str] = tuple(client_rounds.OPERATIONS),
    pairs: int = PAIRS,
    rounds: int = ROUNDS,
) -> Iterator[Measurement]:
    """A row for each operation: microseconds of CPU, with those of ``sources`` as the aim."""
    for operation in operations:
        with tempfile.TemporaryDirectory(prefix="coterie-bench-") as folder:
            ours, theirs = _costs_on_a_broker(operation, Path(folder), (OURS, sources), pairs, rounds)
        yield Measurement(operation, ours, "us", theirs, lower_is_better=True, peer=sources.parent.name)


def _costs_on_a_broker(
    operation: str, folder: Path, sources: tuple[Path, Path], pairs: int, rounds: int
) -> list[float]:
    with broker(folder) as ((host, port), process):
        bind(BROKER_CORE, process.pid)
        load.create_topic((host, port), client_rounds.PARTITIONS, client_rounds.TOPIC)
        load.create_topic((host, port), 1, client_rounds.SMALL_TOPIC)
        address = format_address(host, port)
        if operation.startswith("consumed"):
            rate("produce", "coterie", address, CONSUMED)
        costs = [paired_costs(operation, address, sources, rounds) for _ in range(pairs)]
    return [statistics.median(map(_near_best, each)) for each in zip(*costs, strict=True)]


def _near_best(costs: list[float]) -> float:
    return sorted(costs)[int(len(costs) * NEAR_BEST)]


def paired_costs(
    operation: str, address: str, sources: tuple[Path, Path], rounds: int
) -> tuple[list[float], list[float]]:
    """The microseconds of each round, by each of the two sources. Raises RuntimeError where a client ends by an error."""
    costs: tuple[list[float], list[float]] = ([], [])
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(_running(operation, address, path)) for path in sources]
        for number in range(2 * rounds):
            index = number % 2 ^ number // 2 % 2  # ours, theirs, theirs, ours
            costs[index].append(clients[index].round_us())
    return costs


@dataclass(frozen=True, slots=True)
class _Client:
    """A process of `client_rounds` with the modules of ``source``."""

    process: subprocess.Popen[str]
    source: Path

    def line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the client of {self.source} ended; its error is above")
        return line

    def round_us(self) -> float:
        assert self.process.stdin is not None
        print(file=self.process.stdin, flush=True)
        return float(self.line())


@contextlib.contextmanager
def _running(operation: str, address: str, source: Path) -> Iterator[_Client]:
    command = [sys.executable, "-P", str(client_rounds.__file__), operation, address]
    environment = os.environ | {"PYTHONPATH": str(source)}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    bind(DRIVER_CORE, process.pid)
    try:
        client = _Client(process, source)
        client.line()  # ready
        yield client
    finally:
        process.communicate()
