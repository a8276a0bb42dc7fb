"""The columns of a task's rows as a producer takes them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from coterie.client.producer.column_sender import RecordColumns
from coterie.pipeline.options.types import OptionError
from coterie.records.arrow_arrays import blobs_of, numbers_of, valid_of
from coterie.records.batch import Header


def by_topic(batch: Any, names: Sequence[str], topic: str | None) -> Iterator[tuple[str, RecordColumns]]:
    """The rows of an Arrow batch by topic, in order: all in ``topic``, or where that is None in those of the column topic.
    ``names``: the columns that become part of a record. Raises OptionError."""
    rows = _record_columns(batch, names)
    if topic is not None:
        yield topic, rows
        return
    indexes: defaultdict[str, list[int]] = defaultdict(list)
    for index, name in enumerate(batch.column("topic").to_pylist()):
        indexes[name].append(index)
    if None in indexes:
        raise OptionError("a row has no topic: give the option topic, or fill the column topic")
    for name, of_topic in indexes.items():
        yield name, rows if len(indexes) == 1 else rows.selected(of_topic)


def _record_columns(batch: Any, names: Sequence[str]) -> RecordColumns:
    keys = blobs_of(batch.column("key")) if "key" in names else None
    partitions = batch.column("partition").to_pylist() if "partition" in names else None
    headers, header_bytes = _headers(batch.column("headers")) if "headers" in names else (None, None)
    return RecordColumns(blobs_of(batch.column("value")), keys, partitions, headers, header_bytes)


def _headers(column: Any) -> tuple[list[tuple[Header, ...]], list[int]]:
    """The headers of each row, none where they are null, and their size in bytes. Raises OptionError."""
    names, values = (field.to_pylist() for field in column.values.flatten())
    if None in (distinct := set(names)):
        raise OptionError("a header has no name: fill the field key of the column headers")
    name_bytes = {name: len(name.encode()) for name in distinct}
    offsets = numbers_of(column.offsets)
    begins, ends = offsets[:-1], offsets[1:]
    if column.null_count:
        ends = ends * (valid := valid_of(column))
        begins = begins * valid
    pairs = list(zip(names, values, strict=True))
    sizes = [name_bytes[name] + len(value or b"") for name, value in pairs]
    if len(pairs) == len(column) and (ends - begins == 1).all():
        return list(zip(pairs, strict=True)), sizes
    bounds = list(zip(begins.tolist(), ends.tolist(), strict=True))
    before = [0, *accumulate(sizes)]
    return [tuple(pairs[begin:end]) for begin, end in bounds], [before[end] - before[begin] for begin, end in bounds]
