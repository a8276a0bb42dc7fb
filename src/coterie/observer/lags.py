"""Lag of the observed groups: commits as the records bring them, ends of logs as the brokers report them, and the times of
the first records that are not committed. A lag is never negative, and no partition that was committed is without one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from coterie.client import Admin, TopicPartition
from coterie.coordinator import events as e
from coterie.observer.describer import Describer, RequestRate
from coterie.observer.group_descriptions import now_ms
from coterie.observer.machine.sights import RecordRead, ShareStateRead, Sight, TopicsSeen
from coterie.text.quantity import STALLED_AFTER_MS

REFRESH_EVERY_S = 10.0
UNREAD_AT_ONCE = 1_000  # groups in a refresh
TIMES_AT_ONCE = 1_000  # records whose time is read in a refresh


class GroupLag(NamedTuple):
    """Of a partition with a committed offset; ``lag`` in records. ``lag_ms``: how long ago the first record that is not
    committed was written, 0 without lag, None while that is not read. ``is_stalled``: there is lag, and the offset has not
    moved for a minute. Of a share group ``committed`` is the first offset that is not done with, ``lag`` is without the records
    behind it that are, and ``redelivered`` of them wait for another delivery."""

    group: str
    topic: str
    partition: int
    lag: int
    committed: int
    end: int
    lag_ms: int | None = None
    is_stalled: bool = False
    redelivered: int | None = None


@dataclass(slots=True)
class _Commit:
    """A committed offset, since when it is that, and the time of the record at it, as it was read at ``read_ms`` for the offset
    ``read_offset``."""

    offset: int
    since_ms: int
    record_ms: int = 0
    read_offset: int = -1
    read_ms: int = 0
    done: int = 0  # of a share group, behind the offset
    redelivered: int | None = None  # None: of no share group

    def committed(self, offset: int, time_ms: int) -> None:
        if offset != self.offset:
            self.offset, self.since_ms = offset, time_ms

    def behind_ms(self, at_ms: int) -> int | None:
        """Where another offset was read, as it was then."""
        if self.read_offset < 0:
            return None
        return max((at_ms if self.read_offset == self.offset else self.read_ms) - self.record_ms, 0)


class GroupLags:
    """Of every group that is seen; the offsets that a group had before are read once, many groups in a request. ``rate``:
    the observation's own, which bounds all that one observer requests of a cluster."""

    def __init__(self, client: dict[str, Any], rate: RequestRate) -> None:
        self._rate = rate
        self._admin, self._describer = Admin(client), Describer(client, self._rate)
        self._committed: dict[str, dict[TopicPartition, _Commit]] = {}
        self._unread: set[str] = set()
        self._ends: dict[TopicPartition, int] = {}
        self._topics: dict[bytes, str] = {}  # by id

    def close(self) -> None:
        self._admin.close()
        self._describer.close()

    def see(self, sight: Sight) -> None:
        """A sight of the observer; commits of transactions that are aborted count until the next one."""
        if isinstance(sight, TopicsSeen):
            self._topics |= {topic_id: topic for topic, topic_id in sight.ids.items()}
        group = getattr(sight, "group", None)
        if group is None:
            return
        if group not in self._committed:
            self._committed[group] = {}
            self._unread.add(group)
        if isinstance(sight, ShareStateRead):
            self._take_state(sight)
        if not isinstance(sight, RecordRead):
            return
        match sight.event:
            case e.OffsetStored(topic, partition, committed):
                self._take(group, TopicPartition(topic, partition), committed.offset, sight.time_ms)
            case e.OffsetRemoved(topic, partition):
                self._committed[group].pop(TopicPartition(topic, partition), None)
            case e.GroupRemoved():
                del self._committed[group]
                self._unread.discard(group)

    def _take_state(self, sight: ShareStateRead) -> None:
        topic = self._topics.get(sight.topic_id)
        if topic is None:
            return  # created since: the next state comes after the next look at the topics
        partition = TopicPartition(topic, sight.partition)
        if sight.start is None:
            self._committed[sight.group].pop(partition, None)
            return
        self._take(sight.group, partition, sight.start, sight.time_ms)
        commit = self._committed[sight.group][partition]
        if sight.done != commit.done:
            commit.since_ms = sight.time_ms
        commit.done, commit.redelivered = sight.done, sight.redelivered

    def _take(self, group: str, partition: TopicPartition, offset: int, time_ms: int) -> None:
        commit = self._committed[group].get(partition)
        if commit is None:
            self._committed[group][partition] = _Commit(offset, time_ms)
        else:
            commit.committed(offset, time_ms)

    @property
    def unread(self) -> int:
        """Groups whose earlier offsets are not read yet."""
        return len(self._unread)

    @property
    def is_complete(self) -> bool:
        """Whether each committed partition that is known has a lag."""
        return not self._unread and all(tp in self._ends for offsets in self._committed.values() for tp in offsets)

    async def refresh(self) -> None:
        """The offsets of groups that are new, the ends of all committed partitions, and the times of records at committed
        offsets, as many as TIMES_AT_ONCE, beginning with the one read longest ago. What fails keeps its last value. Raises
        KafkaError."""
        at_ms = now_ms()
        read = await self._describer.committed(sorted(self._unread)[:UNREAD_AT_ONCE])
        for group, offsets in read.items():
            self._unread.discard(group)
            known = self._committed.get(group, {})
            for partition, offset in offsets.items():
                known.setdefault(partition, _Commit(offset, at_ms))
        partitions = {tp for offsets in self._committed.values() for tp in offsets}
        if partitions:
            await self._rate.turn()
            self._ends |= await self._admin.list_offsets(dict.fromkeys(partitions, -1), errors={})
        await self._read_times()

    async def _read_times(self) -> None:
        """A request has one offset of a partition: of groups that share it, one has its turn."""
        late = sorted(
            (
                (commit.read_ms, partition, commit)
                for offsets in self._committed.values()
                for partition, commit in offsets.items()
                if commit.offset < self._ends.get(partition, 0) and commit.read_offset != commit.offset
            ),
            key=lambda row: row[0],
        )
        turn: dict[TopicPartition, _Commit] = {}
        for _, partition, commit in late:
            if len(turn) < TIMES_AT_ONCE:
                turn.setdefault(partition, commit)
        if not turn:
            return
        await self._rate.turn()
        offsets = {partition: commit.offset for partition, commit in turn.items()}
        times, at_ms = await self._admin.record_times(offsets), now_ms()
        for partition, time_ms in times.items():
            commit = turn[partition]
            commit.record_ms, commit.read_offset, commit.read_ms = time_ms, offsets[partition], at_ms

    def __iter__(self) -> Iterator[GroupLag]:
        for group in self._committed:
            yield from self.of(group)

    def of(self, group: str) -> Iterator[GroupLag]:
        """Of one group. A commit may be newer than the end that was requested: then there is no lag."""
        at_ms = now_ms()
        for tp, commit in self._committed.get(group, {}).items():
            end = self._ends.get(tp)
            if end is not None:
                lag = max(end - commit.offset - commit.done, 0)
                is_stalled = lag > 0 and at_ms - commit.since_ms >= STALLED_AFTER_MS
                behind_ms = commit.behind_ms(at_ms) if lag else 0
                yield GroupLag(group, *tp, lag, commit.offset, end, behind_ms, is_stalled, commit.redelivered)
