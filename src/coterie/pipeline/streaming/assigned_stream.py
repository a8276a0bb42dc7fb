"""Assign mode: a streaming reader whose offsets are in Spark's checkpoint; the group only receives commits.
Plain Python; `source.py` wraps it for Spark."""

from __future__ import annotations

from coterie.client.errors import KafkaError
from coterie.pipeline.offsets import EARLIEST, DataLossError, Offset, TopicOffsets, TopicPartition, as_json, from_json
from coterie.pipeline.options.options import SourceOptions
from coterie.pipeline.reading.planning import OffsetRange
from coterie.pipeline.reading.topics import TopicReader
from coterie.pipeline.streaming.admission import Admission, Limits


class AssignedStream:
    """One query's reader."""

    def __init__(self, options: SourceOptions) -> None:
        self.reader = TopicReader(options)
        self._options = options
        self._admission = Admission(options, self.reader)
        self._initial: TopicOffsets | None = None
        self._goal: dict[TopicPartition, int] | None = None
        self._committed: TopicOffsets | None = None
        self._ends: dict[TopicPartition, int] = {}
        self._topic_ids: dict[str, bytes] = {}
        self._start: Offset = {}
        self._replaced: set[TopicPartition] = set()  # of topics that were created again since that start

    def initial(self) -> TopicOffsets:
        """The first offset of each partition, the same each time."""
        # Called twice at a fresh start: both times the same, or "latest" could skip records.
        if self._initial is None:
            self._initial = as_json(self.reader.starting())
        return self._initial

    def until_now(self) -> None:
        """Trigger.AvailableNow: no further than what is there now."""
        self._goal = self.reader.ends()

    def latest(self, start: Offset, limits: Limits) -> Offset:
        """The end of the next batch, or ``start`` itself. By now Spark has finished everything before ``start``: the one
        place to commit."""
        before = from_json(parse(start))
        self.commit(start)
        if self._goal is not None and self._ends and self._goal == before:
            return start
        self._ends = self.reader.ends()
        self._check(before, self._ends)
        if start != self._start:
            self._start, self._replaced = start, set()
        before = self._without_replaced(before)
        ends = self._ends if self._goal is None else self._bounded(self._goal)
        added = self._beginnings(before, ends)
        self.reader.check_added({tp: first for tp, first in added.items() if tp not in self._replaced})
        begin = before | added
        # Of a topic that was made again, with failOnDataLoss=false: from where it is now.
        begin = {tp: min(begin[tp], self._ends[tp]) for tp in ends}
        taken = self._admission.admit(begin, ends, limits, now=self._goal is not None)
        # Without new records the text must be the same, or Spark makes an empty batch.
        return start if taken == from_json(start) else as_json(taken)

    def _bounded(self, goal: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {tp: min(end, self._ends[tp]) for tp, end in goal.items() if tp in self._ends}

    def _check(self, before: dict[TopicPartition, int], ends: dict[TopicPartition, int]) -> None:
        for (topic, partition), offset in before.items():
            end = ends.get((topic, partition))
            if end is None:
                self.reader.lost(f"{topic}-{partition} {self._why_absent(topic, partition)}")
            elif end < offset:
                self.reader.lost(f"{topic}-{partition} ends at {end}, before offset {offset}, where this query goes on")

    def _without_replaced(self, before: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Less those of topics that were deleted and created again since the last look, which are reported lost: their offsets
        are others, and they are new. The checkpoint has no ids, so that it is not seen while the query is down."""
        ids = {topic: self.reader.topic_id(topic) for topic, _ in self._ends}
        again = {topic for topic, topic_id in ids.items() if self._topic_ids.get(topic, topic_id) != topic_id}
        replaced = {tp for tp in before if tp[0] in again and tp in self._ends}
        for topic, partition in sorted(replaced):
            self.reader.lost(f"{topic} was deleted and created again, behind offset {before[topic, partition]}")
        self._topic_ids |= ids
        self._replaced |= replaced
        return {tp: offset for tp, offset in before.items() if tp not in self._replaced}

    def _why_absent(self, topic: str, partition: int) -> str:
        o = self._options
        numbers = o.assign.get(topic, ()) if o.assign else (partition,)
        if o.pattern is None and (topic not in (*o.subscribe, *o.assign) or partition not in numbers):
            return "is in the checkpoint and not read any more: give a query of other topics another checkpointLocation"
        return "is gone"

    def _beginnings(
        self, before: dict[TopicPartition, int], ends: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Partitions that are new since the checkpoint are read from their first record."""
        new = [tp for tp in ends if tp not in before]
        return self.reader.offsets_of(dict.fromkeys(new, EARLIEST)) if new else {}

    def plan(self, start: Offset, end: Offset) -> list[OffsetRange]:
        """The tasks of a batch."""
        before, ends = from_json(parse(start)), from_json(parse(end))
        before = {tp: offset for tp, offset in before.items() if tp not in self._replaced}
        begin = before | self._beginnings(before, ends)
        return self.reader.plan_ranges({tp: (begin[tp], last) for tp, last in ends.items()})

    def report(self) -> TopicOffsets:
        """The newest offsets there are, for the query's progress."""
        return as_json(self._ends)

    def commit(self, offsets: TopicOffsets) -> None:
        """Commits to the group, if there is one. A fault that lasts does not end the query: the next trigger commits again, and
        the checkpoint is the truth. Raises KafkaError for a refusal."""
        if self._options.group_id is None or offsets == self._committed or not offsets:
            return
        try:
            self.reader.commit(from_json(offsets))
        except KafkaError as error:
            if not error.retriable:
                raise
            return
        self._committed = offsets

    def leave(self) -> None:
        """Closes the connections; nothing is committed."""
        self.reader.close()


def parse(offset: Offset) -> TopicOffsets:
    """A checkpoint's offset. Raises DataLossError for one of group mode."""
    if "ranges" in offset:
        raise DataLossError(
            "this checkpoint was written with mode=group and cannot be resumed with mode=assign; "
            "set mode=group again, or give a new checkpointLocation and startingOffsets=committed"
        )
    offsets: TopicOffsets = offset
    return offsets
