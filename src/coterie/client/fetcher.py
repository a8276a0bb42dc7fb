"""Fetching ahead: a task per leader asks again while the last answer is still being read, as long as there is room.

Back-pressure is by bytes: a partition with more than fetch.max.bytes / 4 unread, or that is paused, is left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from coterie.client.cluster import Cluster
from coterie.client.errors import CorruptBatchError, KafkaError, RecordDeserializationError, unexpected
from coterie.client.fetch_session import FetchSession
from coterie.client.positions import UNKNOWN, Position, Stored
from coterie.client.retrying import Retrying
from coterie.client.serialization import RecordDeserializers
from coterie.client.types import PartitionLike, Record, TopicPartition
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData

NAMES_UP_TO = 12  # from v13 on topics go by id


class Fetcher:
    """Reads the assigned partitions from their leaders."""

    def __init__(self, cluster: Cluster, deserializers: RecordDeserializers) -> None:
        self._cluster, self._settings, self._deserializers = cluster, cluster.settings, deserializers
        self._committed_only = self._settings.committed_only
        self._room_bytes = self._settings.fetch_max_bytes // 4
        self.positions: dict[TopicPartition, Position] = {}
        self.out_of_range: set[TopicPartition] = set()
        self.error: KafkaError | None = None
        self.damaged: dict[
            TopicPartition, CorruptBatchError | RecordDeserializationError
        ] = {}  # until they are sought, assigned anew or dropped
        self.arrived = asyncio.Event()
        self.bytes_fetched = self.records_taken = 0
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._sessions: dict[int, FetchSession] = {}
        self._closed = False

    # -- what to read -------------------------------------------------------------------------------------------------

    def assign(self, partitions: Iterable[PartitionLike]) -> None:
        """Reads these and no others; those that stay keep their position and what is buffered, new ones have none yet."""
        wanted = [TopicPartition(*partition) for partition in partitions]
        self.positions = {tp: self.positions.get(tp) or Position(tp) for tp in wanted}
        self.out_of_range &= self.positions.keys()
        self.damaged = {tp: error for tp, error in self.damaged.items() if tp in self.positions}
        self.wake()

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self.positions.pop(partition, None)
            self.out_of_range.discard(partition)
            self.damaged.pop(partition, None)

    def unknown(self) -> list[TopicPartition]:
        return [tp for tp, p in self.positions.items() if p.offset == UNKNOWN]

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """UNKNOWN makes the position be looked up again."""
        new = Position(partition, paused=self.positions[partition].paused)
        new.start_at(offset)
        self.positions[partition] = new
        self.out_of_range.discard(partition)
        self.damaged.pop(partition, None)
        self.wake()

    # -- reading ------------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Starts a task for every leader that has something to fetch and no task."""
        if self._closed:
            return
        leaders = {self._cluster.leader(*tp) for tp in self._wanted()}
        for leader in leaders - {None}:
            assert leader is not None
            task = self._tasks.get(leader)
            if task is None or task.done():
                self._tasks[leader] = asyncio.create_task(self._fetch(leader))

    def _wanted(self) -> list[TopicPartition]:
        room = self._room_bytes
        return [
            tp
            for tp, p in self.positions.items()
            if p.buffered_bytes <= room
            and not p.paused
            and p.offset != UNKNOWN
            and tp not in self.out_of_range
            and tp not in self.damaged
        ]

    async def _fetch(self, leader: int) -> None:
        """One request after another for as long as partitions of this leader have room."""
        session, is_lost = self._sessions.setdefault(leader, FetchSession()), False
        retrying = Retrying(self._settings)
        while not self._closed:
            wanted = {tp: self.positions[tp] for tp in self._wanted() if self._cluster.leader(*tp) == leader}
            if not wanted:
                return
            try:
                request = self._request()
                offsets = {tp: p.fetch_offset for tp, p in wanted.items()}
                session.fill(request, offsets, self._settings.max_partition_fetch_bytes)
                connection = await self._cluster.connection(leader)
                response = await connection.request(
                    request, FetchResponse, self._cluster.timeout_s + 1, highest=NAMES_UP_TO
                )
                code, was_lost = session.answered(response), is_lost
                is_lost = session.is_lost(code)
                if code and (was_lost or not is_lost):  # a lost session is made anew at once, but only once
                    raise KafkaError(code)
                self._take(wanted, offsets, response, retrying)
                if not code:
                    retrying.succeeded()
            except KafkaError as error:
                session.reset()
                if not error.retriable:
                    self._fail(error)
                    return
                await retrying.pause()
                await self._refresh(wanted)
            except Exception as error:
                session.reset()
                self._fail(unexpected(error))
                return

    def _fail(self, error: KafkaError) -> None:
        self.error = error
        self.arrived.set()

    async def _refresh(self, wanted: dict[TopicPartition, Position]) -> None:
        try:
            await self._cluster.refresh({topic for topic, _ in wanted})
        except KafkaError:
            return

    def _request(self) -> FetchRequest:
        return FetchRequest(
            max_wait_ms=self._settings.fetch_max_wait_ms,
            min_bytes=self._settings.fetch_min_bytes,
            max_bytes=self._settings.fetch_max_bytes,
            isolation_level=int(self._committed_only),
            rack_id=self._settings.client_rack or "",
        )

    def _take(
        self,
        wanted: dict[TopicPartition, Position],
        offsets: dict[TopicPartition, int],
        response: FetchResponse,
        retrying: Retrying,
    ) -> None:
        """Stores what came. Raises the first partition's KafkaError once all are seen to; the pause after it grows only
        where no partition could be read, since the others wait for it too."""
        failed: KafkaError | None = None
        for topic in response.responses:
            for data in topic.partitions:
                where = TopicPartition(topic.topic, data.partition_index)
                position = wanted.get(where)
                if position is None or self.positions.get(where) is not position:
                    continue  # revoked or sought meanwhile
                code = error_of(data.error_code)
                if code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    self.out_of_range.add(where)
                    self.arrived.set()
                elif code:
                    failed = failed or KafkaError(code, f"{where[0]}-{where[1]}")
                else:
                    retrying.succeeded()
                    if position.fetch_offset == offsets[where]:
                        self._store(where, position, data)
        if failed is not None:
            raise failed

    def _store(self, where: TopicPartition, position: Position, data: PartitionData) -> None:
        self.bytes_fetched += len(data.records or b"")
        try:
            position.store(data, committed_only=self._committed_only, check_crcs=self._settings.check_crcs)
        except Exception as error:  # whatever the bytes made a decoder raise
            self.mark_damaged(where, position.fetch_offset, position.fetch_offset + 1, error)
        if position.is_buffered():
            self.arrived.set()

    def mark_damaged(self, where: TopicPartition, offset: int, next_offset: int, error: Exception) -> None:
        """The partition is not read any further; `raise_damage` says so until it is sought."""
        damage = self.damaged[where] = CorruptBatchError(*where, offset, max(next_offset, offset + 1), str(error))
        damage.__cause__ = error
        self.arrived.set()

    def put_back(self, where: TopicPartition, batch: Stored, error: Exception) -> None:
        """A batch that was handed out whole turned out to be damaged: the position goes back to it."""
        if where in self.positions:
            offset = max(batch.header.base_offset, 0)
            self.seek(where, offset)
            self.mark_damaged(where, offset, batch.header.last_offset + 1, error)

    def raise_damage(self) -> None:
        """Raises CorruptBatchError, or RecordDeserializationError, where all records before the damage are handed out, as
        Java's consumer does with every poll until one seeks. A paused partition waits."""
        for where, error in self.damaged.items():
            position = self.positions[where]
            if not position.paused and (not position.is_buffered() or position.offset >= error.offset):
                raise error.with_traceback(None)

    # -- handing out --------------------------------------------------------------------------------------------------

    def take(self, limit: int) -> dict[TopicPartition, list[Record[Any, Any]]]:
        """Up to ``limit`` buffered records, by partition; positions move on past them."""
        polled: dict[TopicPartition, list[Record[Any, Any]]] = {}
        for where, position in self.positions.items():
            if position.paused:
                continue
            while limit > 0 and position.is_buffered():
                try:
                    records = position.take(limit)
                except Exception as error:  # whatever the bytes made a decoder raise
                    batch = position.stored[0].header
                    offset = max(position.offset, batch.base_offset)
                    self.mark_damaged(where, offset, batch.last_offset + 1, error)
                    break
                if self._deserializers:
                    records = self._deserialized(where, records)
                limit -= len(records)
                if records:
                    polled[where] = polled[where] + records if where in polled else records
                if self.positions[where] is not position:
                    break  # it went back to a record that its deserializer refused
        self.records_taken += sum(map(len, polled.values()))
        self._last_comes_last(polled)
        return polled

    def take_in_hand(self, partition: TopicPartition) -> Record[Any, Any] | None:
        """The next record of a partition, if it is decoded already and may be handed out."""
        position = self.positions.get(partition)
        if position is None or position.paused or not position.is_unfolded():
            return None
        records = position.take(1)
        if self._deserializers:
            records = self._deserialized(partition, records)
        self.records_taken += len(records)
        return records[0] if records else None

    def _deserialized(self, partition: TopicPartition, records: list[Record[Any, Any]]) -> list[Record[Any, Any]]:
        """Those before the first that its deserializer refuses; the position goes back to that one."""
        objects: list[Record[Any, Any]] = []
        for record in records:
            try:
                objects.append(self._deserializers(record))
            except RecordDeserializationError as error:
                self.seek(partition, record.offset)
                self.damaged[partition] = error
                self.arrived.set()
                break
        return objects

    def take_batches(self, limit_bytes: int) -> dict[TopicPartition, tuple[int, list[Stored]]]:
        """Whole batches, with the position that each partition had."""
        polled: dict[TopicPartition, tuple[int, list[Stored]]] = {}
        for where, position in self.positions.items():
            if not position.paused and position.stored:
                before = position.offset
                polled[where] = (before, list(position.take_batches(limit_bytes)))
        self._last_comes_last(polled)
        return polled

    def _last_comes_last(self, polled: Iterable[TopicPartition]) -> None:
        """So that no partition starves."""
        for where in polled:
            self.positions[where] = self.positions.pop(where)
        self.wake()

    async def close(self, timeout_s: float) -> None:
        """Ends the tasks, and waits for that no longer than so."""
        self._closed = True
        for task in self._tasks.values():
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=timeout_s)
