"""The clients as programs, made ready once, and one of them while it runs.

A program's arguments are address, group, topic and group.protocol; it prints a line of JSON for every record that it reads
(``{"read": [partition, offset]}``) and each time that its assignment changes (``{"owned": [partition, ...]}``).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from coterie_conformance.clients.programs import PROGRAMS, environment
from coterie_conformance.servers.kafka import jars
from coterie_conformance.servers.programs import FRANZ_GO, go_program, java_program

HERE = Path(__file__).parent
KAFKA = "4.4.0"
END_S = 30.0


@dataclass(frozen=True, slots=True)
class MemberProgram:
    """A client; ``prepare`` builds it in a folder and returns its command. It raises CannotRun."""

    name: str
    prepare: Callable[[Path], list[str]]


def prepare_java(folder: Path) -> list[str]:
    """Raises CannotRun."""
    return java_program(HERE / "Member.java", jars(KAFKA), folder)


def prepare_go(_: Path) -> list[str]:
    """Raises CannotRun."""
    return [str(go_program(HERE / "member.go", f"github.com/twmb/franz-go/pkg/kgo@{FRANZ_GO}"))]


def prepare_confluent(_: Path) -> list[str]:
    """Raises CannotRun."""
    program = next(p for p in PROGRAMS if p.name == "confluent-kafka")
    return [environment(program)[0], str(HERE / "confluent_member.py")]


MEMBER_PROGRAMS = (
    MemberProgram(f"Java {KAFKA}", prepare_java),
    MemberProgram("confluent-kafka", prepare_confluent),
    MemberProgram("franz-go", prepare_go),
)


@dataclass(slots=True)
class RunningMember:
    """A member in a process of its own. ``owned`` as it last said; ``reads`` are (seconds of the monotonic clock, partition,
    offset)."""

    process: subprocess.Popen[str]
    protocol: str
    owned: list[int] = field(default_factory=list)
    reads: list[tuple[float, int, int]] = field(default_factory=list)
    _reader: threading.Thread | None = None

    @classmethod
    def start(cls, command: list[str], address: str, group: str, topic: str, protocol: str, log: Path) -> RunningMember:
        """``log`` takes its standard error."""
        with log.open("a") as errors:
            process = subprocess.Popen(
                [*command, address, group, topic, protocol],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        member = cls(process, protocol)
        member._reader = threading.Thread(target=member._take_in, daemon=True)
        member._reader.start()
        return member

    def _take_in(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                event = json.loads(line)
                if "read" in event:
                    self.reads.append((time.monotonic(), *event["read"]))
                else:
                    self.owned = event["owned"]

    def end(self, number: int = signal.SIGTERM) -> None:
        """By SIGTERM it leaves the group, by SIGKILL it does not; waits for its end and all that it printed."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self._reader is not None:
            self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.owned = []
