"""Consumers of a user's in virtual time: sessions of 45 s, crashes at any instant, equal runs of equal seeds."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Awaitable, Callable

import pytest
from aiokafka import AIOKafkaConsumer

from coterie.client import Consumer, Producer
from coterie.testing import ErrorCode, simulate
from coterie.testing.simulated import SimulatedWorld, WorldBroker

pytest_plugins = ["pytester"]

SESSION_S = 45.0  # of Kafka's consumers since 3.0
REBALANCE_S = 10.0  # the others learn of it with their next heartbeat
Program = Callable[..., Awaitable[None]]


async def consume(servers: str, read: list[bytes] | None = None, protocol: str = "classic") -> None:
    """A member of the group billing."""
    settings = {"bootstrap.servers": servers, "group.id": "billing", "auto.offset.reset": "earliest"}
    async with Consumer(settings | {"group.protocol": protocol}) as consumer:
        consumer.subscribe(["orders"])
        async for record in consumer:
            if read is not None and record.value is not None:
                read.append(record.value)


async def consume_with_aiokafka(servers: str, read: list[bytes] | None = None) -> None:
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=servers,
        group_id="billing",
        auto_offset_reset="earliest",
        session_timeout_ms=45_000,
    )
    await consumer.start()
    async for record in consumer:
        if read is not None:
            read.append(record.value)


def two_members(world: SimulatedWorld, program: Program, brokers: int = 1) -> WorldBroker:
    broker = world.broker(brokers=brokers)
    broker.create_topic("orders", 6)
    for name in ("one", "two"):
        world.spawn(name, program, broker.bootstrap_servers)
    broker.until_stable("billing", members=2)
    world.advance(5)  # all have their part
    return broker


@pytest.mark.parametrize("brokers", [1, 3])
@pytest.mark.parametrize("program", [consume, consume_with_aiokafka])
def test_a_killed_member_is_removed_after_its_session_timeout(program: Program, brokers: int) -> None:
    with simulate(seed=1) as world:
        broker = two_members(world, program, brokers)
        world.processes["two"].kill()
        killed_s = world.now_s
        broker.until_stable("billing", members=1)
        assert SESSION_S - 3.1 < world.now_s - killed_s < SESSION_S + REBALANCE_S
        assert "was silent for its session timeout" in broker.story()[-1]


@pytest.mark.parametrize(
    ("program", "brokers", "most"),
    [(consume, 1, 42), (consume, 3, 120), (consume_with_aiokafka, 1, 63), (consume_with_aiokafka, 3, 158)],
)
def test_an_idle_group_takes_few_turns_of_the_loop(program: Program, brokers: int, most: int) -> None:
    """In a virtual second: a session timeout of 45 s is as many turns as 45 of them, of some 15 µs each on a machine at rest. A
    turn is a wake-up of a real broker or client too."""
    with simulate(seed=1) as world:
        two_members(world, program, brokers)
        turns, seconds = world.loop.turns, 30
        world.advance(seconds)
        assert world.loop.turns - turns < most * seconds


def test_replicas_may_lag_for_longer_than_an_idle_follower_waits() -> None:
    """Else a leader takes a follower out of the ISR for the records that its next fetch gets."""
    with simulate() as world:
        for settings, lag_ms in ({}, 30_000), ({"replica.lag.time.max.ms": "5000"}, 5_000):
            member = world.broker(settings, brokers=3).cluster.brokers[1].broker.member
            assert member is not None
            assert member.config.replication.replica_lag_time_max_ms == lag_ms > member.config.replica_fetch_wait_max_ms
            for broker_id in (1, 2, 3):
                world.brokers[-1].kill(broker_id)


def test_a_member_that_is_paused_longer_than_its_session_joins_again() -> None:
    with simulate(seed=3) as world:
        broker = two_members(world, consume)
        world.processes["two"].pause()
        broker.until_stable("billing", members=1)
        world.processes["two"].resume()
        broker.until_stable("billing", members=2)


def test_a_member_of_the_consumer_protocol() -> None:
    async def member(servers: str) -> None:
        await consume(servers, protocol="consumer")

    with simulate(seed=4) as world:
        broker = two_members(world, member)
        world.processes["two"].kill()
        broker.until_stable("billing", members=1)


def test_hooks_of_the_local_broker_work_in_the_world() -> None:
    read: list[bytes] = []
    with simulate(seed=5) as world:
        broker = world.broker()
        broker.create_topic("orders", 1)
        broker.produce("orders", b"a", b"b")
        broker.fail("JoinGroup", ErrorCode.NOT_COORDINATOR, times=2)
        with broker.hold("SyncGroup") as rule:
            world.spawn("one", consume, broker.bootstrap_servers, read)
            broker.until_held(rule)
            world.advance(5)
            assert read == []
        world.until(lambda: len(read) == 2, "both records")
        broker.until_committed("billing", {("orders", 0): 2})
        assert broker.requested("JoinGroup") >= 3


def test_a_leader_that_moves_while_the_test_produces() -> None:
    """Seed 64233 of the kinds: the leader that had started again just took the partition back."""
    with simulate() as world:
        broker = world.broker(brokers=3)
        broker.create_topic("orders", 1)
        broker.fail("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER, times=2)
        broker.produce("orders", b"a")
        assert broker.requested("Produce") == 3
        assert broker._end_offset("orders", 0) == 1


@pytest.mark.parametrize("brokers", [1, 3])
def test_a_broker_that_is_killed_and_restarted_has_all_that_it_acknowledged(brokers: int) -> None:
    async def produce(servers: str, acknowledged: list[bytes]) -> None:
        async with Producer({"bootstrap.servers": servers, "acks": "all"}) as producer:
            for i in range(200):
                value = b"%d" % i
                await producer.send("orders", value)
                acknowledged.append(value)

    acknowledged: list[bytes] = []
    read: list[bytes] = []
    with simulate(seed=6) as world:
        broker = world.broker(brokers=brokers)
        broker.create_topic("orders", 1)
        world.spawn("producer", produce, broker.bootstrap_servers, acknowledged)
        world.until(lambda: len(acknowledged) > 50, "some records")
        broker.kill(1)
        world.advance(1)
        broker.restart(1)
        world.until(lambda: len(acknowledged) == 200, "all records")
        world.spawn("reader", consume, broker.bootstrap_servers, read)
        world.until(lambda: len(read) >= 200, "all records at the reader")
        assert read == acknowledged


def test_what_was_not_synced_is_lost_with_the_power() -> None:
    with simulate(seed=8) as world:
        broker = world.broker()
        broker.create_topic("orders", 1)
        for i in range(20):
            broker.produce("orders", b"%d" % i)
        broker.power_cut()
        broker.restart()
        read: list[bytes] = []
        world.spawn("reader", consume, broker.bootstrap_servers, read)
        world.advance(30)
        assert read == [b"%d" % i for i in range(len(read))]
        assert len(read) < 20  # flush.messages is Kafka's: a lone broker does not sync each record


def test_a_broker_cut_off_from_its_members_removes_them() -> None:
    with simulate(seed=9) as world:
        broker = two_members(world, consume)
        world.network.cut("broker-1", "two")
        broker.until_stable("billing", members=1)
        world.network.heal()
        broker.until_stable("billing", members=2)


def test_time_runs_between_the_calls_only_and_a_story_is_told() -> None:
    with simulate(seed=10) as world:
        broker = two_members(world, consume)
        stood_s = world.now_s
        broker.members("billing")
        assert world.now_s - stood_s < 0.001
        story = world.story()
        assert story[0].startswith("seed 10, ")
        assert any("process two on two: running" in line for line in story)
        assert any("billing generation 1: stable" in line for line in story)


RUN = """
from tests.testing.simulated.test_simulated import WorldBroker, consume, simulate, two_members
for seed in range({first}, {first} + {count}):
    with simulate(seed) as world:
        world.network.faults.loss = 0.02
        broker = two_members(world, consume, {brokers})
        world.processes["two"].kill()
        broker.until_stable("billing", members=1)
        print(seed, world.trace)
"""


@pytest.mark.parametrize(("brokers", "count"), [(1, 6), (3, 2)])
@pytest.mark.slow
def test_a_seed_has_one_trace_whatever_the_hashes_of_the_process(brokers: int, count: int) -> None:
    program = RUN.format(first=1, count=count, brokers=brokers)
    traces = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": hashes, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for hashes in ("1", "2")
    ]
    assert traces[0] == traces[1]
    assert len(set(traces[0].split())) == 2 * count


FAILING_TEST = """
import pytest

@pytest.mark.coterie_seeds(3)
def test_seeds(coterie_world):
    broker = coterie_world.broker()
    broker.create_topic("t", 1)
    assert coterie_world.seed != 2
"""


def test_the_fixture_runs_each_seed_and_prints_the_one_that_fails(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FAILING_TEST)
    result = pytester.runpytest("-p", "no:cacheprovider")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*test_seeds*seed 2*", "*coterie's journal*", "seed 2, 0.* virtual seconds, trace *"])
    pytester.runpytest("-p", "no:cacheprovider", "--coterie-seed", "7").assert_outcomes(passed=1)
    pytester.runpytest("-p", "no:cacheprovider", "--coterie-seed", "2").assert_outcomes(failed=1)
