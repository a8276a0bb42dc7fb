"""The cases of `spark_cases` asked of Spark's own connector and of coterie's source and sink, and compared."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from coterie.client import Admin, Producer
from coterie.conformance.spark_case_runner import run_case
from coterie.conformance.spark_cases import CASES, DELETED, T0_MS, TOPICS, Case

OURS, THEIRS = "coterie", "kafka"


def output_topic(source: str, number: int) -> str:
    return f"cases-out-{source}-{number}"


def make_topics(address: str, sources: Iterable[str]) -> None:
    """The topics that the cases read, and an empty one for each write. Raises KafkaError."""

    async def make() -> None:
        async with Admin({"bootstrap.servers": address}) as admin:
            for topic, sizes in TOPICS.items():
                await admin.create_topic(topic, len(sizes))
            for number, case in enumerate(CASES):
                if case.use == "write":
                    for source in sources:
                        await admin.create_topic(output_topic(source, number), 1)
            async with Producer({"bootstrap.servers": address}) as producer:
                for topic, sizes in TOPICS.items():
                    for partition, size in enumerate(sizes):
                        for n in range(size):
                            at_ms = T0_MS + 1000 * n
                            await producer.send(topic, b"v%d" % n, b"k", partition=partition, timestamp_ms=at_ms)
            await admin.delete_records(DELETED)

    asyncio.run(make())


def expected_rows(case: Case) -> list[str]:
    if isinstance(case.rows, tuple):
        return sorted(case.rows)
    return sorted(f"{partition} {n}" for partition, (first, end) in case.rows.items() for n in range(first, end))


def as_dict(case: Case) -> dict[str, Any]:
    return asdict(case)


def run_ours(spark: Any, address: str, case: Case, folder: Path) -> dict[str, Any]:
    return run_case(spark, OURS, address, as_dict(case), output_topic(OURS, CASES.index(case)), folder)
