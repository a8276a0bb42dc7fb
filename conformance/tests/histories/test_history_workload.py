"""A history of real clients on a broker that is killed: no anomaly, and a broker that loses records is seen."""

from __future__ import annotations

import asyncio
from pathlib import Path

from coterie.client import Admin
from coterie_conformance.histories.operation_history import AnomalyKind, ClientOperation, anomalies
from coterie_conformance.histories.workload import HistoryWorkload, WorkloadConfig
from tests.broker_process import BrokerProcess

TOPIC, PARTITIONS = "judged", 3
ABORTS_SOON = ("--set", "transaction.abort.timed.out.transaction.cleanup.interval.ms=500")


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
