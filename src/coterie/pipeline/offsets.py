"""Offsets by partition: as the pipeline computes with them, and as the JSON that Spark keeps in its checkpoint; and the error
of offsets whose records are gone."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

EARLIEST, LATEST = -2, -1  # instead of an offset: in ListOffsets, and in the JSON of options

TopicPartition = tuple[str, int]
Offset = dict[str, Any]  # what Spark keeps: TopicOffsets in assign mode, the ranges of a batch in group mode
TopicOffsets = dict[str, dict[str, int]]  # topic -> partition (as text) -> offset


class DataLossError(RuntimeError):
    """Records that were to be read are no longer there (failOnDataLoss)."""


def as_json(offsets: Mapping[TopicPartition, int]) -> TopicOffsets:
    """Sorted, because Spark compares offsets by their text."""
    by_topic: TopicOffsets = {}
    for (topic, partition), offset in sorted(offsets.items()):
        by_topic.setdefault(topic, {})[str(partition)] = offset
    return by_topic


def from_json(offsets: TopicOffsets) -> dict[TopicPartition, int]:
    """Spark's JSON of offsets, ``{topic: {"0": offset}}``, by partition."""
    return {(topic, int(p)): offset for topic, by in offsets.items() for p, offset in by.items()}


def id_text(topic_id: bytes) -> str:
    """A topic's id as Kafka prints it: base64 for URLs, without padding (org.apache.kafka.common.Uuid)."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
