"""A task's side: ranges of offsets fetched (`range_reader`) and made into Arrow batches. Plain sockets, no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from coterie.client.connection.blocking_socket import BrokerSocket, Sockets
from coterie.client.errors import CorruptBatchError, OffsetOutOfRangeError
from coterie.client.settings.settings import ClientSettings
from coterie.consuming.fetching.position import Stored
from coterie.machines.cluster_metadata import Address
from coterie.pipeline.offsets import DataLossError
from coterie.pipeline.reading.planning import OffsetRange
from coterie.pipeline.reading.range_reader import RangeReader
from coterie.records.arrow_arrays import arrow_array, bit_buffer, repeated_text
from coterie.records.columnar import Columns, columns_in_pieces, columns_of

CLIENT_ID = "coterie-spark-task"

_sockets: dict[Address, BrokerSocket] = {}


def _opened(settings: ClientSettings) -> Sockets:
    def open_socket(address: Address) -> BrokerSocket:
        return BrokerSocket(*address, client_id=CLIENT_ID, security=settings.security())

    return Sockets(open_socket, _sockets)


def read_range(
    r: OffsetRange, settings: ClientSettings, *, with_headers: bool, fail_on_data_loss: bool
) -> Iterator[Columns]:
    """The range's records, a fetch at a time, or a piece of one that unfolds to very much. Faults that pass are waited out for
    default.api.timeout.ms. Raises KafkaError, DataLossError; CorruptBatchError at once for a batch that cannot be read."""
    reader, begin = RangeReader(r, settings, _opened(settings)), r.start
    while begin < r.end:
        try:
            for stored in reader.batches():
                for columns in _pieces(r, stored, with_headers):
                    first = int(columns.offsets.searchsorted(begin))
                    last = int(columns.offsets.searchsorted(r.end))
                    if last > first:
                        yield columns.slice(first, last)
            return
        except OffsetOutOfRangeError as error:
            offset = reader.position.fetch_offset
            if fail_on_data_loss:
                raise DataLossError(
                    f"{r.topic}-{r.partition}: records {offset} to {r.end - 1} are gone (retention or "
                    "deletion); set failOnDataLoss=false to go on without them"
                ) from error
            begin = reader.first_offset()
            if begin <= offset:
                return  # behind the end: the topic was made again
            reader.seek(begin)


def _pieces(r: OffsetRange, stored: list[Stored], with_headers: bool) -> Iterator[Columns]:
    """The pieces of all batches together. Raises CorruptBatchError for the first that cannot be read."""
    raw = [(b.data, b.at, b.header) for b in stored]
    try:
        yield from columns_in_pieces(raw, with_headers=with_headers)
    except Exception:  # whatever the bytes made a decoder raise
        for batch in raw:
            try:
                columns_of([batch], with_headers=with_headers)
            except Exception as error:
                first, last = batch[2].base_offset, batch[2].last_offset
                raise CorruptBatchError(r.topic, r.partition, first, last + 1, str(error)) from error
        raise


def fetched(r: OffsetRange, settings: ClientSettings) -> Iterator[bytes]:
    """The range's batches as they are stored, control batches too, a fetch at a time; the last may run past the range, and
    the first begin before it. Raises KafkaError; faults that pass are waited out as in `read_range`."""
    reader = RangeReader(r, settings, _opened(settings), as_stored=True)
    for stored in reader.batches():
        if stored:
            last = stored[-1]
            yield last.data[stored[0].at : last.at + last.header.size]


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
                array = repeated_text(topic, count)
            case "partition":
                array = arrow_array(np.full(count, partition, np.int32))
            case "offset":
                array = arrow_array(columns.offsets)
            case "timestamp":
                array = arrow_array(columns.timestamps * 1000, field.type)
            case "timestampType":
                array = arrow_array(columns.timestamp_types)
            case "headers":
                array = _header_array(columns, field.type)
            case other:
                raise KeyError(f"the coterie source has no column {other}")
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _header_array(columns: Columns, kind: pa.DataType) -> pa.Array:
    """A record without headers has null, as Spark's Kafka source has it; nothing is copied."""
    headers = columns.headers
    if headers is None:
        return pa.nulls(len(columns), kind)
    ends: Any = np.frombuffer(headers.buffers()[1], np.int32)[headers.offset : headers.offset + len(headers) + 1]
    buffers = [bit_buffer(ends[1:] != ends[:-1]), pa.py_buffer(ends)]
    pairs = headers.values if headers.type == kind else headers.values.cast(kind.value_type)
    return pa.Array.from_buffers(kind, len(headers), buffers, children=[pairs])
