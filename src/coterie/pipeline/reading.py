"""The broker as Spark's reader sees it: which partitions there are, their offsets, commits to the group; and ranges of
records as Arrow batches. Plain Python, no Spark: the data source wraps it (`source.py`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from coterie.client.blocking_socket import BrokerSocket
from coterie.client.errors import KafkaError, check
from coterie.client.offsets import NAMES_UP_TO
from coterie.pipeline.options import SourceOptions, TopicOffsets
from coterie.records.columnar import Columns, decode_columns
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from coterie.wire.messages.find_coordinator import FindCoordinatorRequest
from coterie.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from coterie.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from coterie.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

TopicPartition = tuple[str, int]
EARLIEST, LATEST = -2, -1
FETCH_BYTES = 8 * 1024 * 1024
FETCH_NAMES_UP_TO = 12


class DataLossError(RuntimeError):
    """Records that were to be read are no longer there (failOnDataLoss)."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Records of one partition from ``start`` up to but not including ``end``, and where its leader is."""

    topic: str
    partition: int
    start: int
    end: int
    host: str
    port: int

    @property
    def size(self) -> int:
        return self.end - self.start


class TopicReader:
    """The driver's side: metadata, offsets, commits. Connects when it is first used."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self._sockets: dict[tuple[str, int], BrokerSocket] = {}
        self._leaders: dict[TopicPartition, tuple[str, int]] = {}
        self._coordinator: tuple[str, int] | None = None

    def _socket(self, address: tuple[str, int] | None = None) -> BrokerSocket:
        where = address or (self.options.host, self.options.port)
        if where not in self._sockets:
            self._sockets[where] = BrokerSocket(*where, client_id="coterie-spark")
        return self._sockets[where]

    def close(self) -> None:
        for socket in self._sockets.values():
            socket.close()
        self._sockets.clear()

    def forget_connections(self) -> None:
        """After a fault: the next use connects anew."""
        self.close()
        self._coordinator = None

    def partitions(self) -> list[TopicPartition]:
        """What there is to read now. Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION for a topic that is missing."""
        o = self.options
        names = list(o.subscribe) or list(o.assign)
        asked = None if o.pattern else [MetadataRequestTopic(name=n) for n in names]
        response = self._socket().request(MetadataRequest(asked, False))
        brokers = {b.node_id: (b.host, b.port) for b in response.brokers}
        found: list[TopicPartition] = []
        for topic in response.topics:
            if o.pattern and (topic.is_internal or not re.fullmatch(o.pattern, topic.name or "")):
                continue
            check(topic.error_code, f"topic {topic.name}")
            for p in topic.partitions:
                where = (topic.name or "", p.partition_index)
                if not o.assign or p.partition_index in o.assign[where[0]]:
                    found.append(where)
                    self._leaders[where] = brokers[p.leader_id]
        return sorted(found)

    def offsets(self, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Offsets for timestamps; -1 is the end, -2 the start."""
        by_leader: dict[tuple[str, int], dict[str, ListOffsetsTopic]] = {}
        for (topic, partition), timestamp in wanted.items():
            entry = by_leader.setdefault(self._leaders[topic, partition], {}).setdefault(topic, ListOffsetsTopic(topic))
            entry.partitions.append(ListOffsetsPartition(partition, timestamp=timestamp))
        found: dict[TopicPartition, int] = {}
        for leader, topics in by_leader.items():
            response = self._socket(leader).request(ListOffsetsRequest(topics=list(topics.values())))
            for answered in response.topics:
                for p in answered.partitions:
                    check(p.error_code, f"{answered.name}-{p.partition_index}")
                    found[answered.name, p.partition_index] = p.offset
        return found

    def starting(self) -> dict[TopicPartition, int]:
        """Where to begin, by startingTimestamp or startingOffsets."""
        o, partitions = self.options, self.partitions()
        if o.starting_timestamp_ms is not None:
            found = self.offsets(dict.fromkeys(partitions, o.starting_timestamp_ms))
            late = [tp for tp, offset in found.items() if offset < 0]
            return found | self.offsets(dict.fromkeys(late, LATEST))
        if o.starting == "committed":
            known = {tp: offset for tp, offset in self.committed(partitions).items() if offset >= 0}
            return known | self.offsets({tp: EARLIEST for tp in partitions if tp not in known})
        return self._resolve(o.starting, partitions, EARLIEST)

    def ending(self) -> dict[TopicPartition, int]:
        return self._resolve(self.options.ending, self.partitions(), LATEST)

    def _resolve(
        self, asked: str | TopicOffsets, partitions: list[TopicPartition], other: int
    ) -> dict[TopicPartition, int]:
        if isinstance(asked, str):
            return self.offsets(dict.fromkeys(partitions, LATEST if asked == "latest" else EARLIEST))
        given = {(t, int(p)): offset for t, by in asked.items() for p, offset in by.items()}
        symbolic = {tp: given.get(tp, other) for tp in partitions if given.get(tp, other) < 0}
        return {tp: given[tp] for tp in partitions if tp not in symbolic} | self.offsets(symbolic)

    # -- the group ------------------------------------------------------------------------------------------------------

    def _group_socket(self) -> BrokerSocket:
        group_id = self.options.group_id or ""
        if self._coordinator is None:
            response = self._socket().request(FindCoordinatorRequest(group_id, 0, [group_id]))
            found = response.coordinators[0] if response.coordinators else response
            check(found.error_code, found.error_message)
            self._coordinator = (found.host, found.port)
        return self._socket(self._coordinator)

    def committed(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        group_id = self.options.group_id
        if group_id is None:
            return {}
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)
        asked = OffsetFetchRequestGroup(
            group_id, topics=[OffsetFetchRequestTopics(t, partition_indexes=p) for t, p in topics.items()]
        )
        old = [OffsetFetchRequestTopic(t, p) for t, p in topics.items()]
        response = self._group_socket().request(OffsetFetchRequest(group_id, old, [asked]), highest=NAMES_UP_TO)
        answered: list[Any] = [t for g in response.groups for t in g.topics] or response.topics
        return {(t.name, p.partition_index): p.committed_offset for t in answered for p in t.partitions}

    def commit(self, offsets: dict[TopicPartition, int]) -> None:
        """To the group without members. Raises KafkaError."""
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for (topic, partition), offset in sorted(offsets.items()):
            entry = topics.setdefault(topic, OffsetCommitRequestTopic(topic))
            entry.partitions.append(OffsetCommitRequestPartition(partition, offset, -1, committed_metadata=""))
        request = OffsetCommitRequest(self.options.group_id or "", topics=list(topics.values()))
        response = self._group_socket().request(request, highest=NAMES_UP_TO)
        for answered in response.topics:
            for p in answered.partitions:
                check(p.error_code, f"group {self.options.group_id}, {answered.name}-{p.partition_index}")

    # -- planning -------------------------------------------------------------------------------------------------------

    def plan(self, start: dict[TopicPartition, int], end: dict[TopicPartition, int]) -> list[list[OffsetRange]]:
        """The ranges between, shared out over the tasks; a range larger than a task's share is split."""
        if any(tp not in self._leaders for tp in end):
            self.partitions()
        ranges = [
            OffsetRange(*tp, start.get(tp, 0), last, *self._leaders[tp])
            for tp, last in sorted(end.items())
            if last > start.get(tp, 0)
        ]
        return share_out(ranges, self.options.tasks)


def share_out(ranges: list[OffsetRange], tasks: int) -> list[list[OffsetRange]]:
    """At most ``tasks`` lists of about equal numbers of records; records of a partition stay in order."""
    share = -(-sum(r.size for r in ranges) // max(tasks, 1))
    shared: list[list[OffsetRange]] = []
    room = 0
    for r in ranges:
        start = r.start
        while start < r.end:
            if room <= 0:
                shared.append([])
                room = share
            end = min(r.end, start + room)
            shared[-1].append(OffsetRange(r.topic, r.partition, start, end, r.host, r.port))
            room -= end - start
            start = end
    return shared


def limit_rows(
    start: dict[TopicPartition, int], end: dict[TopicPartition, int], rows: int
) -> dict[TopicPartition, int]:
    """An end that is at most about ``rows`` records away, each partition in proportion to what it has."""
    available = {tp: max(last - start.get(tp, 0), 0) for tp, last in end.items()}
    total = sum(available.values())
    if total <= rows:
        return end
    limited = {tp: start.get(tp, 0) + size * rows // total for tp, size in available.items()}
    if limited == {tp: start.get(tp, 0) for tp in end}:
        # Fewer rows than partitions: at least one record, so that the query goes on.
        behind = next(tp for tp, size in available.items() if size)
        limited[behind] += 1
    return limited


_task_sockets: dict[tuple[str, int], BrokerSocket] = {}


def _task_socket(host: str, port: int) -> BrokerSocket:
    """Workers are reused, one task at a time: so are their connections."""
    if (host, port) not in _task_sockets:
        _task_sockets[host, port] = BrokerSocket(host, port, client_id="coterie-spark-task")
    return _task_sockets[host, port]


def read_range(r: OffsetRange, *, with_headers: bool, fail_on_data_loss: bool) -> Iterator[Columns]:
    """The range's records, a fetch at a time. Raises KafkaError, DataLossError."""
    offset = r.start
    while offset < r.end:
        try:
            data = _fetch(r, offset)
        except KafkaError as error:
            _task_sockets.pop((r.host, r.port), None)
            if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            if fail_on_data_loss:
                raise DataLossError(
                    f"{r.topic}-{r.partition}: records {offset} to {r.end - 1} are gone (retention or deletion); "
                    "set failOnDataLoss=false to go on without them"
                ) from error
            return
        columns = decode_columns(data, with_headers=with_headers)
        if columns is None or not len(columns):
            return  # only control batches were left
        first = int(columns.offsets.searchsorted(offset))
        last = int(columns.offsets.searchsorted(r.end))
        if last > first:
            yield columns.slice(first, last)
        offset = int(columns.offsets[-1]) + 1


def _fetch(r: OffsetRange, offset: int) -> bytes:
    asked = FetchPartition(r.partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
    request = FetchRequest(
        max_wait_ms=1000, min_bytes=1, max_bytes=FETCH_BYTES, topics=[FetchTopic(r.topic, partitions=[asked])]
    )
    response = _task_socket(r.host, r.port).request(request, highest=FETCH_NAMES_UP_TO)
    data = response.responses[0].partitions[0]
    if data.error_code:
        raise KafkaError(error_of(data.error_code), f"{r.topic}-{r.partition} at {offset}")
    records: bytes = data.records or b""
    return records


def to_arrow(columns: Columns, topic: str, partition: int, schema: pa.Schema) -> pa.RecordBatch:
    """The columns that ``schema`` names, in its order and types: the Kafka source's key, value, topic, partition,
    offset, timestamp, timestampType, headers."""
    count = len(columns)
    arrays = []
    for field in schema:
        match field.name:
            case "key":
                array = columns.keys
            case "value":
                array = columns.values
            case "topic":
                array = pa.repeat(pa.scalar(topic, pa.string()), count)
            case "partition":
                array = pa.repeat(pa.scalar(partition, pa.int32()), count)
            case "offset":
                array = pa.array(columns.offsets)
            case "timestamp":
                array = pa.array(columns.timestamps * 1000).view(field.type)
            case "timestampType":
                array = pa.array(columns.timestamp_types)
            case "headers":
                array = _header_array(columns, field.type)
            case other:
                raise KeyError(f"the coterie source has no column {other}")
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _header_array(columns: Columns, kind: pa.DataType) -> pa.Array:
    rows = [[{"key": k, "value": v} for k, v in h] if h else None for h in columns.headers or ()]
    return pa.array(rows, kind)
