"""The partitions that a consumer reads: where each begins, and how what was fetched of them is handed out (Kafka's
SubscriptionState and FetchCollector)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from coterie.consuming.fetching.position import UNKNOWN_EPOCH, FetchState, Position, Stored, Unreadable
from coterie.consuming.record import Record, TopicPartition

Deserialize = Callable[[Record[Any, Any]], Record[Any, Any]]


class AssignedPositions:
    """The positions of the assigned partitions. ``records_taken`` counts since the start."""

    def __init__(self) -> None:
        self.positions: dict[TopicPartition, Position] = {}
        self.records_taken = 0
        self._topics: frozenset[str] | None = None  # subscribed to; None: any

    # -- what to read -------------------------------------------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Reads these and no others. A partition that stays keeps its position and what is buffered; a new one has neither."""
        self.positions = {tp: self.positions.get(tp) or Position(tp) for tp in partitions}
        self.subscribe(self._topics)

    def subscribe(self, topics: frozenset[str] | None) -> None:
        """Partitions of other topics are not read until the rebalance that revokes them; None: there are none."""
        self._topics = topics
        for tp, position in self.positions.items():
            position.unsubscribed = topics is not None and tp.topic not in topics

    def in_callback(self, partitions: Iterable[TopicPartition], *, begins: bool) -> None:
        """The listener is notified of these, or has returned: meanwhile they are not read."""
        for partition in partitions:
            if partition in self.positions:
                self.positions[partition].in_callback = begins

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions are read no more."""
        for partition in partitions:
            self.positions.pop(partition, None)

    def seek(self, partition: TopicPartition, offset: int, epoch: int = UNKNOWN_EPOCH) -> None:
        """UNKNOWN makes the position be looked up again. ``epoch``: the leader epoch of the record before the offset. What is
        buffered is dropped; a pause after an error stays."""
        new = self.positions[partition].fresh()
        new.start_at(offset, epoch)
        self.positions[partition] = new

    def ends_seen(self, offsets: Mapping[TopicPartition, int], *, committed_only: bool) -> None:
        """Where these logs end, or with ``committed_only`` where the first open transaction begins."""
        for partition, offset in offsets.items():
            position = self.positions.get(partition)
            if position is not None and committed_only:
                position.last_stable_offset = offset
            elif position is not None:
                position.high_watermark = offset

    def initializing(self) -> list[TopicPartition]:
        """The partitions without a position, unless the listener is being notified of them."""
        return [tp for tp, p in self.positions.items() if p.state is FetchState.INITIALIZING and not p.in_callback]

    def resets_due(self) -> list[TopicPartition]:
        """The partitions whose offset the log does not have, once what was fetched before is handed out."""
        return [tp for tp, p in self.positions.items() if p.state is FetchState.AWAIT_RESET and not p.is_buffered()]

    def polled(self) -> None:
        """Partitions that were reported as failed are tried again."""
        for position in self.positions.values():
            position.refused = False

    # -- handing out --------------------------------------------------------------------------------------------------

    def take(self, limit: int, deserialize: Deserialize | None = None) -> dict[TopicPartition, list[Record[Any, Any]]]:
        """Up to ``limit`` buffered records, by partition; positions move on past them. A record that ``deserialize`` refuses is
        damage (`damage_due`), with its exception as the cause."""
        self.polled()
        polled: dict[TopicPartition, list[Record[Any, Any]]] = {}
        for where, position in self.positions.items():
            if limit <= 0:
                break
            if position.is_held:
                continue
            while limit > 0 and position.is_buffered():
                try:
                    records = position.take(limit)
                except Exception as error:  # any that the bytes made a decoder raise
                    header = position.stored[0].header
                    offset = max(position.offset, header.base_offset)
                    position.damaged(Unreadable(offset, max(header.last_offset, offset) + 1, error))
                    break
                if deserialize is not None:
                    records = self._deserialized(where, records, deserialize)
                limit -= len(records)
                if records:
                    polled[where] = polled[where] + records if where in polled else records
                if self.positions[where] is not position:
                    break  # it went back to a record that its deserializer refused
        self.records_taken += sum(map(len, polled.values()))
        self._last_comes_last(polled)
        return polled

    def take_in_hand(
        self, partition: TopicPartition, deserialize: Deserialize | None = None
    ) -> Record[Any, Any] | None:
        """The next record of a partition, if it is decoded already and may be handed out."""
        position = self.positions.get(partition)
        record = None if position is None or position.is_held else position.take_decoded()
        if record is not None and deserialize is not None:
            record = next(iter(self._deserialized(partition, [record], deserialize)), None)
        self.records_taken += record is not None
        return record

    def _deserialized(
        self, partition: TopicPartition, records: list[Record[Any, Any]], deserialize: Deserialize
    ) -> list[Record[Any, Any]]:
        """The records before the first that its deserializer refuses; the position goes back to that one."""
        objects: list[Record[Any, Any]] = []
        for record in records:
            try:
                objects.append(deserialize(record))
            except Exception as error:
                self.seek(partition, record.offset, self.positions[partition].offset_epoch)
                self.positions[partition].damaged(Unreadable(record.offset, record.offset + 1, error))
                break
        return objects

    def take_batches(self, limit_bytes: int) -> dict[TopicPartition, tuple[int, list[Stored]]]:
        """Whole batches, with the position that each partition had."""
        self.polled()
        polled: dict[TopicPartition, tuple[int, list[Stored]]] = {}
        for where, position in self.positions.items():
            if not position.is_held and position.stored:
                before = position.offset
                polled[where] = (before, list(position.take_batches(limit_bytes)))
        self._last_comes_last(polled)
        return polled

    def put_back(self, partition: TopicPartition, begin: int, batch: Stored, error: Exception) -> None:
        """A batch that was handed out whole, for a reader at ``begin``, turned out to be damaged: the position goes back to
        it."""
        if partition in self.positions:
            offset = max(batch.header.base_offset, begin)
            self.seek(partition, offset, self.positions[partition].offset_epoch)
            self.positions[partition].damaged(Unreadable(offset, max(batch.header.last_offset, offset) + 1, error))

    def damage_due(self) -> tuple[TopicPartition, Unreadable] | None:
        """The first damage before which all records are handed out: with every poll until one seeks. A paused partition
        waits."""
        for where, position in self.positions.items():
            damage = position.damage
            if damage is None or position.is_held:
                continue
            if not position.is_buffered() or position.offset >= damage.offset:
                return where, damage
        return None

    def _last_comes_last(self, polled: Iterable[TopicPartition]) -> None:
        """Puts the partitions that were polled behind the others, so that none starves."""
        for where in polled:
            self.positions[where] = self.positions.pop(where)
