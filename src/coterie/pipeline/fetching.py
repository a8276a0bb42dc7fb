"""A task's side: ranges of offsets fetched and made into Arrow batches. One fetch is under way while the one before it is
decoded. Plain sockets, no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from coterie.client.blocking_socket import Awaited, BrokerSocket
from coterie.client.errors import CorruptBatchError, KafkaError, check
from coterie.client.retrying import Retrying
from coterie.client.settings import ClientSettings
from coterie.client.types import TopicPartition
from coterie.cluster_metadata import ClusterMetadata
from coterie.consuming.position import Position, Stored
from coterie.pipeline.planning import OffsetRange
from coterie.pipeline.topics import FETCH_NAMES_UP_TO, DataLossError, patiently
from coterie.records.batch import BatchError, batches
from coterie.records.columnar import Columns, columns_of
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData

FETCH_BYTES = 8 * 1024 * 1024
CLIENT_ID = "coterie-spark-task"

_sockets: dict[tuple[str, int], BrokerSocket] = {}


def _socket(r: OffsetRange, settings: ClientSettings) -> BrokerSocket:
    """Workers are reused, one task at a time: so are their connections."""
    where = (r.host, r.port)
    if where not in _sockets:
        _sockets[where] = BrokerSocket(*where, client_id=CLIENT_ID, security=settings.security())
    return _sockets[where]


def read_range(
    r: OffsetRange, settings: ClientSettings, *, with_headers: bool, fail_on_data_loss: bool
) -> Iterator[Columns]:
    """The range's records, a fetch at a time. Faults that pass are waited out for default.api.timeout.ms. Raises KafkaError,
    DataLossError; CorruptBatchError at once for a batch that cannot be read."""
    position = Position(TopicPartition(r.topic, r.partition))
    position.start_at(r.start)
    retrying = Retrying(settings)
    while position.offset < r.end:
        try:
            for columns in _until_fault(r, position, settings, with_headers):
                retrying.succeeded()
                yield columns
            return
        except CorruptBatchError:
            _forget(r)  # the answer to a request that was sent ahead may still come
            raise
        except KafkaError as error:
            _forget(r)
            if error.code == ErrorCode.OFFSET_OUT_OF_RANGE:
                if fail_on_data_loss:
                    raise DataLossError(
                        f"{r.topic}-{r.partition}: records {position.offset} to {r.end - 1} are gone (retention or "
                        "deletion); set failOnDataLoss=false to go on without them"
                    ) from error
                first = patiently(settings, partial(_first_offset, r, settings), partial(_forget, r))
                if first <= position.offset:
                    return  # behind the end: the topic was made anew
                position.start_at(first)
                continue
            if not error.retriable or not retrying.pause_thread(settings.default_api_timeout_ms / 1000):
                raise
            r = _at_leader(r, settings)


def _at_leader(r: OffsetRange, settings: ClientSettings) -> OffsetRange:
    """The range where its partition's leader is now: the plan's broker reports it, or else a bootstrap server; unchanged where
    none of them does."""
    known = ClusterMetadata(settings.metadata_max_age_ms)
    for host, port in known.addresses([(r.host, r.port), *settings.bootstrap()]):
        asked = replace(r, host=host, port=port)
        try:
            response = _socket(asked, settings).request(known.metadata_request([r.topic]))
        except KafkaError:
            _forget(asked)
            continue
        known.metadata_received(response, now_ms=0)
        leader = known.leader_address(r.topic, r.partition)
        return r if leader is None else replace(r, host=leader[0], port=leader[1])
    return r


def _forget(r: OffsetRange) -> None:
    socket = _sockets.pop((r.host, r.port), None)
    if socket is not None:
        socket.close()


def _until_fault(r: OffsetRange, position: Position, settings: ClientSettings, with_headers: bool) -> Iterator[Columns]:
    socket = _socket(r, settings)
    committed_only, check_crcs = settings.committed_only, settings.check_crcs
    position.start_at(position.offset)
    waiting: Awaited | None = socket.send(_fetch(r, position.offset, settings), highest=FETCH_NAMES_UP_TO)
    while waiting is not None:
        begin = position.offset
        data = _checked(r, begin, socket.receive(waiting))
        waiting = None
        try:
            position.store(data, committed_only=committed_only, check_crcs=check_crcs)
        except Exception as error:  # whatever the bytes made a decoder raise
            raise _corrupt(r, position.fetch_offset, position.fetch_offset + 1, error) from error
        if position.fetch_offset == begin:
            if r.end <= data.high_watermark and not data.records:
                raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, f"{r.topic}-{r.partition} at {begin}")
            return  # a transaction is open, or compaction has taken the rest
        stored = list(position.take_batches(2 * FETCH_BYTES))
        position.start_at(max(position.offset, position.fetch_offset))
        if position.offset < r.end:
            waiting = socket.send(_fetch(r, position.offset, settings), highest=FETCH_NAMES_UP_TO)
        columns = _columns(r, stored, with_headers)
        if columns is None:
            continue
        first = int(columns.offsets.searchsorted(begin))
        last = int(columns.offsets.searchsorted(r.end))
        if last > first:
            yield columns.slice(first, last)


def _columns(r: OffsetRange, stored: list[Stored], with_headers: bool) -> Columns | None:
    """Of all batches together. Raises CorruptBatchError for the first that cannot be read."""
    raw = [(b.data, b.at, b.header) for b in stored]
    try:
        return columns_of(raw, with_headers=with_headers)
    except Exception:  # whatever the bytes made a decoder raise
        for batch in raw:
            try:
                columns_of([batch], with_headers=with_headers)
            except Exception as error:
                raise _corrupt(r, batch[2].base_offset, batch[2].last_offset + 1, error) from error
        raise


def _corrupt(r: OffsetRange, offset: int, next_offset: int, error: Exception) -> CorruptBatchError:
    return CorruptBatchError(r.topic, r.partition, offset, next_offset, str(error))


def fetched(r: OffsetRange, settings: ClientSettings) -> Iterator[bytes]:
    """The range's batches as they are stored, control batches too, a fetch at a time; the last may run past the range, and
    the first begin before it. Raises KafkaError; faults that pass are waited out as in `read_range`."""
    offset = r.start

    def fetch() -> PartitionData:
        return _fetch_once(r, offset, settings)

    def look_up_leader() -> None:
        nonlocal r
        _forget(r)
        r = _at_leader(r, settings)

    while offset < r.end:
        data = patiently(settings, fetch, look_up_leader)
        try:
            whole = list(batches(data.records or b""))
        except BatchError as error:
            raise _corrupt(r, offset, offset + 1, error) from error
        if not whole:
            return
        (at, last) = whole[-1]
        offset = last.last_offset + 1
        yield (data.records or b"")[: at + last.size]


def _fetch_once(r: OffsetRange, offset: int, settings: ClientSettings) -> PartitionData:
    request = _fetch(r, offset, settings)
    return _checked(r, offset, _socket(r, settings).request(request, highest=FETCH_NAMES_UP_TO))


def _fetch(r: OffsetRange, offset: int, settings: ClientSettings) -> FetchRequest:
    requested = FetchPartition(r.partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
    return FetchRequest(
        max_wait_ms=1000,
        min_bytes=1,
        max_bytes=FETCH_BYTES,
        isolation_level=int(settings.committed_only),
        topics=[FetchTopic(r.topic, partitions=[requested])],
    )


def _checked(r: OffsetRange, offset: int, response: Any) -> PartitionData:
    where = f"{r.topic}-{r.partition} at {offset}"
    check(response.error_code, where)  # then no partition is named
    data: PartitionData = response.responses[0].partitions[0]
    check(data.error_code, where)
    return data


def _first_offset(r: OffsetRange, settings: ClientSettings) -> int:
    from coterie.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

    requested = ListOffsetsTopic(r.topic, [ListOffsetsPartition(r.partition, timestamp=-2)])
    response = _socket(r, settings).request(ListOffsetsRequest(topics=[requested]))
    partition = response.topics[0].partitions[0]
    check(partition.error_code, f"{r.topic}-{r.partition}")
    return int(partition.offset)


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
    """A record without headers has null, as Spark's Kafka source has it."""
    headers = columns.headers
    if headers is None:
        return pa.nulls(len(columns), kind)
    return pc.if_else(pc.greater(pc.list_value_length(headers), 0), headers, pa.scalar(None, headers.type)).cast(kind)
