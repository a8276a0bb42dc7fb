"""The anomalies of a history: each is seen in the smallest history that has it, and none in histories of a correct log. A
history of real clients on a broker that is killed: no anomaly, and a broker that loses records is seen."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from coterie.client import Admin
from coterie_conformance.histories.operation_history import (
    AnomalyKind,
    ClientOperation,
    OperationOutcome,
    PollStep,
    SendStep,
    anomalies,
)
from coterie_conformance.histories.workload import HistoryWorkload, WorkloadConfig
from tests.broker_process import BrokerProcess

P, Q = ("orders", 0), ("orders", 1)
DONE = OperationOutcome.COMMITTED
TOPIC, PARTITIONS = "judged", 3
ABORTS_SOON = ("--set", "transaction.abort.timed.out.transaction.cleanup.interval.ms=500")


def sent(
    value: str, offset: int = -1, *, by: str = "w", outcome: OperationOutcome = OperationOutcome.COMMITTED
) -> ClientOperation:
    return ClientOperation(by, (SendStep(P, value, offset),), outcome)


def polled(*records: tuple[int, str], by: str = "r", reassigned: bool = False) -> ClientOperation:
    return ClientOperation(by, (PollStep({P: records}),), reassigned=reassigned)


WRITTEN = (sent("a", 0), sent("b", 1))
HISTORIES = {
    AnomalyKind.INCONSISTENT_OFFSET: (*WRITTEN, polled((0, "a"), (1, "b")), polled((0, "a"), (1, "c"), by="s")),
    AnomalyKind.DUPLICATE: (*WRITTEN, polled((0, "a"), (1, "b"), (2, "a"))),
    AnomalyKind.LOST_WRITE: (*WRITTEN, polled((1, "b"))),
    AnomalyKind.UNSEEN: (*WRITTEN, polled((0, "a"))),
    AnomalyKind.ABORTED_READ: (sent("a", outcome=OperationOutcome.ABORTED), polled((0, "a"))),
    AnomalyKind.TORN: (
        ClientOperation("w", (SendStep(P, "a", 0), SendStep(Q, "b", 0)), OperationOutcome.UNKNOWN),
        polled((0, "a")),
    ),
    AnomalyKind.NONMONOTONIC_POLL: (*WRITTEN, polled((0, "a"), (1, "b")), polled((0, "a"))),
    AnomalyKind.SKIPPED: (
        *WRITTEN,
        sent("c", 2),
        polled((0, "a"), (1, "b"), (2, "c"), by="s"),
        polled((0, "a"), (2, "c")),
    ),
    AnomalyKind.NONMONOTONIC_SEND: (sent("b", 1), sent("a", 0), polled((0, "a"), (1, "b"))),
    AnomalyKind.CYCLE: (
        ClientOperation("x", (SendStep(P, "a", 0), PollStep({Q: ((0, "b"),)}))),
        ClientOperation("y", (SendStep(Q, "b", 0), PollStep({P: ((0, "a"),)}))),
    ),
}


def kinds(history: tuple[ClientOperation, ...]) -> set[AnomalyKind]:
    return {anomaly.kind for anomaly in anomalies(history, read_to_end=True)}


def test_every_kind_has_a_history() -> None:
    assert set(HISTORIES) == set(AnomalyKind)


@pytest.mark.parametrize("kind", AnomalyKind)
def test_the_anomaly_is_seen(kind: AnomalyKind) -> None:
    assert kinds(HISTORIES[kind]) == {kind}


def test_an_operation_of_unknown_outcome_may_have_happened_or_not() -> None:
    unknown = sent("a", outcome=OperationOutcome.UNKNOWN)
    assert kinds((unknown, polled())) == kinds((unknown, polled((0, "a")))) == set()


def test_an_unread_end_is_unseen_only_where_readers_reached_it() -> None:
    assert not anomalies((*WRITTEN, polled((0, "a"))))


def test_a_reassigned_consumer_may_go_back() -> None:
    assert not kinds((*WRITTEN, polled((0, "a"), (1, "b")), polled((0, "a"), reassigned=True)))


class Model:
    """A correct log: transactions are appended whole or not at all, and readers get what is committed, in order."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.log: dict[tuple[str, int], list[str | None]] = {P: [], Q: []}
        self.positions: dict[str, dict[tuple[str, int], int]] = {"r": {P: 0, Q: 0}, "s": {P: 0, Q: 0}}
        self.count = 0

    def write(self) -> ClientOperation:
        writer, outcome = self.rng.choice("wx"), self.rng.choice(tuple(OperationOutcome))
        happened = outcome is OperationOutcome.COMMITTED or (
            outcome is OperationOutcome.UNKNOWN and self.rng.random() < 0.5
        )
        sends = []
        for partition in self.rng.choices((P, Q), k=self.rng.randint(1, 4)):
            self.count += 1
            sends.append(SendStep(partition, f"{writer}{self.count}", len(self.log[partition])))
            self.log[partition].append(sends[-1].value if happened else None)
        return ClientOperation(writer, tuple(sends), outcome)

    def read(self, reader: str, most: int = 5) -> ClientOperation:
        positions = self.positions[reader]
        reassigned = self.rng.random() < 0.2
        if reassigned:
            for partition, position in positions.items():
                positions[partition] = self.rng.randint(0, position)
        records = {}
        for partition, position in positions.items():
            end = min(position + most, len(self.log[partition]))
            records[partition] = tuple(
                (offset, value) for offset in range(position, end) if (value := self.log[partition][offset]) is not None
            )
            positions[partition] = end
        return ClientOperation(reader, (PollStep(records),), reassigned=reassigned)

    def history(self) -> list[ClientOperation]:
        operations = [self.write() if self.rng.random() < 0.6 else self.read(self.rng.choice("rs")) for _ in range(40)]
        return [*operations, self.read("r", 1_000), self.read("s", 1_000)]


@pytest.mark.parametrize("seed", range(100))
def test_a_correct_log_has_no_anomaly(seed: int) -> None:
    assert not anomalies(Model(seed).history(), read_to_end=True)


def lose(operation: ClientOperation, value: str) -> ClientOperation:
    steps = tuple(
        PollStep({p: tuple(r for r in records if r[1] != value) for p, records in step.records.items()})
        if isinstance(step, PollStep)
        else step
        for step in operation.steps
    )
    return replace(operation, steps=steps)


def rename(operation: ClientOperation, value: str) -> ClientOperation:
    steps = tuple(
        PollStep(
            {p: tuple((o, "other" if v == value else v) for o, v in records) for p, records in step.records.items()}
        )
        if isinstance(step, PollStep)
        else step
        for step in operation.steps
    )
    return replace(operation, steps=steps)


@pytest.mark.parametrize("damage", [lose, rename])
@pytest.mark.parametrize("seed", range(50))
def test_a_value_that_readers_miss_is_seen(
    seed: int, damage: Callable[[ClientOperation, str], ClientOperation]
) -> None:
    model = Model(seed)
    history = model.history()
    committed = [s.value for o in history if o.outcome is DONE for s in o.steps if isinstance(s, SendStep)]
    victim = model.rng.choice(committed)
    assert anomalies([damage(operation, victim) for operation in history], read_to_end=True)


async def history_of(broker: BrokerProcess, wipe: Path | None = None) -> list[ClientOperation]:
    async def strike() -> None:
        broker.kill()
        if wipe is not None:
            damage(wipe)
        await asyncio.to_thread(broker.start)

    async with Admin({"bootstrap.servers": broker.address}) as admin:
        await admin.create_topic(TOPIC, PARTITIONS)
    config = WorkloadConfig(broker.address, TOPIC, PARTITIONS, transaction_timeout_ms=2_000)
    workload = HistoryWorkload(config, seed=1)
    return await workload.run(strike, strikes=3, every_s=1.0)


def damage(folder: Path) -> None:
    """The second half of one partition is gone: acknowledged records among it."""
    for file in sorted(folder.glob(f"{TOPIC}-0/*")):
        if file.suffix == ".log":
            data = file.read_bytes()
            file.write_bytes(data[: len(data) // 2])


def test_a_broker_that_is_killed_shows_no_anomaly(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data", *ABORTS_SOON)
    try:
        history = asyncio.run(history_of(broker))
    finally:
        broker.stop()
    assert not anomalies(history, read_to_end=True)
    assert len(history) > 100
    assert {operation.process for operation in history} >= {"t0", "t1", "p0", "p1", "r0", "r1", "last"}


def test_a_broker_that_loses_records_is_seen(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data", *ABORTS_SOON)
    try:
        history = asyncio.run(history_of(broker, tmp_path / "data"))
    finally:
        broker.stop()
    seen = {anomaly.kind for anomaly in anomalies(history, read_to_end=True)}
    assert seen & {AnomalyKind.LOST_WRITE, AnomalyKind.INCONSISTENT_OFFSET, AnomalyKind.TORN}, seen
