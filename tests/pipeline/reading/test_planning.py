"""How a batch is divided into tasks, and admission limits: plain Python, no Spark."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.pipeline.options.options import SourceOptions, source_options
from coterie.pipeline.options.types import OptionError
from coterie.pipeline.reading.planning import OffsetRange, divide
from coterie.pipeline.streaming.admission import Admission, Limits, limit_bytes, limit_rows

ranges = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 1000)), max_size=20)


def whole(*sizes: int) -> list[OffsetRange]:
    return [OffsetRange("t", p, 5, 5 + size, "h", 1) for p, size in enumerate(sizes)]


def sizes(divided: list[OffsetRange]) -> list[tuple[int, int]]:
    return [(r.partition, r.size) for r in divided]


def test_a_partition_is_one_task_whatever_its_size() -> None:
    assert sizes(divide(whole(1_000_000, 0, 1, 7))) == [(0, 1_000_000), (2, 1), (3, 7)]
    assert sizes(divide(whole(1_000_000, 1), min_partitions=2)) == [(0, 1_000_000), (1, 1)]


@pytest.mark.parametrize(
    ("given_sizes", "min_partitions", "max_records", "expected"),
    [
        ([10], 3, None, [(0, 3), (0, 3), (0, 4)]),
        ([29, 29, 29], 4, None, [(0, 29), (1, 29), (2, 29)]),  # 1.33 each, rounded
        ([100, 100], 3, None, [(0, 50), (0, 50), (1, 50), (1, 50)]),  # 1.5 each, halves up
        ([1, 1, 100], 6, None, [(0, 1), (1, 1), (2, 25), (2, 25), (2, 25), (2, 25)]),  # the small ones count as tasks
        ([2], 5, None, [(0, 1), (0, 1)]),  # no more tasks than records
        ([10, 3], None, 4, [(0, 3), (0, 3), (0, 4), (1, 3)]),
        ([10, 2], 4, 5, [(0, 2), (0, 3), (0, 2), (0, 3), (1, 2)]),  # 5, 5, 2: the large ones share what is left, 3
        ([8], 8, 4, [(0, 1)] * 8),
    ],
)
def test_partitions_are_cut_by_the_connectors_rule(
    given_sizes: list[int], min_partitions: int | None, max_records: int | None, expected: list[tuple[int, int]]
) -> None:
    assert sizes(divide(whole(*given_sizes), min_partitions, max_records)) == expected


@given(ranges, st.one_of(st.none(), st.integers(1, 40)), st.one_of(st.none(), st.integers(1, 400)))
def test_every_record_is_in_one_task(
    given_ranges: list[tuple[int, int]], min_partitions: int | None, max_records: int | None
) -> None:
    wanted = [OffsetRange("t", p, start, start + size, "h", 1) for p, (start, size) in enumerate(given_ranges)]
    divided = divide(wanted, min_partitions, max_records)
    offsets = [(r.partition, o) for r in divided for o in range(r.start, r.end)]
    assert offsets == [(r.partition, o) for r in wanted for o in range(r.start, r.end)]
    assert max_records is None or all(0 < r.size <= max_records for r in divided)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=12), st.integers(1, 500))
def test_a_limit_holds_and_always_goes_on(available: list[int], rows: int) -> None:
    start = {("t", p): 7 for p in range(len(available))}
    end = {("t", p): 7 + size for p, size in enumerate(available)}
    limited = limit_rows(start, end, rows)
    taken = sum(limited[tp] - start[tp] for tp in end)
    assert all(start[tp] <= limited[tp] <= end[tp] for tp in end)
    assert taken <= rows + sum(size > 0 for size in available)
    assert all(limited[tp] > start[tp] for tp in end if end[tp] > start[tp]), "of each partition at least one record"


def test_a_small_limit_reads_of_every_partition() -> None:
    start = {("t", p): 0 for p in range(200)}
    assert sum(limit_rows(start, dict.fromkeys(start, 100), 100).values()) == 200
    assert limit_rows({}, {("t", 0): 10_000, ("t", 1): 100}, 50) == {("t", 0): 49, ("t", 1): 1}


def test_options_are_read_by_their_names_in_any_case() -> None:
    given_options = {
        "Kafka.Bootstrap.Servers": "h:9092,other:1",
        "SUBSCRIBE": "a, b",
        "startingOffsets": json.dumps({"a": {"0": 5}}),
        "maxOffsetsPerTrigger": "100",
        "includeHeaders": "true",
    }
    o = source_options(given_options, streaming=True)
    assert (o.client["bootstrap.servers"], o.subscribe, o.starting) == ("h:9092,other:1", ("a", "b"), {"a": {"0": 5}})
    assert (o.max_offsets_per_trigger, o.include_headers, o.fail_on_data_loss) == (100, True, True)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"subscribe": "t", "startingOffset": "earliest"}, "no option startingoffset; did you mean startingOffsets?"),
        ({"subscribe": "t", "kafka.security.protocol": "SASL_SSL"}, "needs sasl.username and sasl.password"),
        ({"subscribe": "t", "kafka.ssl.truststore.type": "JKS"}, "must be PEM here"),
        ({"subscribe": "t", "mode": "both"}, "mode must be assign or group"),
        ({"subscribe": "t", "mode": "share"}, "mode cannot be share: .*; use mode=group"),
        ({"subscribe": "t", "mode": "group"}, "mode=group is for streams"),
        ({"subscribe": "t", "startingOffsetsByTimestamp": "now"}, "must be JSON like"),
        ({"subscribe": "t", "assign": "{}"}, "exactly one"),
        ({"subscribe": "t", "minPartitions": "-1"}, "positive whole number"),
        ({"subscribe": "t", "kafka.bootstrap.servers": "nowhere"}, "must be HOST:PORT"),
        ({"assign": "[1]"}, "must be JSON like"),
    ],
)
def test_a_bad_option_is_said_in_a_sentence(bad: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        source_options({"kafka.bootstrap.servers": "h:1"} | bad, streaming=False)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"subscribe": "t"}, "needs the option kafka.group.id"),
        ({"assign": '{"t":[0]}', "kafka.group.id": "g"}, "exclude each other"),
        ({"subscribe": "t", "kafka.group.id": "g", "startingOffsets": '{"t":{"0":1}}'}, "earliest or latest only"),
    ],
)
def test_what_group_mode_cannot_have(bad: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        source_options({"kafka.bootstrap.servers": "h:1", "mode": "group"} | bad, streaming=True)


def test_secrets_are_not_shown() -> None:
    given = {"kafka.sasl.password": "hush", "kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.username": "u"}
    options = source_options({"kafka.bootstrap.servers": "h:1", "subscribe": "t", **given}, streaming=False)
    assert "hush" not in repr(options)
    assert "hush" not in repr(options.settings().security())


@given(st.lists(st.tuples(st.integers(0, 1000), st.floats(1, 500)), min_size=1, max_size=12), st.integers(1, 50_000))
def test_a_limit_in_bytes_holds_and_always_goes_on(available: list[tuple[int, float]], size_bytes: int) -> None:
    start = {("t", p): 7 for p in range(len(available))}
    end = {("t", p): 7 + size for p, (size, _) in enumerate(available)}
    record_bytes = {("t", p): each for p, (_, each) in enumerate(available)}
    limited = limit_bytes(start, end, size_bytes, record_bytes)
    taken = {tp: limited[tp] - start[tp] for tp in end}
    assert all(0 <= count <= end[tp] - start[tp] for tp, count in taken.items())
    one_of_each = sum(each for size, each in available if size)
    assert sum(count * record_bytes[tp] for tp, count in taken.items()) <= size_bytes * 1.000001 + one_of_each
    assert all(taken[tp] for tp in end if end[tp] > start[tp])


def test_a_batch_waits_for_enough_records_but_not_for_ever() -> None:
    now_s = 0.0
    options = SourceOptions({}, min_offsets_per_trigger=100, max_trigger_delay_s=10)
    admission = Admission(options, sampler=None, clock_s=lambda: now_s)  # type: ignore[arg-type]
    start = {("t", 0): 0}

    def admitted(available: int, at_once: bool = False) -> int:
        return admission.admit(start, {("t", 0): available}, Limits(at_once=at_once))["t", 0]

    assert admitted(5) == 5, "the first batch does not wait"
    assert (admitted(99), admitted(100), admitted(5)) == (0, 100, 0)
    assert admitted(5, at_once=True) == 5, "Trigger.Once does not wait"
    assert admitted(5) == 0
    now_s = 10.1
    assert (admitted(5), admitted(5)) == (5, 0)
