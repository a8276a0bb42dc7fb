"""Programs of producers and consumers at work, Apache Kafka's own (`ClusterLoad.java`) among them: what they observe, as
operations of a history."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from coterie_conformance.cluster.mixed import HEAP, VERSION
from coterie_conformance.histories.operation_history import (
    UNKNOWN_OFFSET,
    ClientOperation,
    OperationOutcome,
    PollStep,
    SendStep,
)
from coterie_conformance.servers.kafka import java

COMMITTED = "C "  # begins the line of a commit
END_S = 90.0  # the last records may wait for their delivery.timeout.ms


@dataclass(frozen=True, slots=True)
class JavaClients:
    """How many of each. Readers read everything again and again; members share the partitions in ``group``."""

    writers: int = 2
    readers: int = 1
    members: int = 0
    group: str = "-"


class ClientLoad:
    """A program of clients at work, which writes the lines of `ClusterLoad.java`. ``operations``: the history so far.
    ``polled`` is called from a thread with each partition that a poll had records of, ``committed`` after each commit."""

    def __init__(
        self,
        command: Sequence[str],
        topic: str,
        log: Path,
        polled: Callable[[int], None] = lambda partition: None,
        committed: Callable[[], None] = lambda: None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.operations: list[ClientOperation] = []
        self._topic, self._polled, self._committed = topic, polled, committed
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(COMMITTED):
                self._committed()
                continue
            operation = operation_of(self._topic, line)
            self.operations.append(operation)
            for step in operation.steps:
                if isinstance(step, PollStep):
                    for _, number in step.records:
                        self._polled(number)

    def end_writers(self) -> None:
        """The members go on."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def stop(self) -> list[ClientOperation]:
        """Ends the clients; the whole history. Raises subprocess.TimeoutExpired."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(END_S)
        self._reader.join(END_S)
        return self.operations

    def kill(self) -> None:
        """At the end of a check that has failed."""
        self._process.kill()
        self._process.wait()


class JavaLoad(ClientLoad):
    """Apache Kafka's own clients."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        clients: JavaClients,
        log: Path,
        polled: Callable[[int], None] = lambda partition: None,
        committed: Callable[[], None] = lambda: None,
    ) -> None:
        counts = map(str, (partitions, clients.writers, clients.readers, clients.members))
        source = Path(__file__).with_name("ClusterLoad.java")
        command = java(VERSION, str(source), bootstrap, topic, *counts, clients.group, heap=HEAP)
        super().__init__(command, topic, log, polled, committed)


def operation_of(topic: str, line: str) -> ClientOperation:
    """A line of `ClusterLoad.java`."""
    kind, process, *rest = line.split()
    if kind == "S":
        number, value, offset = rest
        send = SendStep((topic, int(number)), value, int(offset))
        outcome = OperationOutcome.UNKNOWN if send.offset == UNKNOWN_OFFSET else OperationOutcome.COMMITTED
        return ClientOperation(process, (send,), outcome)
    moved, *polled = rest
    records = {
        (topic, int(number)): tuple(_observed(text) for text in values.split(","))
        for number, values in zip(polled[::2], polled[1::2], strict=True)
    }
    return ClientOperation(process, (PollStep(records),), reassigned=moved == "1")


def _observed(text: str) -> tuple[int, str]:
    offset, _, value = text.partition(":")
    return int(offset), value
