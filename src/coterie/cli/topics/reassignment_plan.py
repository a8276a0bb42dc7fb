"""The plan of `coterie topics reassign`: which brokers shall hold each partition, in the JSON of kafka-reassign-partitions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from coterie.controller.assignment import assign_replicas
from coterie.text.quantity import quantity

if TYPE_CHECKING:
    from coterie.cli.parts.json_documents import ReassignmentPlan
    from coterie.client import TopicPartition

FORM = '{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2]}]}'
ANY_DISK = "any"


def plan_over(
    brokers: Sequence[int], now: Mapping[TopicPartition, Sequence[int]], replication_factor: int | None
) -> dict[TopicPartition, list[int]]:
    """Each partition of ``now`` with replicas on these brokers alone, as many as now or as ``replication_factor``; leaders go
    round. Raises UsageError where the brokers are too few."""
    topics = sorted({topic for topic, _ in now})
    plan: dict[TopicPartition, list[int]] = {}
    for partition, replicas in sorted(now.items()):
        factor = replication_factor or len(replicas)
        if factor > len(brokers):
            wanted = f"{_name(partition)} shall have {quantity(factor, 'replica')}"
            raise click.UsageError(
                f"{wanted}: name so many brokers in --brokers, or fewer replicas in --replication-factor."
            )
        start = topics.index(partition[0])
        assigned = assign_replicas(brokers, partition[1] + 1, factor, start_index=start, shift=start)
        plan[partition] = list(assigned[partition[1]])
    return plan


def plan_of(text: str, source: str) -> dict[TopicPartition, list[int]]:
    """The plan of the JSON in ``source``. Raises UsageError for JSON that is not a plan, or names a disk."""
    from coterie.client import TopicPartition

    try:
        rows = json.loads(text)["partitions"]
        plan: dict[TopicPartition, list[int]] = {}
        for row in rows:
            topic, number, replicas = row["topic"], row["partition"], row["replicas"]
            if not isinstance(topic, str) or not all(_is_id(value) for value in (number, *replicas)) or not replicas:
                raise TypeError
            if any(disk != ANY_DISK for disk in row.get("log_dirs", [])):
                raise click.UsageError(
                    f"{source} names disks in log_dirs; replicas move between brokers here: leave it out."
                )
            plan[TopicPartition(topic, number)] = list(replicas)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise click.UsageError(f"{source} is not a reassignment plan; it must be JSON such as {FORM}.") from None
    if len(plan) < len(rows) or not plan:
        problem = "names a partition twice" if plan else "names no partition"
        raise click.UsageError(f"{source} {problem}.")
    return plan


def _is_id(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**31


def plan_document(plan: Mapping[TopicPartition, Sequence[int]]) -> ReassignmentPlan:
    """As `plan_of` reads it."""
    rows = [{"topic": topic, "partition": number, "replicas": list(ids)} for (topic, number), ids in plan.items()]
    return {"version": 1, "partitions": rows}  # type: ignore[typeddict-item]


def _name(partition: TopicPartition) -> str:
    return f"{partition[0]}-{partition[1]}"
