"""Fetching ahead: a task per leader keeps a little in the buffer; records are unfolded when they are polled."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

from coterie.client.cluster import Cluster
from coterie.client.errors import KafkaError
from coterie.records.batch import Record, batches, decode_records
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

TopicPartition = tuple[str, int]
NAMES_UP_TO = 12  # from v13 on topics go by id


@dataclass(slots=True)
class Position:
    """Where a partition is read. ``fetch_offset`` is ahead of ``offset`` by what is buffered."""

    offset: int
    fetch_offset: int
    high_watermark: int = -1
    paused: bool = False
    buffered: deque[Record] = field(default_factory=deque)


class Fetcher:
    """Reads the assigned partitions from their leaders."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._settings = cluster, cluster.settings
        self.positions: dict[TopicPartition, Position] = {}
        self.out_of_range: set[TopicPartition] = set()
        self.error: KafkaError | None = None
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self.arrived = asyncio.Event()

    def assign(self, offsets: dict[TopicPartition, int]) -> None:
        """Reads these partitions from now on, each from its offset, and no others."""
        self.positions = {tp: Position(offset, offset) for tp, offset in offsets.items()}
        self.out_of_range.clear()
        self.wake()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        paused = self.positions[partition].paused
        self.positions[partition] = Position(offset, offset, paused=paused)
        self.out_of_range.discard(partition)
        self.wake()

    def wake(self) -> None:
        """Starts a task for every leader that has something to fetch and no task."""
        leaders = {self._cluster.leader(*tp) for tp in self._wanted()}
        for leader in leaders - {None}:
            assert leader is not None
            task = self._tasks.get(leader)
            if task is None or task.done():
                self._tasks[leader] = asyncio.create_task(self._fetch(leader))

    def _wanted(self) -> list[TopicPartition]:
        return [
            tp for tp, p in self.positions.items() if not p.buffered and not p.paused and tp not in self.out_of_range
        ]

    async def _fetch(self, leader: int) -> None:
        """One request after another for as long as partitions of this leader have an empty buffer."""
        while True:
            wanted = {tp: self.positions[tp] for tp in self._wanted() if self._cluster.leader(*tp) == leader}
            if not wanted:
                return
            try:
                connection = await self._cluster.connection(leader)
                response = await connection.request(
                    self._request(wanted), FetchResponse, self._cluster.timeout_s + 1, highest=NAMES_UP_TO
                )
                self._take(wanted, response)
            except KafkaError as error:
                if not error.code.retriable:
                    self.error = error
                    self.arrived.set()
                    return
                await asyncio.sleep(self._settings["retry.backoff.ms"] / 1000)
                await self._refresh(wanted)

    async def _refresh(self, wanted: dict[TopicPartition, Position]) -> None:
        try:
            await self._cluster.refresh({topic for topic, _ in wanted})
        except KafkaError:
            return

    def _request(self, wanted: dict[TopicPartition, Position]) -> FetchRequest:
        topics: dict[str, FetchTopic] = {}
        for (topic, partition), position in wanted.items():
            topics.setdefault(topic, FetchTopic(topic)).partitions.append(
                FetchPartition(
                    partition,
                    fetch_offset=position.fetch_offset,
                    partition_max_bytes=self._settings["max.partition.fetch.bytes"],
                )
            )
        return FetchRequest(
            max_wait_ms=self._settings["fetch.max.wait.ms"],
            min_bytes=self._settings["fetch.min.bytes"],
            max_bytes=self._settings["fetch.max.bytes"],
            isolation_level=int(self._settings["isolation.level"] == "read_committed"),
            topics=list(topics.values()),
        )

    def _take(self, wanted: dict[TopicPartition, Position], response: FetchResponse) -> None:
        for topic in response.responses:
            for data in topic.partitions:
                where = (topic.topic, data.partition_index)
                position = wanted.get(where)
                if position is None or self.positions.get(where) is not position:
                    continue  # revoked or sought meanwhile
                code = error_of(data.error_code)
                if code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    self.out_of_range.add(where)
                elif code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                    raise KafkaError(code)
                elif code:
                    self.error = KafkaError(code, f"{topic.topic}-{data.partition_index}")
                else:
                    position.high_watermark = data.high_watermark
                    _unfold(position, data.records or b"")
                self.arrived.set()

    def take(self, limit: int) -> dict[TopicPartition, list[Record]]:
        """Up to ``limit`` buffered records, by partition; positions move on past them."""
        polled: dict[TopicPartition, list[Record]] = {}
        for where, position in self.positions.items():
            buffered = position.buffered
            if not buffered or position.paused or limit <= 0:
                continue
            count = min(limit, len(buffered))
            records = [buffered.popleft() for _ in range(count)]
            limit -= count
            position.offset = records[-1].offset + 1
            if not buffered:
                position.offset = max(position.offset, position.fetch_offset)
            polled[where] = records
        # What was read last comes last the next time, so that no partition starves.
        for where in polled:
            self.positions[where] = self.positions.pop(where)
        self.wake()
        return polled

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)


def _unfold(position: Position, data: bytes) -> None:
    for at, header in batches(data):
        if header.last_offset < position.fetch_offset:
            continue
        if not header.is_control:
            records = decode_records(data, at, header)
            if header.base_offset < position.fetch_offset:
                records = [r for r in records if r.offset >= position.fetch_offset]
            position.buffered.extend(records)
        position.fetch_offset = header.last_offset + 1
    if not position.buffered:
        position.offset = position.fetch_offset
