"""A streaming read, in either mode (`assigned_stream`, `group_stream`); `source.py` wraps it for Spark."""

from __future__ import annotations

from typing import Protocol

from coterie.pipeline.offsets import Offset
from coterie.pipeline.reading.planning import OffsetRange
from coterie.pipeline.streaming.admission import Limits


class QueryStream(Protocol):
    """One query's reader. Every method may raise KafkaError; a method with an offset as argument raises DataLossError
    for an offset of the other mode."""

    def initial(self) -> Offset:
        """The first offset of a query without a checkpoint; the same at each call."""

    def until_now(self) -> None:
        """Trigger.AvailableNow: read no further than what there is now."""

    def latest(self, start: Offset, limits: Limits) -> Offset:
        """The end of the next batch; ``start`` itself when there is none yet. Spark has finished all before ``start``."""

    def plan(self, start: Offset, end: Offset) -> list[OffsetRange]:
        """A batch's tasks."""

    def report(self) -> Offset:
        """The available records, for the query's progress."""

    def leave(self) -> None:
        """Closes connections, and leaves the group."""
