"""A client's process in the laboratory, as a generator: it yields a request and gets the response, or a time to sleep."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

from coterie.laboratory.node.broker import LaboratoryBroker
from coterie.laboratory.node.connection import LaboratoryConnection
from coterie.laboratory.node.record_checker import RecordChecker, TopicPartition
from coterie.laboratory.world import World
from coterie.wire.declaration import Message

RECONNECT_MS = 200


@dataclass(frozen=True, slots=True)
class Request:
    """The response is sent back into the generator, or None where the connection broke."""

    message: Message
    version: int


@dataclass(frozen=True, slots=True)
class Sleep:
    """Nothing is sent back."""

    ms: int


Steps = Generator[Request | Sleep, Any, None]


class ClientProcess:
    """One request at a time; a subclass is its `_process`, which starts anew with each life. ``checker`` gets what it knows of
    the records of ``partitions``."""

    def __init__(
        self,
        world: World,
        broker: LaboratoryBroker,
        name: str,
        partitions: Sequence[TopicPartition],
        checker: RecordChecker,
    ) -> None:
        self.world, self.broker, self.name = world, broker, name
        self.partitions, self.checker = partitions, checker
        self.alive = False
        self._life = 0
        self._connection: LaboratoryConnection | None = None

    def _process(self) -> Steps:
        raise NotImplementedError

    def start(self) -> None:
        """Starts the process, if it is not alive: its steps begin anew."""
        if self.alive:
            return
        self.alive = True
        self._life += 1
        self._steps = self._process()
        self._resume(self._life, None)

    def crash(self) -> None:
        """What it has sent may still arrive."""
        self.alive = False
        self._life += 1
        self._connection = None

    def finish(self) -> None:
        """The end of a story."""
        self.crash()

    def _resume(self, life: int, response: Message | None) -> None:
        if not self.alive or self._life != life:
            return
        try:
            step = self._steps.send(response)
        except StopIteration:
            self.alive = False
            return
        if isinstance(step, Sleep):
            self.world.after(step.ms, lambda: self._resume(life, None))
        else:
            self._send(life, step)

    def _send(self, life: int, request: Request) -> None:
        if not self.alive or self._life != life:
            return
        connection = self._connection
        if connection is None or connection.broken:
            if not self.broker.up:
                self.world.after(RECONNECT_MS, lambda: self._send(life, request))
                return
            connection = self._connection = LaboratoryConnection(self.world, self.broker, self.name)
        connection.send(request.message, request.version, lambda response: self._resume(life, response))
