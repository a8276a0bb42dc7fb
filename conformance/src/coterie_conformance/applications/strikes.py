"""What an application goes through, and what it made of it: its processes and its broker are killed in turn, in an order
that a seed draws; and the verdict on the lines that it was given."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from coterie.text.addresses import format_address
from coterie_conformance.histories.workload import KillableBroker
from coterie_conformance.servers.programs import JavaProcess

STRIKE_EVERY_S, DOWN_S = 8.0, 2.0
STRIKES_EACH = 2
BROKER = "broker"


class ApplicationStrikes:
    """For the length of a with-block ``broker`` runs; at its end ``processes``, by name, are stopped, and then the broker.
    Its methods block."""

    def __init__(self, broker: KillableBroker, rng: random.Random) -> None:
        self._broker, self._rng = broker, rng
        self.processes: dict[str, JavaProcess] = {}

    def __enter__(self) -> ApplicationStrikes:
        """Raises CannotRun."""
        self._broker.start()
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes.values():
            process.stop()
        self._broker.stop()

    @property
    def server(self) -> str:
        """The broker's HOST:PORT; of a cluster that of one broker, which names the others."""
        return format_address(*self._broker.address)

    def start(self) -> None:
        """All processes."""
        for process in self.processes.values():
            process.start()

    def order(self) -> tuple[str, ...]:
        """Each process and the broker `STRIKES_EACH` times, shuffled."""
        names = [BROKER, *self.processes] * STRIKES_EACH
        self._rng.shuffle(names)
        return tuple(names)

    def strike(self, name: str) -> None:
        """SIGKILL, and a start: of a process after `DOWN_S`. Raises CannotRun."""
        if name == BROKER:
            self._broker.kill()
            self._broker.start()
            return
        process = self.processes[name]
        process.kill()
        time.sleep(DOWN_S)
        process.start()


@dataclass(frozen=True, slots=True)
class ApplicationVerdict:
    """``strikes`` are who was killed, in order; ``sent`` counts lines; ``wrong`` is empty where all is right."""

    strikes: tuple[str, ...]
    sent: int
    wrong: tuple[str, ...]
