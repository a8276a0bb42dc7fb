"""Where a query in group mode begins a partition of which its group has no offset.

startingOffsets is for the partitions that are there when the query starts, and for a group that has committed none of them:
it is looked up then, before the member joins. A partition that comes later is read from its first record, whatever the option
says, as Spark's own connector has it (KafkaMicroBatchStream.planInputPartitions): nobody could have read it before. So is
one that the group has left out while it read others, for instance one that was added while no member was there.
"""

from __future__ import annotations

from collections.abc import Iterable

from coterie.pipeline.offsets import EARLIEST, TopicPartition
from coterie.pipeline.reading.topics import TopicReader


class Beginnings:
    """Of one query."""

    def __init__(self, reader: TopicReader) -> None:
        self._reader = reader
        self._present: dict[TopicPartition, bytes] = {}  # with the ids of their topics: there when the query started
        self._starting: dict[TopicPartition, int] = {}  # by the options

    def query_starts(self, *, resumes: bool) -> None:
        """To be called before the member joins. ``resumes``: from a checkpoint. Raises KafkaError, and DataLossError where no
        record has the starting timestamp."""
        reader, options = self._reader, self._reader.options
        partitions = reader.partitions(missing_allowed=True)
        self._present = {tp: reader.topic_id(tp[0]) for tp in partitions}
        is_earliest = options.starting_timestamps is None and options.starting == "earliest"
        if resumes or is_earliest or any(offset >= 0 for offset in reader.committed(partitions).values()):
            return
        self._starting = reader.beginning(partitions)

    def of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each. Raises DataLossError where the first records of a later one are deleted already."""
        wanted = list(partitions)
        ids = self._reader.look_at(topic for topic, _ in wanted)
        later = [tp for tp in wanted if self._present.get(tp) != ids[tp[0]]]
        known = {tp: self._starting[tp] for tp in wanted if tp in self._starting and tp not in later}
        others = dict.fromkeys((tp for tp in wanted if tp not in known), EARLIEST)
        first = self._reader.offsets_of(others) if others else {}
        self._reader.check_added({tp: first[tp] for tp in later})
        return known | first
