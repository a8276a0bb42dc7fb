"""Filters that are pushed down: no row that they accept is left out; of topic, partition and offset nothing else is read."""

from __future__ import annotations

import datetime
import operator
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from coterie.pipeline.reading.batch_reader import Bounds, bounds

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
TOPICS, PARTITIONS, OFFSETS = ("a", "b"), (0, 1, 2), range(12)
ORDER: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
}


def time(microseconds: int) -> datetime.datetime:
    return EPOCH + datetime.timedelta(microseconds=microseconds)


def accepts(one: Filter, row: dict[str, Any]) -> bool:
    """The filter on a row without nulls, as Spark evaluates it."""
    if isinstance(one, Not):
        return not accepts(one.child, row)
    value = row[one.attribute[0]]  # type: ignore[attr-defined]
    if isinstance(one, IsNotNull):
        return True
    if isinstance(one, StringStartsWith):
        return bool(value.startswith(one.value))
    if isinstance(one, In):
        return value in one.value
    if isinstance(one, EqualNullSafe):
        return bool(value == one.value)
    return ORDER[type(one)](value, one.value)  # type: ignore[attr-defined]


def compared(column: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Filter]:
    return st.builds(lambda kind, value: kind((column,), value), st.sampled_from(list(ORDER)), values)


offsets = compared("offset", st.integers(-2, 14))
names = st.builds(EqualTo, st.just(("topic",)), st.sampled_from([*TOPICS, "other"])) | st.builds(
    lambda values: In(("topic",), tuple(values)), st.lists(st.sampled_from([*TOPICS, "other"]), max_size=3)
)
numbers = st.builds(EqualTo, st.just(("partition",)), st.integers(-1, 4)) | st.builds(
    lambda values: In(("partition",), tuple(values)), st.lists(st.integers(-1, 4), max_size=3)
)
times = compared("timestamp", st.integers(-3_000, 9_000).map(time))
exact = offsets | names | numbers
ignored = (
    st.sampled_from([IsNotNull(("offset",)), StringStartsWith(("topic",), "a"), EqualNullSafe(("offset",), 3)])
    | exact.map(Not)
    | compared("partition", st.integers(-1, 4)).filter(lambda one: not isinstance(one, EqualTo))
)
rows = st.fixed_dictionaries(
    {
        "topic": st.sampled_from(TOPICS),
        "partition": st.sampled_from(PARTITIONS),
        "offset": st.sampled_from(OFFSETS),
        "timestamp": st.integers(-3, 9).map(lambda ms: time(ms * 1_000)),
    }
)


def is_read(narrowed: Bounds, row: dict[str, Any]) -> bool:
    """Whether the row lies within the bounds."""
    late_enough = narrowed.since_ms is None or row["timestamp"] >= time(narrowed.since_ms * 1_000)
    within = narrowed.first_offset <= row["offset"] < narrowed.end_offset
    return narrowed.admits((row["topic"], row["partition"])) and within and late_enough


@given(st.lists(exact | times | ignored, max_size=5), rows)
def test_no_row_that_the_filters_accept_is_left_out(filters: list[Filter], row: dict[str, Any]) -> None:
    if all(accepts(one, row) for one in filters):
        assert is_read(bounds(filters), row)


@given(st.lists(exact, max_size=4))
def test_bounds_of_topic_partition_and_offset_are_exact(filters: list[Filter]) -> None:
    narrowed = bounds(filters)
    for topic in TOPICS:
        for partition in PARTITIONS:
            for offset in OFFSETS:
                row = {"topic": topic, "partition": partition, "offset": offset, "timestamp": EPOCH}
                assert is_read(narrowed, row) == all(accepts(one, row) for one in filters)


@given(st.lists(times, min_size=1, max_size=4))
def test_the_earliest_time_is_the_latest_of_the_lower_bounds(filters: list[Filter]) -> None:
    lower = [one for one in filters if not isinstance(one, LessThan | LessThanOrEqual)]
    latest = max((one.value for one in lower), default=None)  # type: ignore[attr-defined]
    since_ms = bounds(filters).since_ms
    if latest is None:
        assert since_ms is None
    else:
        assert since_ms is not None
        assert time(since_ms * 1_000) <= latest < time((since_ms + 1) * 1_000)


def test_a_time_without_a_zone_is_utc() -> None:
    naive = datetime.datetime(2024, 1, 1)
    assert bounds([EqualTo(("timestamp",), naive)]).since_ms == 1_704_067_200_000


def test_filters_of_other_columns_and_types_change_nothing() -> None:
    others = [
        EqualTo(("value",), b"x"),
        GreaterThan(("offset",), "5"),
        EqualTo(("timestamp",), "2024"),
        EqualTo(("a", "b"), 1),
    ]
    assert bounds(others) == Bounds()
