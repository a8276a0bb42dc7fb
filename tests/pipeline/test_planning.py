"""Sharing records out over tasks, and admission limits: plain Python, no Spark."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.pipeline.admission import Admission, Limits, limit_bytes, limit_rows
from coterie.pipeline.options import OptionError, SourceOptions, source_options
from coterie.pipeline.planning import OffsetRange, share_out

ranges = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 1000)), max_size=20)


@given(ranges, st.integers(1, 8))
def test_every_record_is_shared_out_once_and_evenly(sizes: list[tuple[int, int]], tasks: int) -> None:
    wanted = [OffsetRange("t", p, start, start + size, "h", 1) for p, (start, size) in enumerate(sizes)]
    shared = share_out(wanted, tasks)
    assert len(shared) <= tasks
    got = sorted((r.partition, o) for part in shared for r in part for o in range(r.start, r.end))
    assert got == sorted((r.partition, o) for r in wanted for o in range(r.start, r.end))
    total = sum(r.size for r in wanted)
    assert all(sum(r.size for r in part) <= -(-total // tasks) for part in shared)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=12), st.integers(1, 500))
def test_a_limit_holds_and_always_goes_on(available: list[int], rows: int) -> None:
    start = {("t", p): 7 for p in range(len(available))}
    end = {("t", p): 7 + size for p, size in enumerate(available)}
    limited = limit_rows(start, end, rows)
    taken = sum(limited[tp] - start[tp] for tp in end)
    assert all(start[tp] <= limited[tp] <= end[tp] for tp in end)
    assert taken <= max(rows, 1)
    assert taken > 0 or sum(available) == 0


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
    ("bad", "said"),
    [
        ({"subscribe": "t", "startingOffset": "earliest"}, "no option startingoffset; did you mean startingOffsets?"),
        ({"subscribe": "t", "kafka.session.timeout": "1"}, "did you mean session.timeout.ms"),
        ({"subscribe": "t", "kafka.security.protocol": "SASL_SSL"}, "needs sasl.username and sasl.password"),
        ({"subscribe": "t", "kafka.ssl.truststore.type": "JKS"}, "must be PEM here"),
        ({"subscribe": "t", "mode": "both"}, "mode must be assign or group"),
        ({"subscribe": "t", "mode": "group"}, "mode=group is for streams"),
        ({"subscribe": "t", "maxTriggerDelay": "soon"}, "a time such as 500ms"),
        ({"subscribe": "t", "startingOffsetsByTimestamp": "now"}, "must be JSON like"),
        ({"subscribe": "t", "assign": "{}"}, "exactly one"),
        ({"subscribe": "t", "maxOffsetsPerTrigger": "0"}, "positive whole number"),
        ({"subscribe": "t", "kafka.bootstrap.servers": "nowhere"}, "must be HOST:PORT"),
        ({"assign": "[1]"}, "must be JSON like"),
    ],
)
def test_a_bad_option_is_said_in_a_sentence(bad: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        source_options({"kafka.bootstrap.servers": "h:1"} | bad, streaming=False)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"subscribe": "t"}, "needs the option kafka.group.id"),
        ({"assign": '{"t":[0]}', "kafka.group.id": "g"}, "exclude each other"),
        ({"subscribe": "t", "kafka.group.id": "g", "startingOffsets": '{"t":{"0":1}}'}, "earliest or latest only"),
    ],
)
def test_what_group_mode_cannot_have(bad: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
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
    total = sum(taken.values())
    assert sum(count * record_bytes[tp] for tp, count in taken.items()) <= size_bytes * 1.000001 or total == 1
    assert total > 0 or not any(size for size, _ in available)


def test_a_batch_waits_for_enough_records_but_not_for_ever() -> None:
    now_s = 0.0
    options = SourceOptions({}, min_offsets_per_trigger=100, max_trigger_delay_s=10)
    admission = Admission(options, sampler=None, clock_s=lambda: now_s)  # type: ignore[arg-type]
    start = {("t", 0): 0}

    def admitted(available: int) -> int:
        return admission.admit(start, {("t", 0): available}, Limits())["t", 0]

    assert (admitted(99), admitted(100), admitted(5)) == (0, 100, 0)
    now_s = 10.1
    assert (admitted(5), admitted(5)) == (5, 0)
