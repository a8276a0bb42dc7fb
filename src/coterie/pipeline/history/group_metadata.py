"""`group_log` -> the content of each stored state of a group: generations, members, assignments. Frame -> Frame."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from coterie.assignors.blobs import decode_assignment, decode_subscribed_topics
from coterie.pipeline.history.reading.decoding import UNREADABLE
from coterie.pipeline.history.tables import ASSIGNMENTS, GENERATIONS, MEMBERS
from coterie.pipeline.history.tables import UNREADABLE as UNREADABLE_BATCHES
from coterie.pipeline.tables.frame import Frame, arrow_schema
from coterie.records.arrow_arrays import batch_of_rows, listed
from coterie.wire.messages.stored.consumer_offsets import GroupMetadataValue, MemberMetadata
from coterie.wire.primitives import WireError

Row = tuple[Any, ...]
LogPosition = tuple[int, int, int]  # time_ms, log_partition, log_offset


def generations(group_log: Frame) -> Frame:
    """GROUP_LOG -> GENERATIONS."""
    return _rows(group_log, GENERATIONS, _generation_rows)


def members(group_log: Frame) -> Frame:
    """GROUP_LOG -> MEMBERS."""
    return _rows(group_log, MEMBERS, _member_rows)


def assignments(group_log: Frame) -> Frame:
    """GROUP_LOG -> ASSIGNMENTS."""
    return _rows(group_log, ASSIGNMENTS, _assignment_rows)


def unreadable(group_log: Frame) -> Frame:
    """GROUP_LOG -> UNREADABLE."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            columns = (batch.column(n).to_pylist() for n in ("value", "log_partition"))
            rows = [unreadable_row(*each) for each in zip(*columns, strict=True)]
            yield batch_of_rows(rows, arrow_schema(UNREADABLE_BATCHES))

    return group_log.where("kind", UNREADABLE).map(run, UNREADABLE_BATCHES)


def unreadable_row(value: bytes, log_partition: int) -> dict[str, Any]:
    """A row of UNREADABLE from the description of a batch in `group_log`."""
    described: dict[str, Any] = json.loads(value)
    return described | {"log_partition": log_partition, "log_offset": described.pop("first_offset")}


def stored_value(value: bytes | None) -> GroupMetadataValue | None:
    """None for a tombstone and for an unreadable value: a broker skips it, and so do the tables."""
    try:
        return None if value is None else GroupMetadataValue.decode(value, int.from_bytes(value[:2], "big"), 2)
    except WireError:
        return None


def _rows(group_log: Frame, schema: str, make: Callable[[str, bytes | None, LogPosition], Iterator[Row]]) -> Frame:
    """Maps each record of a group to any number of rows, in Arrow batches."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        wanted = arrow_schema(schema)
        for batch in batches:
            columns = [
                batch.column(n).to_pylist() for n in ("group", "value", "time_ms", "log_partition", "log_offset")
            ]
            rows = [
                row
                for group, value, *position in zip(*columns, strict=True)
                for row in make(group, value, tuple(position))
            ]
            arrays = [listed([row[index] for row in rows], field.type) for index, field in enumerate(wanted)]
            yield pa.RecordBatch.from_arrays(arrays, schema=wanted)

    return group_log.where("kind", "group").map(run, schema)


def _generation_rows(group: str, value: bytes | None, position: LogPosition) -> Iterator[Row]:
    if value is None:
        yield (group, None, None, None, None, 0, True, *position)
        return
    v = stored_value(value)
    if v is not None:
        yield (group, v.generation, v.protocol_type, v.protocol, v.leader, len(v.members), False, *position)


def _member_rows(group: str, value: bytes | None, position: LogPosition) -> Iterator[Row]:
    v = stored_value(value)
    for m in v.members if v is not None else ():
        described = (
            m.member_id,
            m.group_instance_id,
            m.client_id,
            m.client_host,
            m.session_timeout,
            m.rebalance_timeout,
        )
        yield (group, v.generation if v else 0, *described, topics_of(v, m), *position)


def _assignment_rows(group: str, value: bytes | None, position: LogPosition) -> Iterator[Row]:
    v = stored_value(value)
    for m in v.members if v is not None else ():
        for topic, partition in assigned(v, m):
            yield (group, v.generation if v else 0, m.member_id, m.client_id, topic, partition, *position)


def topics_of(value: GroupMetadataValue | None, member: MemberMetadata) -> list[str] | None:
    """None where the member is no consumer (a Connect worker) or its blob cannot be read."""
    if value is None or value.protocol_type != "consumer":
        return None
    try:
        return sorted(decode_subscribed_topics(member.subscription))
    except WireError:
        return None


def assigned(value: GroupMetadataValue | None, member: MemberMetadata) -> list[tuple[str, int]]:
    """The (topic, partition) pairs of a member's assignment; none for a group that is not of consumers, and where the
    bytes are no consumer's."""
    if value is None or value.protocol_type != "consumer":
        return []
    try:
        return list(decode_assignment(member.assignment))
    except WireError:
        return []
