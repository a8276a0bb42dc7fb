"""The pytest plugin as a user meets it: a broker per test, hands on the protocol, the journal of a test that fails."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer as ConfluentConsumer

from coterie.client import Consumer, RebalanceListener, TopicPartition
from coterie.client.blocking import BlockingConsumer
from coterie.testing import ErrorCode, LocalBroker
from tests.awaiting import until

pytest_plugins = ["pytester"]


def consumer(broker: LocalBroker, name: str, **more: object) -> Consumer:
    quick = {"heartbeat.interval.ms": 50, "auto.offset.reset": "earliest", "fetch.max.wait.ms": 50, "client.id": name}
    return Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"} | quick | more)


def test_it_starts_quickly() -> None:
    """Under 100 ms; the best of five, so that a busy machine does not count."""
    took = []
    for _ in range(5):
        started = time.perf_counter()
        with LocalBroker() as broker:
            took.append(time.perf_counter() - started)
            assert broker.bootstrap_servers.startswith("127.0.0.1:")
    assert min(took) < 0.1


def test_another_client_connects(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 2)
    coterie_broker.produce("t", b"a", b"b", partition=1)
    client = ConfluentConsumer(
        {"bootstrap.servers": coterie_broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    client.subscribe(["t"])
    values = []
    while len(values) < 2:
        message = client.poll(10)
        assert message is not None
        assert message.error() is None
        values.append(message.value())
    assert values == [b"a", b"b"]
    coterie_broker.until_stable("g", members=1)
    client.close()


@pytest.mark.coterie(num_partitions=7)
def test_settings_by_marker(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", -1)
    assert len(coterie_broker.broker.topics.by_name["t"].partitions) == 7


async def test_a_member_is_expired(coterie_broker: LocalBroker) -> None:
    """Its partitions go to the other at once, and it hears that it lost them."""
    coterie_broker.create_topic("t", 4)
    lost: list[tuple[str, int]] = []

    class Listener(RebalanceListener):
        def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
            lost.extend(partitions)

    async with consumer(coterie_broker, "one") as one, consumer(coterie_broker, "two") as two:
        one.subscribe(["t"], Listener())
        two.subscribe(["t"])

        async def settled() -> bool:
            await asyncio.gather(one.poll(20), two.poll(20))
            return len(one.assignment()) == len(two.assignment()) == 2

        await until(settled)
        held = one.assignment()
        coterie_broker.expire("g", "one")
        await until(lambda: _polled(one, lambda: bool(lost)))
        assert set(lost) == held
        await until(settled)
    with pytest.raises(LookupError, match="has no member nobody"):
        coterie_broker.expire("g", "nobody")


async def _polled(one: Consumer, done: object) -> bool:
    await one.poll(20)
    assert callable(done)
    return bool(done())


async def test_a_join_is_held(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 1)
    async with consumer(coterie_broker, "one") as one:
        with coterie_broker.hold("JoinGroup") as held:
            one.subscribe(["t"])
            await asyncio.to_thread(coterie_broker.until_held, held)
            await one.poll(100)
            assert one.assignment() == set()
            assert coterie_broker.members("g") == {}
        await until(lambda: _polled(one, lambda: one.assignment() == {("t", 0)}))


async def test_commits_fail_as_often_as_told(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 1)
    coterie_broker.produce("t", b"a", b"b")
    async with consumer(coterie_broker, "one", **{"enable.auto.commit": False}) as one:
        one.subscribe(["t"])
        while not await one.poll(100):
            pass
        rule = coterie_broker.fail("OffsetCommit", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, times=3)
        await one.commit()
        assert rule.times == 0
        assert coterie_broker.requested("OffsetCommit") == 4
        assert coterie_broker.committed("g") == {("t", 0): 2}


async def test_connections_drop_and_coordinators_move(coterie_broker: LocalBroker) -> None:
    """Neither costs the member its place."""
    coterie_broker.create_topic("t", 1)
    async with consumer(coterie_broker, "one") as one:
        one.subscribe(["t"])
        await until(lambda: _polled(one, lambda: one.assignment()))
        before = coterie_broker.members("g")
        generation = coterie_broker.until_stable("g")
        assert coterie_broker.drop_connections("one") >= 1
        coterie_broker.produce("t", b"a")
        await until(lambda: _polled(one, lambda: one.position(("t", 0)) == 1))
        coterie_broker.move_coordinator("g")
        heartbeats = coterie_broker.requested("Heartbeat")
        await asyncio.to_thread(coterie_broker.until_requested, "Heartbeat", heartbeats + 3)
        await one.commit()
        assert coterie_broker.members("g") == before
        assert coterie_broker.until_stable("g") == generation


async def test_the_clock_jumps(coterie_broker: LocalBroker) -> None:
    """A session ends without anybody waiting for it."""
    coterie_broker.create_topic("t", 1)
    one = consumer(coterie_broker, "one", **{"session.timeout.ms": 45_000, "heartbeat.interval.ms": 40_000})
    one.subscribe(["t"])
    await until(lambda: _polled(one, lambda: one.assignment()))
    coterie_broker.jump(45_001)
    assert coterie_broker.members("g") == {}
    await one.close()
    assert "was silent for its session timeout" in "\n".join(coterie_broker.story())


def test_what_a_waiter_says(coterie_broker: LocalBroker) -> None:
    with pytest.raises(
        TimeoutError, match=r"group g is not Stable with 2 members after 0\.1 s\. There is no such group"
    ):
        coterie_broker.until_stable("g", members=2, timeout_s=0.1)
    with pytest.raises(ValueError, match="there is no Joingroup here; there are"):
        coterie_broker.requested("Joingroup")


def test_waiting_for_commits(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t")
    settings = {"bootstrap.servers": coterie_broker.bootstrap_servers, "group.id": "g", "enable.auto.commit": False}
    with pytest.raises(TimeoutError, match=r"g has not committed .* after 0 s"):
        coterie_broker.until_committed("g", {("t", 0): 2}, timeout_s=0)
    with BlockingConsumer(settings) as blocking:
        blocking.assign([("t", 0)])
        blocking.commit({("t", 0): 2})
    coterie_broker.until_committed("g", {("t", 0): 2})
    assert coterie_broker.committed("g") == {("t", 0): 2}


@pytest.mark.parametrize(
    "call",
    [
        'coterie_broker.until_stable("g", timeout_s=0)',
        'coterie_broker.until_committed("g", {("t", 0): 2}, timeout_s=0)',
        'coterie_broker.until_asked("JoinGroup", 1, timeout_s=0)',
        'coterie_broker.fail("JoinGroup", "NO_SUCH_CODE")',
        'coterie_broker.kill("1")',
        "coterie_broker.kill(1)",
        'coterie_broker.expire("g", "ghost")',
        'coterie_broker.produce("none", b"value")',
        'coterie_broker.create_topic("..")',
    ],
)
def test_a_failure_of_the_broker_is_shown_where_the_test_called(pytester: pytest.Pytester, call: str) -> None:
    """Its own frames are hidden, so that the last line is the test's."""
    pytester.makepyfile(f"def test_it(coterie_broker):\n    {call}\n")
    shown = pytester.runpytest_inprocess("-p", "no:randomly").stdout.str()
    assert re.search(rf"^> +{re.escape(call)}$", shown, re.MULTILINE), shown
    assert "coterie/testing" not in shown, shown


def test_a_failing_test_shows_the_journal(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from confluent_kafka import Consumer

        def test_it(coterie_broker):
            coterie_broker.create_topic("t")
            client = Consumer({"bootstrap.servers": coterie_broker.bootstrap_servers, "group.id": "crew"})
            client.subscribe(["t"])
            while not client.assignment():
                client.poll(0.1)
            client.close()
            assert False

        def test_good(coterie_broker):
            pass
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*coterie's journal*", "*crew generation 1: stable*", "*crew generation 2: empty*"])


def test_it_needs_nothing_but_pytest(pytester: pytest.Pytester, tmp_path: Path) -> None:
    """The plugin is found by its entry point; it imports the broker only when a test asks for one."""
    pytester.makepyfile("import sys\n\ndef test_it():\n    assert 'coterie.broker.broker' not in sys.modules")
    pytester.runpytest_subprocess().assert_outcomes(passed=1)
