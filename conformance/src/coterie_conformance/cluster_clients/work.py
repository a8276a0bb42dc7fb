"""What a program of a Python client does on a cluster: a producer writes counted values, members of a group read and commit.

The lines of stdout are those of `cluster/ClusterLoad.java`. Arguments: BOOTSTRAP TOPIC PARTITIONS MEMBERS GROUP. A line on
stdin ends the producer, the end of stdin the members too. Imports the standard library only: it runs in the environment of each
client.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

WINDOW = 8  # records at a time, each awaited
PAUSE_S = 0.15
UNKNOWN_OFFSET = -1
DELIVERY_S = 40.0
AGAIN_S = 0.5

Polled = Mapping[int, Sequence[tuple[int, str]]]  # by partition: offsets and values


class WorkingProducer(Protocol):
    """Raises errors of its client."""

    def send(self, partition: int, value: bytes) -> Callable[[], int]:
        """Returns what waits for the record's offset."""

    def close(self) -> None: ...


class PositionMoves:
    """Whether a member's positions have moved, by a rebalance: a new member begins with a move."""

    def __init__(self) -> None:
        self._have_moved = True

    def note(self) -> None:
        """The client's callbacks call it."""
        self._have_moved = True

    def take(self) -> bool:
        """Whether they have since the last call."""
        have_moved, self._have_moved = self._have_moved, False
        return have_moved


class WorkingMember(Protocol):
    """Raises errors of its client."""

    def poll(self) -> tuple[Polled, bool]:
        """The records, and whether positions have moved since the last poll."""

    def commit(self) -> None:
        """The positions after the records that polls have returned; returns once the coordinator has accepted them."""

    def close(self) -> None: ...


@dataclass(slots=True)
class GroupWork:
    """``name`` begins the names of the processes in the lines. ``new_member`` gets what notes its moves."""

    name: str
    partitions: int
    new_producer: Callable[[], WorkingProducer]
    new_member: Callable[[PositionMoves], WorkingMember]
    is_writing: bool = True
    is_reading: bool = True
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, members: int) -> None:
        """Returns at the end of stdin, when all clients are closed."""
        threads = [threading.Thread(target=self._produce)]
        threads += [threading.Thread(target=self._join, args=(number,)) for number in range(members)]
        for thread in threads:
            thread.start()
        sys.stdin.readline()
        self.is_writing = False
        while sys.stdin.readline():
            pass
        self.is_reading = False
        for thread in threads:
            thread.join()

    def _write(self, line: str) -> None:
        with self._lock:
            print(line, flush=True)

    def _complain(self, process: str, error: Exception) -> None:
        print(f"{time.strftime('%H:%M:%S')} {process}: {error!r}", file=sys.stderr, flush=True)

    # -- the producer ---------------------------------------------------------------------------------------------------

    def _produce(self) -> None:
        """A producer that has failed to deliver is replaced."""
        process, rng, count = f"{self.name}-writer-0", random.Random(0), 0
        while self.is_writing:
            try:
                producer = self.new_producer()
            except Exception as error:
                self._complain(process, error)
                time.sleep(AGAIN_S)
                continue
            is_usable = True
            while is_usable and self.is_writing:
                numbers = range(count, count + rng.randint(1, WINDOW))
                count = numbers.stop
                window = [(rng.randrange(self.partitions), f"{process}-{number}") for number in numbers]
                is_usable = self._deliver(process, producer, window)
                time.sleep(rng.random() * PAUSE_S)
            self._close(process, producer.close)

    def _deliver(self, process: str, producer: WorkingProducer, window: Sequence[tuple[int, str]]) -> bool:
        waits: list[Callable[[], int] | None] = []
        for partition, value in window:
            try:
                waits.append(producer.send(partition, value.encode()))
            except Exception as error:
                self._complain(process, error)
                waits.append(None)
        offsets = [self._offset(process, wait) for wait in waits]
        for (partition, value), offset in zip(window, offsets, strict=True):
            self._write(f"S {process} {partition} {value} {offset}")
        return UNKNOWN_OFFSET not in offsets

    def _offset(self, process: str, wait: Callable[[], int] | None) -> int:
        try:
            return UNKNOWN_OFFSET if wait is None else wait()
        except Exception as error:
            self._complain(process, error)
            return UNKNOWN_OFFSET

    def _close(self, process: str, close: Callable[[], None]) -> None:
        try:
            close()
        except Exception as error:
            self._complain(process, error)

    # -- members --------------------------------------------------------------------------------------------------------

    def _join(self, number: int) -> None:
        """A member whose poll fails is replaced."""
        process = f"{self.name}-member-{number}"
        while self.is_reading:
            try:
                member = self.new_member(PositionMoves())
            except Exception as error:
                self._complain(process, error)
                time.sleep(AGAIN_S)
                continue
            try:
                self._read(process, member)
            except Exception as error:
                self._complain(process, error)
            self._close(process, member.close)

    def _read(self, process: str, member: WorkingMember) -> None:
        is_uncommitted = False
        while self.is_reading:
            polled, has_moved = member.poll()
            if polled or has_moved:
                words = ["P", process, str(int(has_moved))]
                for partition, records in polled.items():
                    words += [str(partition), ",".join(f"{offset}:{value}" for offset, value in records)]
                self._write(" ".join(words))
            is_uncommitted = bool(polled) or (is_uncommitted and not has_moved)
            if is_uncommitted:
                is_uncommitted = not self._is_committed(process, member)

    def _is_committed(self, process: str, member: WorkingMember) -> bool:
        try:
            member.commit()
        except Exception as error:  # a rebalance, or no coordinator: the next commit has these offsets too
            self._complain(process, error)
            return False
        self._write(f"C {process}")
        return True
