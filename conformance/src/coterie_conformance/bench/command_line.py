"""`coterie produce` and `coterie consume` beside Apache Kafka's console tools and kcat, on one broker: the lines of a file go
into a topic and come out again."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from coterie.console.terminal import write_line
from coterie.text.addresses import format_address
from coterie_conformance.bench.measurement import Measurement, broker
from coterie_conformance.servers.kafka import VERSIONS, CannotRun, jars, java

LINES, LINE_BYTES, ROUNDS = 1_000_000, 1_000, 3
KAFKA = VERSIONS[-1]
Tool = Callable[[str, str], tuple[list[str], list[str]]]  # address, topic -> the commands of producing and consuming


class Cost(NamedTuple):
    """Seconds that a command took, and those of the processor."""

    wall_s: float
    processor_s: float


def command_line(folder: Path, lines: int = LINES, rounds: int = ROUNDS) -> Iterator[Measurement]:
    """Seconds for a million lines of 1,000 bytes, with each tool's start: the median of rounds in which all take their turn.
    A peer that is not here is a line on standard error, and has no row."""
    folder.mkdir(parents=True, exist_ok=True)
    source = _file_of(folder, lines)
    tools = {"coterie": _coterie, **dict(_peers())}
    costs: dict[str, list[tuple[Cost, Cost]]] = {name: [] for name in tools}
    for _ in range(rounds):
        for name, tool in tools.items():
            costs[name].append(_costs(folder, source, lines, tool))
    for index, verb in enumerate(("produce", "consume")):
        for field, what in enumerate(("", ", processor")):
            took = {name: median(cost[index][field] for cost in of_tool) for name, of_tool in costs.items()}
            ours = took.pop("coterie")
            name = f"{verb} {lines:,} lines{what}"
            if not took:
                yield Measurement(name, ours, "s")
            for peer, theirs in took.items():
                yield Measurement(name, ours, "s", theirs, lower_is_better=True, peer=peer)


def _peers() -> Iterator[tuple[str, Tool]]:
    """The tools that are here; of the others, a line says what is missing."""
    try:
        jars(KAFKA)
    except CannotRun as reason:
        write_line(f"without the console tools of Kafka {KAFKA}: {reason}", err=True)
    else:
        yield "Kafka's console tools", _kafka
    if shutil.which("kcat"):
        yield "kcat", _kcat
    else:
        write_line("without kcat: it is not on the PATH; on Debian: apt-get install kcat", err=True)


def _file_of(folder: Path, lines: int) -> Path:
    source = folder / "lines.txt"
    with source.open("wb") as file:
        for number in range(lines):
            file.write(b"%011d" % number + b"x" * (LINE_BYTES - 12) + b"\n")
    return source


def _costs(folder: Path, source: Path, lines: int, tool: Tool) -> tuple[Cost, Cost]:
    """Of producing and of consuming, on a fresh broker. Raises RuntimeError where what comes out is not what went in."""
    os.sync()
    data, output = folder / "data", folder / "consumed.txt"
    with broker(data) as (address, _):
        server = format_address(*address)
        subprocess.run([*_OURS, "topics", "create", "lines", "-p", "1", "-b", server], check=True, capture_output=True)
        produce, consume = tool(server, "lines")
        produced = _run(produce, source, folder / "produced.txt")
        consumed = _run([word.replace("LINES", str(lines)) for word in consume], Path(os.devnull), output)
    shutil.rmtree(data)
    if output.read_bytes() != source.read_bytes():
        raise RuntimeError(f"{consume[0]} wrote other lines than those of {source}")
    return produced, consumed


def _run(command: Sequence[str], source: Path, output: Path) -> Cost:
    with source.open("rb") as given, output.open("wb") as written:
        started_s, processor_s = time.perf_counter(), _processor_s()
        subprocess.run(command, stdin=given, stdout=written, stderr=subprocess.DEVNULL, check=True)
        return Cost(time.perf_counter() - started_s, _processor_s() - processor_s)


def _processor_s() -> float:
    """That of all children that have ended; the broker is none of them yet."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


_OURS = [sys.executable, "-m", "coterie"]


def _coterie(server: str, topic: str) -> tuple[list[str], list[str]]:
    return [*_OURS, "produce", topic, "-b", server], [
        *_OURS,
        "consume",
        topic,
        "--from-beginning",
        "-n",
        "LINES",
        "-b",
        server,
    ]


def _kafka(server: str, topic: str) -> tuple[list[str], list[str]]:
    produce = java(KAFKA, "org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server", server, "--topic", topic)
    consume = ["--bootstrap-server", server, "--topic", topic, "--from-beginning", "--max-messages", "LINES"]
    return produce, java(KAFKA, "org.apache.kafka.tools.consumer.ConsoleConsumer", *consume)


def _kcat(server: str, topic: str) -> tuple[list[str], list[str]]:
    return ["kcat", "-P", "-b", server, "-t", topic], [
        "kcat",
        "-C",
        "-q",
        "-e",
        "-o",
        "beginning",
        "-b",
        server,
        "-t",
        topic,
    ]
