"""Group mode's rules, call by call as Spark makes them, without Spark. The member of a group that a Spark stream is,
beside a broker whose responses are in the test's hands."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.client import Admin
from coterie.client.blocking import BlockingConsumer
from coterie.member.effects import TopicPartition
from coterie.pipeline.options.options import source_options
from coterie.pipeline.streaming.group_member import GroupMember
from coterie.pipeline.streaming.group_stream import ranges_of
from coterie.testing import ErrorCode, LocalBroker
from tests.broker_process import BrokerProcess
from tests.pipeline.group.group_query import MEMBER, Query, Range, broker_of_600, committed

T0 = ("t", 0)


@pytest.fixture(params=list(MEMBER))
def protocol(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def broker(tmp_path: Path, protocol: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[BrokerProcess]:
    monkeypatch.setattr(Query, "member_options", MEMBER[protocol])
    with broker_of_600(tmp_path / "data") as process:
        yield process


def test_one_query_reads_everything_and_the_group_knows(broker: BrokerProcess) -> None:
    query = Query(broker)
    assert query.drain() == 600
    assert committed(broker) == dict.fromkeys(range(6), 100)
    assert query.stream.report()["lag"] == {"t": {str(p): 0 for p in range(6)}}
    assert not query.plan()
    query.stream.leave()


def test_the_assignment_changes_only_at_a_border_and_nothing_is_read_twice(broker: BrokerProcess) -> None:
    one, two = Query(broker), Query(broker)
    while not one.plan(rows=60):
        pass
    before = one.owned()
    while not one.stream.member._member.for_poll:
        two.plan(rows=60)  # joins; the group waits for the border of one's batch
    assert one.owned() == before == set(range(6)), "nothing moves in the middle of a batch"
    one.run()
    until_s = time.monotonic() + 20  # a round without records takes no time, and the next heartbeat does
    while sum((one.sink + two.sink).values()) < 600 and time.monotonic() < until_s:
        for query in (one, two):
            if query.plan(rows=50):
                query.run()
    assert one.owned()
    assert two.owned()
    assert not one.owned() & two.owned()
    assert set((one.sink + two.sink).values()) == {1}
    assert len(one.sink + two.sink) == 600
    one.stream.leave()
    two.stream.leave()


def test_a_batch_that_another_member_has_done_is_fenced_off_when_it_is_run_again(broker: BrokerProcess) -> None:
    """The replay hazard: A is stopped in a batch, B takes over, A is started again and replays from its log."""
    one = Query(broker)
    while not one.plan(rows=240):
        pass
    one.stream.leave()  # planned, and never run
    two = Query(broker)
    assert two.drain() == 600
    two.stream.leave()
    one.start()
    assert one.plan()
    assert one.run() == 0
    assert one.drain() == 0
    one.stream.leave()
    assert set((one.sink + two.sink).values()) == {1}


def test_a_batch_of_which_a_part_is_done_is_clipped(broker: BrokerProcess) -> None:
    one = Query(broker)
    while not one.plan(rows=240):
        pass
    one.stream.leave()
    two = Query(broker)
    while not two.plan(rows=120):
        pass
    two.run()
    two.plan(rows=1)  # its border commits the 120
    two.stream.leave()
    one.start()
    assert one.plan()
    assert one.run() == 120
    assert one.drain() == 360
    one.stream.leave()
    assert set((one.sink + two.sink).values()) == {1}
    assert committed(broker) == dict.fromkeys(range(6), 100)


def test_what_a_replay_left_to_others_is_not_taken_for_done(broker: BrokerProcess) -> None:
    """A replays a batch while B owns a part of it: what was fenced off is B's to read, in A's next life too."""
    one = Query(broker)
    while not one.plan(rows=600):
        pass
    one.stream.leave()
    two = Query(broker)
    while not two.plan(rows=6):
        pass
    one.start()
    joined = one.stream
    two.run()
    while len(two.owned()) == 6 or not one.owned():  # B's border lets A in
        joined._settle({}, 0.2)
        two.stream._settle(two.stream._planned[1], 0.2)
    one.plan()
    read = one.run()
    assert 0 < read < 600
    one.stream.leave()  # before its border: the group has not heard of the replay
    one.start()
    two.stream.leave()
    one.drain()
    one.stream.leave()
    assert set(one.sink + two.sink) == {(p, o) for p in range(6) for o in range(100)}, "nothing is lost"


def test_a_kill_repeats_at_most_the_batch_that_was_not_committed(broker: BrokerProcess) -> None:
    one = Query(broker)
    while not one.plan(rows=120):
        pass
    one.run()
    one.stream.leave()  # as a kill between two batches: done, and the group has not heard
    one.start()
    one.drain()
    assert len(one.sink) == 600
    assert sum(one.sink.values()) == 720
    one.stream.leave()


def test_offsets_never_go_back_and_a_reset_counts(broker: BrokerProcess) -> None:
    one = Query(broker)
    one.drain()
    one.stream.leave()

    async def reset() -> None:
        async with Admin({"bootstrap.servers": broker.address}) as admin:
            await admin.alter_consumer_group_offsets("g", {("t", p): 90 for p in range(6)})

    asyncio.run(reset())
    one.start()
    assert one.drain() == 60, "the group was set back on purpose"
    one.stream.leave()
    assert committed(broker) == dict.fromkeys(range(6), 100)


def test_an_ordinary_consumer_shares_the_group(broker: BrokerProcess) -> None:
    one = Query(broker)
    while not one.plan(rows=60):
        pass
    one.run()
    settings = {"bootstrap.servers": broker.address, "group.id": "g", "heartbeat.interval.ms": 50}
    plain: Counter[Range] = Counter()
    with BlockingConsumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False}) as consumer:
        consumer.subscribe(["t"])
        for _ in range(200):
            for (_, partition), records in consumer.poll(20).items():
                plain.update((partition, r.offset) for r in records)
            if plain:
                consumer.commit()
            if one.plan(rows=30):
                one.run()
            if sum((one.sink + plain).values()) >= 600:
                break
    assert plain
    assert one.sink
    assert set(one.sink + plain) == {(p, o) for p in range(6) for o in range(100)}
    assert set((one.sink + plain).values()) == {1}
    one.stream.leave()


def test_the_planned_offset_names_its_ranges(broker: BrokerProcess) -> None:
    one = Query(broker)
    while not one.plan(rows=60):
        pass
    assert one.planned is not None
    assert ranges_of(one.planned) == {("t", p): (0, 10) for p in range(6)}
    assert one.planned["generation"] >= 1
    one.stream.leave()


def test_a_query_outlives_its_broker(broker: BrokerProcess, protocol: str) -> None:
    """Killed and started again while the query asks, reads and commits."""
    one = Query(broker, **({"kafka.session.timeout.ms": "6000"} if protocol == "classic" else {}))
    while not one.plan(rows=60):
        pass
    broker.kill()
    again = threading.Timer(1.5, broker.start)
    again.start()
    assert one.run() == 60
    again.join()
    count = 60
    for _ in range(200):
        if one.plan(rows=200):
            count += one.run()
        if count >= 600:
            break
    assert count == len(one.sink) == 600
    one.stream.leave()


def beginning(partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    return dict.fromkeys(partitions, 0)


@pytest.mark.parametrize("code", [ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
def test_what_was_processed_is_committed_though_the_epoch_changes(coterie_broker: LocalBroker, code: ErrorCode) -> None:
    """A consumer's own commit would end with a stale epoch, and its next owner would read the batch again."""
    coterie_broker.create_topic("t")
    coterie_broker.produce("t", b"a", b"b")
    options = {
        "kafka.bootstrap.servers": coterie_broker.bootstrap_servers,
        "kafka.group.id": "g",
        "kafka.group.protocol": "consumer",
        "subscribe": "t",
        "mode": "group",
    }
    member = GroupMember(source_options(options, streaming=True).settings(), beginning)
    member.join(["t"], None)
    try:
        assert member.settle({}, 20)
        assert coterie_broker.committed("g") == {T0: 0}, "where it starts"
        member.positions[T0] = 2
        coterie_broker.fail("OffsetCommit", code, times=2)
        assert member.settle({T0: 2}, 20)
        assert coterie_broker.committed("g") == {T0: 2}
        assert coterie_broker.requested("OffsetCommit") == 1 + 3
    finally:
        member.leave("the test ends")
