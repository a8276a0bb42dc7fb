"""What clients observed of partitions, as a history of operations, and the anomalies in it.

The rules are those of Jepsen's workload for Kafka (jepsen.io/analyses/redpanda-21.10.1, bufstream-0.1.0): a value is written at
most once by its client, so a reader knows which operation wrote what it reads. Orders of writes by two transactions are no
anomaly: Kafka isolates only what `read_committed` readers see.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from graphlib import CycleError, TopologicalSorter

TopicPartition = tuple[str, int]
Observed = tuple[int, str]  # offset, value
UNKNOWN_OFFSET = -1


class OperationOutcome(Enum):
    """The outcome of an operation, as its client knows it. UNKNOWN: no response came, or one that leaves it open."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class SendStep:
    """One record. ``offset``: UNKNOWN_OFFSET where no acknowledgement named it."""

    partition: TopicPartition
    value: str
    offset: int = UNKNOWN_OFFSET


@dataclass(frozen=True, slots=True)
class PollStep:
    """What one poll returned, by partition."""

    records: Mapping[TopicPartition, tuple[Observed, ...]]


@dataclass(frozen=True, slots=True)
class ClientOperation:
    """One transaction, or one request without a transaction, of ``process``, a thread of one client. ``reassigned``: positions
    moved before it, by a rebalance or a seek, so that it may read anything again."""

    process: str
    steps: tuple[SendStep | PollStep, ...]
    outcome: OperationOutcome = OperationOutcome.COMMITTED
    reassigned: bool = False


class AnomalyKind(Enum):
    """The name of an anomaly, and what it is."""

    INCONSISTENT_OFFSET = "two values at one offset"
    DUPLICATE = "one value at two offsets"
    LOST_WRITE = "a committed value that no poll returned, though one returned a later offset"
    UNSEEN = "a committed value that no poll returned"
    ABORTED_READ = "a value of an aborted transaction"
    TORN = "a part of a transaction"
    NONMONOTONIC_POLL = "a consumer went back without a rebalance"
    SKIPPED = "a consumer left a value out without a rebalance"
    NONMONOTONIC_SEND = "a later send at a lower offset"
    CYCLE = "transactions that each read what the next one wrote"


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One finding; ``detail`` names partition, offsets and values."""

    kind: AnomalyKind
    detail: str

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.detail}"


@dataclass(slots=True)
class _Partition:
    """All that the history shows of one partition."""

    values: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    offsets: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    read: set[str] = field(default_factory=set)
    highest_read: int = UNKNOWN_OFFSET

    def observe(self, offset: int, value: str) -> None:
        self.values[offset].add(value)
        self.offsets[value].add(offset)

    def read_between(self, before: int, after: int) -> list[int]:
        """The offsets between the two whose values some poll returned."""
        return [offset for offset in range(before + 1, after) if self.values.get(offset, set()) & self.read]


def anomalies(history: Iterable[ClientOperation], *, read_to_end: bool = False) -> list[Anomaly]:
    """Every anomaly of a history in which each process's operations stand in its own order. ``read_to_end``: the last polls
    reached the ends of all partitions, so that an unseen value is one too."""
    operations = list(history)
    partitions = _partitions(operations)
    results = [*_of_logs(partitions), *_of_writes(operations, partitions, read_to_end=read_to_end)]
    for process in dict.fromkeys(operation.process for operation in operations):
        own = [operation for operation in operations if operation.process == process]
        results += [*_of_sends(own), *_of_polls(own, partitions)]
    return [*results, *_cycles(operations)]


def _partitions(operations: list[ClientOperation]) -> dict[TopicPartition, _Partition]:
    partitions: dict[TopicPartition, _Partition] = defaultdict(_Partition)
    for operation in operations:
        for step in operation.steps:
            if isinstance(step, SendStep):
                if step.offset >= 0 and operation.outcome is not OperationOutcome.ABORTED:
                    partitions[step.partition].observe(step.offset, step.value)
                continue
            for name, records in step.records.items():
                partition = partitions[name]
                for offset, value in records:
                    partition.observe(offset, value)
                    partition.read.add(value)
                    partition.highest_read = max(partition.highest_read, offset)
    return partitions


def _of_logs(partitions: Mapping[TopicPartition, _Partition]) -> Iterator[Anomaly]:
    for name, partition in partitions.items():
        for offset, values in partition.values.items():
            if len(values) > 1:
                yield Anomaly(AnomalyKind.INCONSISTENT_OFFSET, f"{_text(name)} offset {offset}: {_list(values)}")
        for value, offsets in partition.offsets.items():
            if len(offsets) > 1:
                yield Anomaly(AnomalyKind.DUPLICATE, f"{_text(name)}: {value} at {_list(offsets)}")


def _of_writes(
    operations: list[ClientOperation], partitions: Mapping[TopicPartition, _Partition], *, read_to_end: bool
) -> Iterator[Anomaly]:
    for operation in operations:
        sends = [step for step in operation.steps if isinstance(step, SendStep)]
        seen = [send for send in sends if send.value in partitions[send.partition].read]
        if operation.outcome is OperationOutcome.ABORTED:
            for send in seen:
                yield Anomaly(AnomalyKind.ABORTED_READ, f"{_text(send.partition)}: {send.value}")
            continue
        if operation.outcome is OperationOutcome.UNKNOWN and not seen:
            continue
        for send in sends:
            is_passed = 0 <= send.offset < partitions[send.partition].highest_read
            if send not in seen and (is_passed or read_to_end):
                kind = AnomalyKind.LOST_WRITE if is_passed else AnomalyKind.UNSEEN
                detail = f"{_text(send.partition)}: {send.value}, sent to offset {send.offset}"
                yield Anomaly(AnomalyKind.TORN if seen else kind, detail)


def _of_sends(operations: list[ClientOperation]) -> Iterator[Anomaly]:
    """Acknowledged offsets of one process rise."""
    latest: dict[TopicPartition, SendStep] = {}
    for operation in operations:
        for send in operation.steps:
            if not isinstance(send, SendStep) or send.offset < 0:
                continue
            before = latest.get(send.partition)
            if before is not None and send.offset <= before.offset:
                detail = (
                    f"{_text(send.partition)}: {before.value} at {before.offset}, then {send.value} at {send.offset}"
                )
                yield Anomaly(AnomalyKind.NONMONOTONIC_SEND, detail)
            latest[send.partition] = send


def _of_polls(operations: list[ClientOperation], partitions: Mapping[TopicPartition, _Partition]) -> Iterator[Anomaly]:
    """Offsets that one process reads rise and leave out no offset that any process read, unless positions moved."""
    latest: dict[TopicPartition, int] = {}
    for operation in operations:
        if operation.reassigned:
            latest.clear()
        for name, offset in _polled(operation):
            before = latest.get(name, offset - 1)
            if offset <= before:
                yield Anomaly(AnomalyKind.NONMONOTONIC_POLL, f"{_text(name)}: offset {before}, then {offset}")
            elif skipped := partitions[name].read_between(before, offset):
                detail = f"{_text(name)}: offset {before}, then {offset}, without {_list(skipped)}"
                yield Anomaly(AnomalyKind.SKIPPED, detail)
            latest[name] = offset


def _polled(operation: ClientOperation) -> Iterator[tuple[TopicPartition, int]]:
    for step in operation.steps:
        if isinstance(step, PollStep):
            for name, records in step.records.items():
                yield from ((name, offset) for offset, _ in records)


def _cycles(operations: list[ClientOperation]) -> Iterator[Anomaly]:
    """G1c by reads alone: each operation depends on those whose values it read."""
    writer = {
        (step.partition, step.value): number
        for number, operation in enumerate(operations)
        for step in operation.steps
        if isinstance(step, SendStep)
    }
    reads: dict[int, set[int]] = {}
    for number, operation in enumerate(operations):
        polls = [step for step in operation.steps if isinstance(step, PollStep)]
        values = ((name, value) for poll in polls for name, records in poll.records.items() for _, value in records)
        reads[number] = {writer[key] for key in values if key in writer} - {number}
    try:
        TopologicalSorter(reads).prepare()
    except CycleError as error:
        cycle: list[int] = error.args[1]
        chain = " <- ".join(operations[number].process for number in cycle)
        yield Anomaly(AnomalyKind.CYCLE, f"operations of {chain}")


def _text(partition: TopicPartition) -> str:
    return f"{partition[0]}-{partition[1]}"


def _list(items: Iterable[object]) -> str:
    return ", ".join(str(item) for item in sorted(items, key=str))
