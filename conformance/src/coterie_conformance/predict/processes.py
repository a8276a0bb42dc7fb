"""The processes of real members: a program for each client, of which a process has all members, or one that is to be killed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Protocol

from coterie_conformance.clients.programs import PROGRAMS, environment
from coterie_conformance.servers.kafka import jars
from coterie_conformance.servers.programs import java_program

HERE = Path(__file__).parent
JAVA_OLD, JAVA_NEW, LIBRDKAFKA, OURS = "Java 3.9.1", "Java 4.3.0", "librdkafka", "coterie"


def members_command(client: str, folder: Path) -> list[str]:
    """The program of a client's members, without its argument. Raises CannotRun."""
    if client == OURS:
        return [sys.executable, "-m", "coterie_conformance.predict.our_members"]
    if client == LIBRDKAFKA:
        program = next(p for p in PROGRAMS if p.name == "confluent-kafka")
        return [environment(program)[0], str(HERE / "confluent_members.py")]
    lib, classes = jars(client.removeprefix("Java ")), folder / client.replace(" ", "-")
    return java_program(HERE / "Members.java", lib, classes, log_level="error")


class MemberOutput(Protocol):
    """Takes what members print."""

    def owns(self, name: str, time_ms: int, partitions: set[int]) -> None:
        """A member has these partitions now."""

    def reads(self, name: str, partition: int, first: int, last: int) -> None:
        """A member was given the records from one offset to another."""


class ClientProcess:
    """The members of one client, or one of them, whose lines ``output`` takes."""

    def __init__(self, command: Sequence[str], log: Path, output: MemberOutput) -> None:
        with log.open("a") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, bufsize=1
            )
        self._output = output
        self.listening: Awaitable[None] | None = None  # `listen` in its thread

    def order(self, *words: str) -> None:
        """Sends a command."""
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()

    def listen(self) -> None:
        """Until the process ends; in a thread."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                fields = json.loads(line)
                if "owned" in fields:
                    self._output.owns(fields["name"], fields["ms"], set(fields["owned"]))
                for partition, (first, last) in fields.get("read", {}).items():
                    self._output.reads(fields["name"], int(partition), first, last)

    async def killed(self) -> None:
        """Ends it at once; what it had printed is taken."""
        self.end()
        if self.listening is not None:
            await self.listening

    def end(self) -> None:
        """Its members leave no group."""
        self._process.kill()
        self._process.wait()
