"""Raw batches of `__consumer_offsets` -> rows of `commits` and `group_log`, a column at a time.

Keys repeat: each distinct key is read once, by the code a broker loads it with. A
value of the usual shape (version 3, no metadata) is read with numpy; any other by that same code.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coterie.coordinator.state import CommittedOffset
from coterie.coordinator.stored_records.stored import GROUP_KEY_VERSION, KeyReader, committed_offset
from coterie.coordinator.stored_records.stored_consumer_groups import from_bytes
from coterie.pipeline.history.reading.sound_batches import UnreadableBatch
from coterie.records.arrow_arrays import (
    arrow_array,
    batch_of_rows,
    flag_array,
    flags_of,
    listed,
    numbers_of,
    repeated_text,
)
from coterie.records.batch import read_header
from coterie.records.columnar import Columns
from coterie.records.markers import marker_of
from coterie.wire.messages.stored.consumer_offsets import GroupMetadataKey
from coterie.wire.primitives import WireError

_USUAL = np.dtype([("version", ">i2"), ("offset", ">i8"), ("epoch", ">i4"), ("length", ">i2"), ("time_ms", ">i8")])


CONSUMER_GROUP = "consumer_group"  # the kind of a consumer group's records (KIP-848)
UNREADABLE = "unreadable"  # of a batch, or of bytes that are none


class OffsetsDecoder:
    """One task's: what it has read of keys it remembers."""

    def __init__(self, commits: pa.Schema, group_log: pa.Schema) -> None:
        self._commits, self._group_log = commits, group_log
        self._keys = KeyReader()

    def commits(self, columns: Columns, log_partition: int) -> pa.RecordBatch:
        """The commits among these records; an unreadable one is skipped, as by a broker."""
        encoded = columns.keys.dictionary_encode()
        known = [self._offset_key(key) for key in encoded.dictionary.to_pylist()]
        chosen = _chosen(encoded, [key is not None for key in known])
        mask = flag_array(chosen)
        indices = encoded.indices.filter(mask)
        values = _Values(columns.values.filter(mask))
        producers = columns.producer_ids[chosen]
        arrays = {
            "group": _column([k and k[0] for k in known], indices, pa.string()),
            "topic": _column([k and k[1][0] for k in known], indices, pa.string()),
            "partition": _column([k and k[1][1] for k in known], indices, pa.int32()),
            "offset": arrow_array(values.offset, missing=values.missing),
            "leader_epoch": arrow_array(values.epoch, missing=values.missing),
            "metadata": values.metadata,
            "commit_ms": arrow_array(np.where(values.missing, columns.timestamps[chosen], values.commit_ms)),
            "expire_ms": arrow_array(values.expire_ms, missing=values.missing | (values.expire_ms < 0)),
            "deleted": flag_array(values.missing),
            "producer_id": arrow_array(producers, missing=producers < 0),
            "log_partition": arrow_array(np.full(len(indices), log_partition, np.int32)),
            "log_offset": arrow_array(columns.offsets[chosen]),
        }
        batch = pa.RecordBatch.from_arrays([arrays[f.name] for f in self._commits], schema=self._commits)
        return batch.filter(flag_array(values.readable)) if not values.readable.all() else batch

    def _offset_key(self, key: bytes | None) -> tuple[str, tuple[str, int]] | None:
        try:
            return None if key is None else self._keys.offset_key(key)
        except WireError:
            return None

    def group_log(
        self, columns: Columns | None, data: bytes, controls: list[int], log_partition: int
    ) -> pa.RecordBatch | None:
        """Groups' records and markers; None where there are none."""
        rows: list[dict[str, Any]] = []
        for at in controls:
            header = read_header(data, at)
            committed = marker_of(data, at, header)
            if committed is not None:
                marker = {"kind": "marker", "producer_id": header.producer_id, "committed": committed}
                rows.append(marker | {"time_ms": header.max_timestamp, "log_offset": header.base_offset})
        if columns is not None:
            encoded = columns.keys.dictionary_encode()
            groups = [_group_of(key) for key in encoded.dictionary.to_pylist()]
            for index in np.nonzero(_chosen(encoded, [g is not None for g in groups]))[0]:
                entry = encoded.indices[int(index)].as_py()
                kind, group = groups[entry] or ("", "")
                rows.append(
                    {
                        "kind": kind,
                        "group": group,
                        "key": encoded.dictionary[entry].as_py() if kind == CONSUMER_GROUP else None,
                        "value": columns.values[int(index)].as_py(),
                        "time_ms": int(columns.timestamps[index]),
                        "log_offset": int(columns.offsets[index]),
                    }
                )
        for row in rows:
            row["log_partition"] = log_partition
        return batch_of_rows(rows, self._group_log) if rows else None

    def unreadable(self, batch: UnreadableBatch, log_partition: int) -> pa.RecordBatch:
        """A row of `group_log`, behind which the next run goes on."""
        value = json.dumps(asdict(batch)).encode()
        offset = batch.first_offset if batch.last_offset is None else batch.last_offset
        row = {"kind": UNREADABLE, "value": value, "log_partition": log_partition, "log_offset": offset}
        return batch_of_rows([row], self._group_log)


def _group_of(key: bytes | None) -> tuple[str, str] | None:
    """The kind of row that a key belongs to, and its group id; None for a key of anything else."""
    if key is None:
        return None
    try:
        if key[:2] == GROUP_KEY_VERSION.to_bytes(2, "big"):
            return "group", GroupMetadataKey.decode(key, GROUP_KEY_VERSION, 2).group
        record = from_bytes(key, None)
    except WireError:
        return None
    return None if record is None else (CONSUMER_GROUP, record.group_id)


def _column(distinct: list[Any], indices: pa.Array, kind: pa.DataType) -> pa.Array:
    return listed(distinct, kind).take(indices)


def _chosen(encoded: pa.DictionaryArray, wanted: list[bool]) -> Any:
    """Which records have a wanted key, as a numpy array of bool; a record without a key is none of them."""
    absent = flags_of(pc.is_null(encoded.indices))
    return np.array([*wanted, False])[np.where(absent, len(wanted), numbers_of(encoded.indices))]


class _Values:
    """The values of commits as numpy columns; ``missing``: tombstones, ``readable`` False: it cannot be decoded."""

    def __init__(self, values: pa.Array) -> None:
        count = len(values)
        self.missing: Any = flags_of(pc.is_null(values))
        self.readable: Any = np.ones(count, bool)
        self.offset: Any = np.zeros(count, np.int64)
        self.epoch: Any = np.full(count, -1, np.int32)
        self.commit_ms: Any = np.full(count, -1, np.int64)
        self.expire_ms: Any = np.full(count, -1, np.int64)
        self.metadata = repeated_text("", count)
        usual = ~self.missing & (numbers_of(pc.binary_length(values)) == _USUAL.itemsize)
        if usual.any():
            read = np.frombuffer(_joined(values.filter(flag_array(usual))), _USUAL)
            fits = (read["version"] == 3) & (read["length"] == 0)
            usual[np.nonzero(usual)[0][~fits]] = False
            self.offset[usual], self.epoch[usual] = read["offset"][fits], read["epoch"][fits]
            self.commit_ms[usual] = read["time_ms"][fits]
        others = np.nonzero(~usual & ~self.missing)[0]
        if others.size or self.missing.any():
            self._read(values, others)

    def _read(self, values: pa.Array, others: Any) -> None:
        metadata: list[str | None] = [None if gone else "" for gone in self.missing]
        for index, value in zip(others.tolist(), values.take(arrow_array(others)).to_pylist(), strict=True):
            try:
                committed: CommittedOffset = committed_offset(value)
            except WireError:
                self.readable[index] = False
                continue
            self.offset[index], self.epoch[index] = committed.offset, committed.leader_epoch
            self.commit_ms[index], self.expire_ms[index] = committed.commit_timestamp_ms, committed.expire_timestamp_ms
            metadata[index] = committed.metadata
        self.metadata = listed(metadata, pa.string())


def _joined(values: pa.Array) -> memoryview:
    """The bytes of a binary array without nulls, one after the other."""
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    return memoryview(values.buffers()[2])[int(offsets[0]) : int(offsets[-1])]
