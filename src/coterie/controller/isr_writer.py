"""Leaders' changes of ISRs, written to ZooKeeper one after another (Kafka's ZkPartitionStateStore and IsrChangePropagator)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from coterie.controller import nodes
from coterie.controller.session_script import SessionScript
from coterie.machines.script import Steps, Wait
from coterie.replication.states import PartitionState, TopicPartition, WriteIsr
from coterie.zookeeper import paths
from coterie.zookeeper.operations import (
    BadVersion,
    NoNode,
    Read,
    SessionExpired,
    Write,
    Znode,
)

QUIET_MS = 5_000  # changes are propagated once they pause for so long
PROPAGATED_AT_LEAST_MS = 60_000  # or so long after the last propagation


@dataclass(frozen=True, slots=True)
class IsrWritten:
    """Effect: the node has the state, in that version."""

    write: WriteIsr
    version: int


@dataclass(frozen=True, slots=True)
class IsrRefused:
    """Effect: another has written the node. ``current``: what it holds now, where that could be read."""

    write: WriteIsr
    current: PartitionState | None = None


class IsrWriter(SessionScript):
    """One for each broker. Inputs beside those of a SessionScript: `write`, `expired`, `registered`. A write ends with the
    session in which the leader was given its role: later its path may be that of another topic of that name, and its version
    one of that topic's. Kafka 2.6 repeats it in the next session."""

    def __init__(self, now_ms: int) -> None:
        super().__init__(self._life(), now_ms)
        self._writes: deque[WriteIsr] = deque()
        self._changed: set[TopicPartition] = set()
        self._propagated_ms = self._changed_ms = now_ms
        self._is_registered = True

    def expired(self) -> None:
        """The session is over."""
        self._is_registered = False
        self.nudge()

    def registered(self) -> None:
        """The broker is registered again, without roles."""
        self._writes.clear()
        self._is_registered = True
        self.nudge()

    def is_over(self) -> bool:
        return not self._is_registered

    def write(self, effect: WriteIsr) -> None:
        assert effect.state.leader in effect.state.isr, "a leader is in its ISR"
        self._writes.append(effect)
        self.nudge()

    def _life(self) -> Steps[None]:
        while True:
            due_ms = min(self._changed_ms + QUIET_MS, self._propagated_ms + PROPAGATED_AT_LEAST_MS)
            try:
                if not self._is_registered:
                    yield Wait(None)
                elif self._writes:
                    yield from self._write(self._writes.popleft())
                elif self._changed and self.now_ms >= due_ms:
                    yield from self._propagate()
                else:
                    yield Wait(due_ms if self._changed else None)
            except SessionExpired:
                self._changed.clear()

    def _write(self, effect: WriteIsr) -> Steps[None]:
        """A refusal may be the echo of a write whose response was lost: then the node holds it."""
        state = effect.state
        try:
            held = yield from self._written(effect.partition, state)
        except SessionExpired:
            yield IsrRefused(effect)
            return
        if held is None or nodes.state(held) != nodes.state(state):
            yield IsrRefused(effect, held)
            return
        self._changed.add(effect.partition)
        self._changed_ms = self.now_ms
        yield IsrWritten(effect, held.version)

    def _written(self, partition: TopicPartition, state: PartitionState) -> Steps[PartitionState | None]:
        """-> what the node holds now."""
        path = paths.partition_state(*partition)
        try:
            yield from self.perform(Write(path, nodes.state(state), state.version))
        except (BadVersion, NoNode):
            node: Znode | None = yield from self.perform(Read(path))
            return None if node is None else nodes.state_of(node, state.replicas)
        return replace(state, version=state.version + 1)

    def _propagate(self) -> Steps[None]:
        yield from self.perform(nodes.isr_change(self._changed))
        self._changed, self._propagated_ms = set(), self.now_ms
