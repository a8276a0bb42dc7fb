"""Group mode: what a streaming reader does that is a member of a group. Plain Python; `source.py` wraps it for Spark.

An offset names the ranges of its batch, so that a batch can be
planned again whatever the group has become meanwhile:

    {"generation": 3, "member": "…", "ranges": {"flights": {"0": [100, 250]}}, "epochs": {"flights": {"0": 5}},
     "topic_ids": {"flights": "Zvr8P9fwTyW0aS7DO4pCVA"}}

``epochs``: of the leaders whose logs have the ranges, where they are known (KIP-320). ``topic_ids``: by which a topic that was
deleted and created again is another one (KIP-516).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from coterie.pipeline.offsets import (
    EARLIEST,
    LATEST,
    DataLossError,
    Offset,
    TopicPartition,
    as_json,
    from_json,
    id_text,
)
from coterie.pipeline.options.options import SourceOptions
from coterie.pipeline.reading.planning import OffsetRange
from coterie.pipeline.reading.topics import TopicReader
from coterie.pipeline.streaming.admission import Admission, Limits
from coterie.pipeline.streaming.group_member import GroupMember

NOTHING: Offset = {"generation": -1, "member": "", "ranges": {}}
PATIENCE_S = 1.0  # for a rebalance, before Spark gets an empty batch


class Beginnings:
    """Where a query begins a partition of which its group has no offset.

    startingOffsets is for the partitions that are there when the query starts, and for a group that has committed none of them:
    it is looked up then, before the member joins. A partition that comes later is read from its first record, whatever the
    option says, as Spark's own connector has it (KafkaMicroBatchStream.planInputPartitions): nobody could have read it before.
    So is one that the group has left out while it read others, for instance one that was added while no member was there.
    """

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


Ranges = dict[TopicPartition, tuple[int, int]]


class GroupStream:
    """One query's reader in its group."""

    def __init__(self, options: SourceOptions) -> None:
        self.reader = TopicReader(options)
        self.member = GroupMember(options.settings(), self._beginning)
        self._options = options
        self._admission = Admission(options, self.reader)
        self._beginnings = Beginnings(self.reader)
        self._joined = False
        self._goal: dict[TopicPartition, int] | None = None
        self._planned: tuple[Offset, Ranges] = (NOTHING, {})  # the last batch, and what is read of it
        self._settled: Offset = NOTHING  # the last batch that the group has heard of
        self._checkpoint: Ranges = {}  # of the last batch that Spark named
        self._checkpoint_ids: dict[str, str] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._epochs: dict[TopicPartition, int] = {}  # of the leaders that have these ends
        self._topic_ids: dict[TopicPartition, bytes] = {}  # of the topics that the positions are of

    def _beginning(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Of partitions of which the group has no offset, or no longer: the checkpoint may have where its batch began."""
        ids = self.reader.look_at(topic for topic, _ in partitions)
        self._topic_ids |= {tp: ids[tp[0]] or b"" for tp in partitions}
        begun = {
            tp: self._checkpoint[tp][0]
            for tp in partitions
            if tp in self._checkpoint and self._checkpoint_ids.get(tp[0]) in (None, id_text(ids[tp[0]] or b""))
        }
        others = [tp for tp in partitions if tp not in begun]
        return begun | (self._beginnings.of(others) if others else {})

    def initial(self) -> Offset:
        """The group's committed offsets, or startingOffsets where it has none."""
        return NOTHING

    def until_now(self) -> None:
        """Trigger.AvailableNow: no further than what is there now, in whichever member's hands."""
        self._goal = self.reader.ends()

    def latest(self, start: Offset, limits: Limits) -> Offset:
        """The next batch, or ``start`` itself when there is none yet. By now Spark has finished ``start``."""
        patience_s = PATIENCE_S if self._goal is None else math.inf
        # A batch of a former life of this query is not committed: which parts of it were fenced off is unknown by now.
        self._resume(start)
        is_done = start == self._planned[0] and start != self._settled
        if not self._settle(self._still_there(*self._planned) if is_done else {}, patience_s):
            return start
        self._settled = start
        ends = self._reach()
        taken = self._admission.admit(self.member.positions, ends, limits, now=self._goal is not None)
        ranges = {tp: (self.member.positions[tp], end) for tp, end in taken.items() if end > self.member.positions[tp]}
        if not ranges:
            return start
        member_id, generation = self.member.identity
        epochs = {tp: self._epochs[tp] for tp in ranges if self._epochs[tp] >= 0}
        made: Offset = {"generation": generation, "member": member_id}
        made |= {"ranges": _ranges_as_json(ranges), "epochs": as_json(epochs)}
        made["topic_ids"] = {tp[0]: id_text(self._topic_ids[tp]) for tp in sorted(ranges) if self._topic_ids[tp]}
        self._plan(made, ranges)
        return made

    def _resume(self, offset: Offset) -> None:
        """Raises DataLossError for a checkpoint of the other mode."""
        self._checkpoint, self._checkpoint_ids = ranges_of(offset), offset.get("topic_ids", {})

    def _plan(self, offset: Offset, ranges: Ranges) -> None:
        self._planned = (offset, ranges)
        self.member.positions.update({tp: end for tp, (_, end) in ranges.items()})
        self.member.epochs.update({tp: self._epochs[tp] for tp in ranges})

    def _still_there(self, offset: Offset, ranges: Ranges) -> Ranges:
        """Without deleted topics: no coordinator takes a commit of them, and the client would try again until its timeout.
        Nor is it made for a topic that was created again by their name, whose first records would be skipped."""
        ids, read = self.reader.look_at(topic for topic, _ in ranges), offset.get("topic_ids", {})
        there = {topic for topic, now in ids.items() if now is not None and read.get(topic) in (None, id_text(now))}
        return {tp: each for tp, each in ranges.items() if tp[0] in there}

    def _settle(self, processed: Ranges, patience_s: float) -> bool:
        if not self._joined:
            self._beginnings.query_starts(resumes=bool(self._checkpoint))
            self.member.join(self._options.subscribe, self._options.pattern)
            self._joined = True
        return self.member.settle({tp: end for tp, (_, end) in processed.items()}, patience_s)

    def _reach(self) -> dict[TopicPartition, int]:
        """The end offset of each owned partition, bounded by the goal; a position beyond the end is reported lost and reset."""
        owned = self._existing()
        self._ends = self.reader.offsets_of(dict.fromkeys(owned, LATEST))
        self._epochs = {tp: self.reader.leader_epoch(tp) for tp in owned}
        self._validate()
        for tp in owned:
            position = self.member.positions[tp]
            if position > self._ends[tp]:
                self.reader.lost(f"{tp[0]}-{tp[1]} ends at {self._ends[tp]}, before the group's offset {position}")
                self.member.cut(tp, self._ends[tp], self._epochs[tp])
        if self._goal is None:
            return dict(self._ends)
        return {tp: min(end, self._goal.get(tp, end)) for tp, end in self._ends.items()}

    def _existing(self) -> list[TopicPartition]:
        """The owned partitions without those of deleted topics, which the group gives up at its next rebalance. A topic that
        was created again is read from its beginning. Records that were there and not read are reported lost."""
        positions = self.member.positions
        ids = self.reader.look_at(topic for topic, _ in positions)
        kept, self._topic_ids = self._topic_ids, {tp: self._topic_ids.get(tp) or ids[tp[0]] or b"" for tp in positions}
        changed = [tp for tp in positions if kept.get(tp) and ids[tp[0]] not in (b"", kept[tp])]
        for tp in changed:
            if positions[tp] < self._ends.get(tp, 0):
                self.reader.lost(
                    f"{tp[0]} was deleted, and of {tp[0]}-{tp[1]} the records from {positions[tp]} on were unread"
                )
        replaced = {tp: ids[tp[0]] or b"" for tp in changed if ids[tp[0]] is not None}
        if replaced:
            self.member.replaced(self.reader.offsets_of(dict.fromkeys(replaced, EARLIEST)))
            self._topic_ids |= replaced
        return [tp for tp in positions if ids[tp[0]] is not None]

    def _validate(self) -> None:
        """Validates each position of a former leader: a log that was cut before it is reported lost, though it may have
        grown again since (KIP-320)."""
        member = self.member
        former = {tp: epoch for tp, epoch in member.epochs.items() if 0 <= epoch < self._epochs.get(tp, -1)}
        for tp, end in self.reader.ends_of_epochs(former).items():
            position, epoch = member.positions[tp], self._epochs[tp]
            if end < position:
                self.reader.lost(
                    f"{tp[0]}-{tp[1]} was cut at {end} by a new leader, before the group's offset {position}"
                )
                member.cut(tp, end, epoch)
            member.epochs[tp] = epoch

    def plan(self, start: Offset, end: Offset) -> list[OffsetRange]:
        """The tasks of a batch. One that this process did not make is a batch that Spark runs again after a restart: of it
        only what the group has not committed, and what this member still owns, is read."""
        if end != self._planned[0]:
            self._resume(end)
            while not self._settle({}, math.inf):
                pass
            self._reach()
            self._plan(end, self._fenced(self._checkpoint))
        return self.reader.plan_ranges(self._planned[1])

    def _fenced(self, ranges: Ranges) -> Ranges:
        """From the group's offset on, which is before the range where the log was cut or the group was set back."""
        positions = self.member.positions
        ends = {tp: min(end, self._ends[tp]) for tp, (_, end) in ranges.items() if tp in positions and tp in self._ends}
        return {tp: (positions[tp], end) for tp, end in ends.items() if positions[tp] < end}

    def report(self) -> Offset:
        """Records not yet in a batch, for the query's progress."""
        lag = {tp: max(end - self.member.positions.get(tp, end), 0) for tp, end in self._ends.items()}
        generation = self.member.identity[1] if self._joined else -1
        return {"generation": generation, "lag": as_json(lag)}

    def leave(self) -> None:
        """The member leaves the group, and its partitions go to the others at once."""
        if self._joined:
            self.member.leave("the query was stopped")
        self.reader.close()


def ranges_of(offset: Offset) -> Ranges:
    """A checkpoint's offset. Raises DataLossError for one of assign mode."""
    if "ranges" not in offset:
        raise DataLossError(
            "this checkpoint was written with mode=assign and cannot be resumed with mode=group; set mode=assign again, or "
            "give a new checkpointLocation: the query then begins at the group's commits"
        )
    return {
        (topic, int(partition)): (first, end)
        for topic, by in offset["ranges"].items()
        for partition, (first, end) in by.items()
    }


def epochs_of(offset: Offset) -> dict[TopicPartition, int]:
    """Of a checkpoint's offset: those of the leaders that had its ranges, as far as they are known."""
    return from_json(offset.get("epochs", {}))


def _ranges_as_json(ranges: Ranges) -> dict[str, dict[str, list[int]]]:
    by_topic: dict[str, dict[str, list[int]]] = {}
    for (topic, partition), (first, end) in sorted(ranges.items()):
        by_topic.setdefault(topic, {})[str(partition)] = [first, end]
    return by_topic
