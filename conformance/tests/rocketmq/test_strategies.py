"""Allocation: everything to somebody and nothing twice; a few answers of RocketMQ's own classes; frames that are damaged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.tests.rocketmq.server import stored
from coterie.rocketmq.allocation import AllocationError, MessageQueue, averagely
from coterie.rocketmq.queue_locks import LOCK_MAX_LIVE_MS, QueueLocks
from coterie.rocketmq.requests import RemotingCommand, encode
from coterie_conformance.rocketmq.frames import FrameError, decode, read_body, read_messages
from coterie_conformance.rocketmq.strategies import (
    STRATEGIES,
    by_config,
    by_machine_room,
    consistent_hash,
    machine_room_nearby,
)


def queues(count: int, broker: str = "b") -> list[MessageQueue]:
    return [MessageQueue("t", broker, n) for n in range(count)]


@given(st.sampled_from(sorted(STRATEGIES)), st.integers(1, 60), st.sets(st.text("abcxyz0123", min_size=1), min_size=1))
def test_every_queue_has_one_client(name: str, count: int, ids: set[str]) -> None:
    clients = sorted(ids)
    shares = [STRATEGIES[name](c, queues(count), clients) for c in clients]
    given_out = [q for share in shares for q in share]
    assert sorted(given_out) == queues(count)
    if name != "CONSISTENT_HASH":
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_a_client_that_the_others_do_not_know_gets_nothing() -> None:
    for strategy in STRATEGIES.values():
        assert strategy("new", queues(4), ["old"]) == []
    with pytest.raises(AllocationError):
        averagely("c", [], ["c"])


def test_consistent_hashing_moves_only_what_it_must() -> None:
    before = {q: c for c in ("c1", "c2", "c3") for q in consistent_hash()(c, queues(64), ["c1", "c2", "c3"])}
    after = {q: c for c in ("c1", "c3") for q in consistent_hash()(c, queues(64), ["c1", "c3"])}
    assert all(after[q] == c for q, c in before.items() if c != "c2")


def test_answers_of_rocketmqs_own_classes() -> None:
    """Recorded from 4.9.5; five thousand more per strategy and version in `./run conformance --part rocketmq`."""
    clients = ["c1", "c2", "c3"]
    assert [q.queue_id for q in consistent_hash()("c2", queues(16), clients)] == CONSISTENT_C2
    rooms = [*queues(5, "r1@b"), *queues(3, "r2@b")]
    near = by_machine_room(["r1"])
    assert [[q.queue_id for q in near(c, rooms, clients)] for c in clients] == [[0, 3], [1, 4], [2]]
    nearby = machine_room_nearby(averagely, lambda q: q.broker_name.partition("@")[0], lambda c: c.partition("-")[0])
    mine = nearby("r1-a", rooms, ["r1-a", "r1-b"])
    assert [(q.broker_name, q.queue_id) for q in mine] == [
        ("r1@b", 0),
        ("r1@b", 1),
        ("r1@b", 2),
        ("r2@b", 0),
        ("r2@b", 1),
    ]
    assert by_config(queues(2))("c9", queues(8), clients) == queues(2)


CONSISTENT_C2 = [0, 2, 3, 4, 5, 8, 10, 15]


def test_a_lock_is_one_clients_until_it_is_old() -> None:
    locks = QueueLocks()
    assert locks.lock("g", "c1", queues(2), 0) == set(queues(2))
    assert locks.lock("g", "c2", queues(2), LOCK_MAX_LIVE_MS) == set()
    assert locks.lock("g", "c1", queues(1), LOCK_MAX_LIVE_MS) == set(queues(1)), "renewed"
    assert locks.lock("g", "c2", queues(2), LOCK_MAX_LIVE_MS + 1) == set(queues(2)[1:])
    locks.unlock("g", "c2", queues(2))
    assert locks.holder("g", queues(1)[0], LOCK_MAX_LIVE_MS + 1) == "c1", "only its own"


@given(st.binary(max_size=80))
def test_damaged_frames_are_told_from_whole_ones(data: bytes) -> None:
    whole = encode(RemotingCommand(105, {"topic": "t"}, b"{}", opaque=7))[4:]
    assert decode(whole).fields == {"topic": "t"}
    for frame in (data, whole[: len(data)], data + whole):
        try:
            decode(frame)
        except FrameError:
            continue


@given(st.integers(0, 120), st.integers(0, 255))
def test_damaged_messages_are_told_from_whole_ones(at: int, byte: int) -> None:
    whole = stored(b"hello", "t", 3, 9) + stored(b"world" * 9, "t", 3, 10, compressed=True)
    first, second = read_messages(whole)
    assert (first.body, second.body, second.queue_offset, first.properties) == (
        b"hello",
        b"world" * 9,
        10,
        {"KEY": "val"},
    )
    broken = bytearray(whole)
    broken[at % len(whole)] = byte
    try:
        list(read_messages(bytes(broken)))
    except FrameError:
        return


def test_maps_of_numbers_are_read_as_fastjson_writes_them() -> None:
    assert read_body(b'{"a":{0:"x",1:"y"}}') == {"a": {"0": "x", "1": "y"}}
    with pytest.raises(FrameError):
        read_body(b"{nothing}")
