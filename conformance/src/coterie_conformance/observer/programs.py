"""The clients of the stories as programs, made ready once, and a member while it runs.

A program's arguments are address, group, topics or ^regex, and settings KEY=VALUE by Java's names. It reads until SIGTERM, by
which it leaves, and takes commands on its standard input.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from coterie_conformance.clients.programs import PROGRAMS, environment
from coterie_conformance.servers.kafka import jars
from coterie_conformance.servers.programs import go_program, java_program

HERE = Path(__file__).parent
END_S = 15.0


def _program(name: str) -> tuple[str, ...]:
    return next(program.packages for program in PROGRAMS if program.name == name)


def _java(version: str, folder: Path) -> list[str]:
    """The client is of the broker's version."""
    source, options = HERE / "Crew.java", ("-XX:+UseSerialGC",)
    return java_program(source, jars(version), folder, heap="128m", options=options)


def _librdkafka(_: str, __: Path) -> list[str]:
    program = next(p for p in PROGRAMS if p.name == "confluent-kafka")
    return [environment(program)[0], str(HERE / "confluent_crew.py")]


def _sarama(_: str, __: Path) -> list[str]:
    return [str(go_program(HERE / "crew.go", *_program("sarama")))]


def _coterie(_: str, __: Path) -> list[str]:
    return [sys.executable, str(HERE / "our_crew.py")]


# By name: what makes the command that runs a member, with a version of Apache Kafka and a folder. They raise CannotRun.
CLIENTS: dict[str, Callable[[str, Path], list[str]]] = {
    "Java": _java,
    "librdkafka": _librdkafka,
    "sarama": _sarama,
    "coterie": _coterie,
}


@dataclass(slots=True)
class StoryMember:
    """A member in a process of its own."""

    process: subprocess.Popen[str]

    @classmethod
    def start(
        cls, command: list[str], address: str, group: str, topics: str, settings: Mapping[str, str], log: Path
    ) -> StoryMember:
        """``log`` takes what it prints."""
        words = [f"{name}={value}" for name, value in settings.items()]
        with log.open("a") as out:
            process = subprocess.Popen(
                [*command, address, group, topics, *words],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                text=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        return cls(process)

    def command(self, text: str) -> None:
        """One of those of `our_crew.Commands`."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()

    def signal(self, number: signal.Signals) -> None:
        """Also to one that has ended by itself."""
        self.process.send_signal(number)

    def end(self) -> None:
        """SIGKILL, and its end."""
        self.process.kill()
        self.process.wait(END_S)
        assert self.process.stdin is not None
        self.process.stdin.close()
