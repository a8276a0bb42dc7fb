"""`coterie produce` and `coterie consume` beside Apache Kafka's console tools and kcat, on one broker: the lines of a file go
into a topic and come out again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from coterie.text.addresses import format_address
from coterie_conformance.bench.measurement import Measurement, broker
from coterie_conformance.servers.kafka import VERSIONS, java

LINES, LINE_BYTES = 1_000_000, 1_000
KAFKA = VERSIONS[-1]
Tool = Callable[[str, str], tuple[list[str], list[str]]]  # address, topic -> the commands of producing and consuming


def command_line(folder: Path, lines: int = LINES) -> Iterator[Measurement]:
    """Seconds for a million lines of 1,000 bytes, each tool's start included. Raises CannotRun where Apache Kafka cannot be
    loaded; kcat is left out where it is not installed."""
    source = _file_of(folder, lines)
    tools: dict[str, Tool] = {"coterie": _coterie, f"console tools of Kafka {KAFKA}": _kafka}
    if shutil.which("kcat"):
        tools["kcat"] = _kcat
    took = {name: _seconds(folder, source, lines, tool) for name, tool in tools.items()}
    for index, verb in enumerate(("produce", "consume")):
        for peer in [name for name in tools if name != "coterie"]:
            name = f"{verb} {lines:,} lines, beside {peer}"
            yield Measurement(name, took["coterie"][index], "s", took[peer][index], lower_is_better=True, peer=peer)


def _file_of(folder: Path, lines: int) -> Path:
    source = folder / "lines.txt"
    with source.open("wb") as file:
        for number in range(lines):
            file.write(b"%011d" % number + b"x" * (LINE_BYTES - 12) + b"\n")
    return source


def _seconds(folder: Path, source: Path, lines: int, tool: Tool) -> tuple[float, float]:
    """Of producing and of consuming, on a fresh broker. Raises RuntimeError where what comes out is not what went in."""
    os.sync()
    data, output = folder / "data", folder / "consumed.txt"
    with broker(data) as (address, _):
        server = format_address(*address)
        subprocess.run([*_OURS, "topics", "create", "lines", "-p", "1", "-b", server], check=True, capture_output=True)
        produce, consume = tool(server, "lines")
        produced_s = _run(produce, source, folder / "produced.txt")
        consumed_s = _run([word.replace("LINES", str(lines)) for word in consume], Path(os.devnull), output)
    shutil.rmtree(data)
    if output.read_bytes() != source.read_bytes():
        raise RuntimeError(f"{consume[0]} wrote other lines than those of {source}")
    return produced_s, consumed_s


def _run(command: Sequence[str], source: Path, output: Path) -> float:
    with source.open("rb") as given, output.open("wb") as written:
        started_s = time.perf_counter()
        subprocess.run(command, stdin=given, stdout=written, stderr=subprocess.DEVNULL, check=True)
        return time.perf_counter() - started_s


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
