"""The cases of `spark_cases` asked of Spark's own connector and of coterie's source and sink, and compared."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from coterie.client import Admin, Producer
from coterie_conformance.spark.case_runner import run_case
from coterie_conformance.spark.cases import CASES, DELETED, T0_MS, TOPICS, SparkCase

OURS, THEIRS = "coterie", "kafka"  # the formats' names
Result = dict[str, Any]  # of run_case


def output_topic(source: str, number: int) -> str:
    """The topic into which case ``number`` writes, of either source."""
    return f"cases-out-{source}-{number}"


def make_topics(address: str, sources: Iterable[str]) -> None:
    """The topics that the cases read, and an empty one for each write. Raises KafkaError."""

    async def make() -> None:
        async with Admin({"bootstrap.servers": address}) as admin:
            for topic, sizes in TOPICS.items():
                await admin.create_topic(topic, len(sizes), {"retention.ms": "-1"})  # its records are from 2023
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


def expected_rows(case: SparkCase) -> list[str]:
    """The sorted rows of a case that reads: given ones, or ``PARTITION VALUE`` of its ranges."""
    if isinstance(case.rows, tuple):
        return sorted(case.rows)
    return sorted(f"{partition} {n}" for partition, (first, end) in case.rows.items() for n in range(first, end))


def as_dict(case: SparkCase) -> dict[str, Any]:
    """The case for the process of the connector's Spark, which imports nothing of coterie."""
    return asdict(case)


def compare(
    spark: Any, address: str, folder: Path, theirs: Sequence[Result], report: Callable[[str, str], None]
) -> dict[str, int]:
    """Asks ours each case, and compares with the case and with ``theirs``, the connector's results in the cases' order.
    ``report`` receives each case's name, and what is wrong or "". Returns how many cases there are of each outcome."""
    outcomes: Counter[str] = Counter()
    for number, (case, their) in enumerate(zip(CASES, theirs, strict=True)):
        our = run_case(spark, OURS, address, as_dict(case), output_topic(OURS, number), folder)
        wrong = _not_as_given(case, our) or _different(case, our, their)
        outcomes["wrong" if wrong else "accepted difference" if case.differs else "same"] += 1
        report(f"Spark's options, {case.use}: {case.name}", wrong)
    return dict(outcomes)


def _not_as_given(case: SparkCase, our: Result) -> str:
    if case.refused:
        refused = case.refused in our.get("refused", "")
        return "" if refused else f"ours is not refused with {case.refused!r}: {_short(our)}"
    right = our.get("rows") == expected_rows(case) and (not case.batches or our["batches"] == list(case.batches))
    return "" if right else f"ours: {_short(our)}"


def _different(case: SparkCase, our: Result, their: Result) -> str:
    same = ("refused" in our) == ("refused" in their) and our.get("rows") == their.get("rows")
    same = same and (not case.batches or our.get("batches") == their.get("batches"))
    if same == (not case.differs):
        return ""
    return f"the connector: {_short(their)}" if not same else "no longer different: take the reason out"


def _short(result: Result) -> str:
    if "refused" in result:
        return f"refused, {' '.join(result['refused'].split())[:200]}"
    return f"{len(result['rows'])} rows in batches of {result['batches']}, {', '.join(result['rows'][:3])}"
