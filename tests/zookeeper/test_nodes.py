"""ZooKeeper's nodes: what is written is read, of a node with any other text comes Corrupt; the shares are each thread's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.zookeeper import paths
from coterie.zookeeper.assignment import share, threads_by_topic, threads_of
from coterie.zookeeper.operations import Corrupt
from tests.text.hostile_json import DEEP, documents

names = st.text("abcxyz019._-", min_size=1, max_size=8)
times_ms = st.integers(0, 2**53)


@given(st.dictionaries(names, st.integers(0, 1000), max_size=6), times_ms)
def test_a_subscription_is_read_as_it_was_written(threads: dict[str, int], now_ms: int) -> None:
    assert paths.subscription_of(paths.registration(threads, now_ms)) == threads


@given(st.dictionaries(st.integers(0, 5000), st.lists(st.integers(0, 9)), max_size=30))
def test_partitions_are_read_in_order(replicas: dict[int, list[int]]) -> None:
    assert paths.partitions_of(paths.partitions(replicas)) == tuple(sorted(replicas))


@given(names | st.just("::1"), st.integers(1, 65_535), times_ms)
def test_a_brokers_address_is_read_as_it_was_written(host: str, port: int, now_ms: int) -> None:
    assert paths.address_of(paths.broker_address(host, port, now_ms)) == (host, port)
    bracketed = f"[{host}]" if ":" in host else host
    endpoints = {"host": None, "port": -1, "endpoints": [f"PLAINTEXT://{bracketed}:{port}"]}
    assert paths.address_of(json.dumps(endpoints)) == (host, port)


@given(st.integers(0, 2**63 - 1))
def test_an_offset_is_read_as_it_was_written(offset: int) -> None:
    assert paths.offset_of(str(offset)) == offset


@given(st.text(max_size=6) | st.sampled_from(["²", "9" * 5000, "٣", "-1", "1_0", " 1", "+1"]))
def test_an_offset_is_digits_or_corrupt(text: str) -> None:
    try:
        offset = paths.offset_of(text)
    except Corrupt:
        assert not (text.isascii() and text.isdigit()) or len(text) > 19
    else:
        assert offset == int(text) <= 2**63 - 1
        assert text.isascii()


ANY_NODE: list[tuple[Callable[[str], object], Any]] = [
    (paths.subscription_of, {"version": 1, "subscription": {"t": 2}, "pattern": "static", "timestamp": "5"}),
    (paths.partitions_of, {"version": 1, "partitions": {"0": [1], "1": [1]}}),
    (paths.address_of, {"version": 1, "host": "h", "port": 9092, "endpoints": ["PLAINTEXT://h:9092"]}),
    (paths.address_of, {"version": 4, "host": None, "port": -1, "endpoints": ["SSL://h:9092"]}),
]


@pytest.mark.parametrize(("read", "valid"), ANY_NODE, ids=["member", "topic", "broker", "endpoints"])
def test_a_node_of_any_shape_is_read_or_corrupt(read: Callable[[str], object], valid: Any) -> None:
    assert read(json.dumps(valid))

    @given(documents(valid) | st.text(max_size=20))
    def read_or_corrupt(text: str) -> None:
        try:
            read(text)
        except Corrupt:
            return

    read_or_corrupt()
    with pytest.raises(Corrupt):
        read(DEEP)


subscriptions = st.dictionaries(
    names, st.dictionaries(st.sampled_from("tuv"), st.integers(1, 12), max_size=3), max_size=6
)


@given(subscriptions, st.integers(0, 40))
def test_every_partition_has_one_thread_of_a_member_that_reads_the_topic(
    reading: dict[str, dict[str, int]], count: int
) -> None:
    by_topic = threads_by_topic(reading)
    assert {topic for threads in reading.values() for topic in threads} == set(by_topic)
    for topic, threads in by_topic.items():
        shares = [share(range(count), threads, thread) for thread in threads]
        assert [partition for part in shares for partition in part] == list(range(count))
        sizes = [len(part) for part in shares]
        assert sizes == sorted(sizes, reverse=True), "the remainder is the first threads'"
        assert max(sizes) - min(sizes) <= 1
        wanted = [thread for member, by in reading.items() for thread in threads_of(member, by.get(topic, 0))]
        assert sorted(wanted) == threads


@given(st.lists(st.integers(0, 50), unique=True).map(sorted), st.sets(names, min_size=1), names)
def test_a_thread_that_is_not_listed_has_no_share(partitions: list[int], threads: set[str], thread: str) -> None:
    shared = share(partitions, sorted(threads), thread)
    each, more = divmod(len(partitions), len(threads))
    assert bool(shared) == (thread in threads and sorted(threads).index(thread) < (more if not each else len(threads)))
