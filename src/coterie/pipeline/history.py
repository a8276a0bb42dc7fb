"""What happened to groups, as tables: `__consumer_offsets` and the journal, each function DataFrame -> DataFrame.

The offsets records are read by the very code that a broker loads them with (`coordinator.stored.from_record`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from coterie.assignors.blobs import decode_assignment
from coterie.coordinator.events import GroupStored, OffsetRemoved, OffsetStored
from coterie.coordinator.stored import from_record
from coterie.journal import JournalLine
from coterie.wire.messages.consumer_offsets import GroupMetadataValue
from coterie.wire.primitives import WireError

# log_partition and log_offset say where in __consumer_offsets (or the journal) the row stands; times in ms since 1970.
COMMITS = (
    "group string, topic string, partition int, offset bigint, leader_epoch int, metadata string, "
    "commit_ms bigint, expire_ms bigint, deleted boolean, log_partition int, log_offset bigint"
)
GENERATIONS = (
    "group string, generation int, protocol_type string, protocol string, leader string, members int, "
    "time_ms bigint, log_partition int, log_offset bigint"
)
MEMBERS = (
    "group string, generation int, member_id string, group_instance_id string, client_id string, client_host string, "
    "session_timeout_ms int, rebalance_timeout_ms int, log_partition int, log_offset bigint"
)
ASSIGNMENTS = (
    "group string, generation int, member_id string, topic string, partition int, log_partition int, log_offset bigint"
)
REBALANCES = (
    "group string, generation int, event string, time_ms bigint, members int, leader string, protocol string, "
    "why string, causes int, join_ms bigint, sync_ms bigint, moved int, log_offset bigint"
)

Row = tuple[Any, ...]


def commits(records: Any) -> Any:
    """Records of `__consumer_offsets` -> COMMITS."""
    return _rows(records, COMMITS, _commit_rows)


def generations(records: Any) -> Any:
    """Records of `__consumer_offsets` -> GENERATIONS."""
    return _rows(records, GENERATIONS, _generation_rows)


def members(records: Any) -> Any:
    """Records of `__consumer_offsets` -> MEMBERS."""
    return _rows(records, MEMBERS, _member_rows)


def assignments(records: Any) -> Any:
    """Records of `__consumer_offsets` -> ASSIGNMENTS."""
    return _rows(records, ASSIGNMENTS, _assignment_rows)


def rebalances(records: Any) -> Any:
    """Records of the journal -> REBALANCES: the lines that end one."""
    return _rows(records, REBALANCES, _rebalance_rows)


TABLES: dict[str, Callable[[Any], Any]] = {
    "commits": commits,
    "generations": generations,
    "members": members,
    "assignments": assignments,
}


def _rows(records: Any, schema: str, make: Callable[[bytes | None, bytes | None, int, int], Iterator[Row]]) -> Any:
    """Maps each record to any number of rows, in Arrow batches."""

    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    wanted = to_arrow_schema(StructType.fromDDL(schema), timezone="UTC")

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            columns = [batch.column(n).to_pylist() for n in ("key", "value", "partition", "offset")]
            rows = [row for record in zip(*columns, strict=True) for row in make(*record)]
            turned = zip(*rows, strict=True) if rows else ([] for _ in wanted)
            yield pa.RecordBatch.from_arrays(
                [pa.array(list(c), f.type) for c, f in zip(turned, wanted, strict=True)], schema=wanted
            )

    return records.select("key", "value", "partition", "offset").mapInArrow(run, schema)


def _event(key: bytes | None, value: bytes | None) -> tuple[str, Any]:
    try:
        return from_record(key, value) or ("", None)
    except WireError:
        return "", None  # a broker steps over such a record when it loads; so do the tables


def _commit_rows(key: bytes | None, value: bytes | None, log_partition: int, log_offset: int) -> Iterator[Row]:
    group, event = _event(key, value)
    where = (log_partition, log_offset)
    if isinstance(event, OffsetStored):
        c = event.committed
        told = (c.offset, c.leader_epoch, c.metadata, c.commit_timestamp_ms, c.expire_timestamp_ms, False)
        yield (group, event.topic, event.partition, *told, *where)
    elif isinstance(event, OffsetRemoved):
        yield (group, event.topic, event.partition, None, None, None, None, None, True, *where)


def _stored(key: bytes | None, value: bytes | None) -> tuple[str, GroupMetadataValue | None]:
    group, event = _event(key, value)
    return group, event.value if isinstance(event, GroupStored) else None


def _generation_rows(key: bytes | None, value: bytes | None, log_partition: int, log_offset: int) -> Iterator[Row]:
    group, v = _stored(key, value)
    if v is not None:
        told = (v.generation, v.protocol_type, v.protocol, v.leader, len(v.members), v.current_state_timestamp)
        yield (group, *told, log_partition, log_offset)


def _member_rows(key: bytes | None, value: bytes | None, log_partition: int, log_offset: int) -> Iterator[Row]:
    group, v = _stored(key, value)
    for m in v.members if v is not None else ():
        told = (m.member_id, m.group_instance_id, m.client_id, m.client_host, m.session_timeout, m.rebalance_timeout)
        yield (group, v.generation if v else 0, *told, log_partition, log_offset)


def _assignment_rows(key: bytes | None, value: bytes | None, log_partition: int, log_offset: int) -> Iterator[Row]:
    group, v = _stored(key, value)
    if v is None or v.protocol_type != "consumer":
        return
    for m in v.members:
        try:
            for topic, partition in decode_assignment(m.assignment):
                yield (group, v.generation, m.member_id, topic, partition, log_partition, log_offset)
        except WireError:
            continue


def _rebalance_rows(key: bytes | None, value: bytes | None, log_partition: int, log_offset: int) -> Iterator[Row]:
    try:
        line = JournalLine.from_json(value or b"")
    except (ValueError, json.JSONDecodeError):
        return
    if line.event in ("stable", "empty"):
        told = (line.time_ms, line.members, line.leader, line.protocol, line.why(), len(line.causes))
        yield (line.group, line.generation, line.event, *told, line.join_ms, line.sync_ms, line.moved_count, log_offset)
