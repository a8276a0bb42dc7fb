"""Part `histories`: clients write down what they observe while a broker is killed again and again, and the history is searched
for anomalies. The same is done with coterie and with Apache Kafka, which shows what the search is worth."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from coterie.client import Admin
from coterie.text.addresses import format_address
from coterie_conformance.histories.operation_history import Anomaly, ClientOperation, PollStep, SendStep, anomalies
from coterie_conformance.histories.workload import HistoryWorkload, WorkloadConfig
from coterie_conformance.servers.coterie_process import CoterieBroker
from coterie_conformance.servers.kafka import KafkaBroker

TOPIC, PARTITIONS = "histories", 4
KILLS, KILLED_EVERY_S = 5, 6.0
ABORT_INTERVAL = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"}


class KillableBroker(Protocol):
    """A broker that keeps its data and its address when it is killed and started again."""

    address: tuple[str, int]

    def start(self) -> None: ...

    def kill(self) -> None: ...

    def stop(self) -> None: ...


def coterie_broker(folder: Path, settings: Mapping[str, str] | None = None) -> CoterieBroker:
    """A broker of ours on that folder."""
    return CoterieBroker(folder, {**ABORT_INTERVAL, **(settings or {})})


@dataclass(frozen=True, slots=True)
class JudgedHistory:
    """``sent`` and ``read`` count records."""

    kills: int
    operations: int
    sent: int
    read: int
    anomalies: tuple[Anomaly, ...]


def kafka_broker(version: str, folder: Path, settings: Mapping[str, str] | None = None) -> KafkaBroker:
    """Raises CannotRun."""
    return KafkaBroker(version, folder, {**ABORT_INTERVAL, **(settings or {})})


def judge(broker: KillableBroker, seed: int) -> JudgedHistory:
    """Runs the workload on ``broker``, which is started here and stopped. Raises CannotRun, TimeoutError."""
    try:
        broker.start()
        history = asyncio.run(_history(broker, seed))
    finally:
        broker.stop()
    steps = [step for operation in history for step in operation.steps]
    read = sum(len(records) for step in steps if isinstance(step, PollStep) for records in step.records.values())
    sent = sum(isinstance(step, SendStep) for step in steps)
    return JudgedHistory(KILLS, len(history), sent, read, tuple(anomalies(history, read_to_end=True)))


async def _history(broker: KillableBroker, seed: int) -> list[ClientOperation]:
    address = format_address(*broker.address)

    async def strike() -> None:
        broker.kill()
        await asyncio.to_thread(broker.start)

    async with Admin({"bootstrap.servers": address}) as admin:
        await admin.create_topic(TOPIC, PARTITIONS)
    return await HistoryWorkload(WorkloadConfig(address, TOPIC, PARTITIONS), seed).run(strike, KILLS, KILLED_EVERY_S)
