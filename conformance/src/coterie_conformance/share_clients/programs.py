"""The share consumers as programs, made ready once, and one of them while it runs.

A program's arguments are address, group, topic and share.acknowledgement.mode. It reads a command a line and prints a line of
JSON for each: ``poll MS``, ``acknowledge PARTITION OFFSET TYPE``, ``renew PARTITION OFFSET``, ``commit``, ``close``.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coterie_conformance.clients.programs import PROGRAMS, environment
from coterie_conformance.servers.kafka import jars
from coterie_conformance.servers.programs import FRANZ_GO, go_program, java_program

HERE = Path(__file__).parent
LIMIT_S = 60.0  # of one command
Delivered = tuple[int, int, int, str]  # partition, offset, delivery count, value


@dataclass(frozen=True, slots=True)
class ShareProgram:
    """A client; ``prepare(version of Kafka, folder)`` builds it and returns its command. It raises CannotRun. ``renews``: the
    client can renew an acquisition lock."""

    name: str
    prepare: Callable[[str, Path], list[str]]
    renews: bool = True


def prepare_java(version: str, folder: Path) -> list[str]:
    """Raises CannotRun."""
    return java_program(HERE / "Sharer.java", jars(version), folder)


def prepare_ours(_: str, __: Path) -> list[str]:
    """A module of this environment."""
    return [sys.executable, str(HERE / "our_sharer.py")]


def prepare_confluent(_: str, __: Path) -> list[str]:
    """Raises CannotRun."""
    program = next(p for p in PROGRAMS if p.name == "confluent-kafka")
    return [environment(program)[0], str(HERE / "confluent_sharer.py")]


def prepare_go(_: str, __: Path) -> list[str]:
    """Raises CannotRun."""
    return [str(go_program(HERE / "sharer.go", f"github.com/twmb/franz-go/pkg/kgo@{FRANZ_GO}"))]


# The first is the judge.
SHARE_PROGRAMS = (
    ShareProgram("Java", prepare_java),
    ShareProgram("coterie", prepare_ours),
    ShareProgram("confluent-kafka", prepare_confluent, renews=False),
    ShareProgram("franz-go", prepare_go),
)


class RunningSharer:
    """A share consumer in a process of its own; ``log`` takes its standard error."""

    def __init__(self, command: list[str], address: str, group: str, topic: str, mode: str, log: Path) -> None:
        with log.open("a") as errors:
            self._process = subprocess.Popen(
                [*command, address, group, topic, mode],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        self._log = log
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self._lines.put(line)
        self._lines.put("")

    def ask(self, command: str) -> dict[str, Any]:
        """The result of a command. Raises AssertionError where none comes, or an error."""
        self.send(command)
        return self.receive()

    def send(self, command: str) -> None:
        """A command whose result is for `receive`."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, which `receive` reports
            self._process.stdin.write(f"{command}\n")
            self._process.stdin.flush()

    def has_responded(self) -> bool:
        """Whether `receive` would not wait."""
        return not self._lines.empty()

    def receive(self) -> dict[str, Any]:
        """The result of the command that was sent. Raises as `ask` does."""
        try:
            line = self._lines.get(timeout=LIMIT_S)
        except queue.Empty:
            raise AssertionError(f"no response within {LIMIT_S:g} s") from None
        assert line, f"the client has ended: {self._log.read_text().strip()[-300:]}"
        result: dict[str, Any] = json.loads(line)
        assert "error" not in result, f"the client raised {result['error']}"
        return result

    def poll(self, timeout_ms: int) -> list[Delivered]:
        """Records, in order."""
        return sorted((p, o, count, value) for p, o, count, value in self.ask(f"poll {timeout_ms}")["records"])

    def acknowledge(self, record: Delivered, kind: str = "ACCEPT") -> None:
        """Sent with the next poll or commit."""
        self.ask(f"acknowledge {record[0]} {record[1]} {kind}")

    def renew(self, record: Delivered) -> None:
        """Its acquisition lock begins again."""
        self.ask(f"renew {record[0]} {record[1]}")

    def commit(self) -> list[str]:
        """The errors of partitions."""
        failed: list[str] = self.ask("commit")["failed"]
        return failed

    def close(self) -> None:
        """In order: it leaves the group."""
        self.ask("close")
        self._end()

    def kill(self) -> None:
        """SIGKILL, also of one that has ended."""
        self._process.kill()
        self._end()

    def _end(self) -> None:
        self._process.wait(LIMIT_S)
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):  # of a command that it did not read
                    stream.close()
