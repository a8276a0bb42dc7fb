"""Closing a consumer while records flow, again and again: every close ends, and nothing is left behind.

asyncio.wait_for of Python 3.11 and older swallows a cancellation that comes in the same turn as the response; one close in
fifty hung so. ``--closes 1000`` closes as many."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from coterie.client import Admin, Consumer, Producer, RebalanceListener, TopicPartition
from coterie.testing import LocalBroker
from tests.awaiting import until
from tests.client.group import QUICK, member

GROUP = 5  # consumers at a time
CLOSE_S = 15.0  # a close under load; one that hangs takes for ever


@pytest.fixture
def broker(coterie_broker: LocalBroker) -> LocalBroker:
    coterie_broker.create_topic("t", 4)
    coterie_broker.produce("t", b"first", partition=0)
    return coterie_broker


async def keep_producing(producer: Producer) -> None:
    while True:
        await producer.send("t", b"v" * 100)
        await asyncio.sleep(0.001)


async def poll_and_close(broker: LocalBroker, rng: random.Random, number: int) -> float:
    """Seconds that the close took."""
    consumer = member(broker, f"c{number}", **{"session.timeout.ms": 6_000, "auto.commit.interval.ms": 20})
    consumer.subscribe(["t"])
    end_s = time.monotonic() + rng.uniform(0.05, 0.4)
    while time.monotonic() < end_s:
        await consumer.poll(rng.choice((0, 5, 50)))
    started_s = time.monotonic()
    async with asyncio.timeout(CLOSE_S):
        await consumer.close()
    return time.monotonic() - started_s


async def test_every_close_with_records_flowing_ends(broker: LocalBroker, request: pytest.FixtureRequest) -> None:
    closes: int = request.config.getoption("--closes")
    before = asyncio.all_tasks()
    async with Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0}) as producer:
        producing = asyncio.create_task(keep_producing(producer))
        taken_s: list[float] = []
        for first in range(0, closes, GROUP):
            rng = random.Random(first)
            group = (poll_and_close(broker, rng, first + n) for n in range(GROUP))
            taken_s += await asyncio.gather(*group)
        producing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await producing
    assert len(taken_s) >= closes
    assert asyncio.all_tasks() == before, "tasks are left"


@pytest.mark.parametrize("held", ["LeaveGroup", "OffsetCommit", "Fetch"])
async def test_a_close_keeps_its_deadline_whatever_the_broker_does(broker: LocalBroker, held: str) -> None:
    """testCloseTimeoutDueToNoResponseForCloseFetchRequest"""
    consumer = member(broker, **QUICK)
    consumer.subscribe(["t"])
    while not await consumer.poll(50):
        pass
    with broker.hold(held, times=1_000):
        started_s = time.monotonic()
        async with asyncio.timeout(CLOSE_S):
            await consumer.close(timeout_ms=200)
        assert time.monotonic() - started_s < 10
    assert asyncio.all_tasks() == {asyncio.current_task()}, "tasks are left"


async def test_a_close_does_not_wait_for_a_listener_without_end(broker: LocalBroker) -> None:
    class Endless(RebalanceListener):
        async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            await asyncio.Event().wait()

    consumer = member(broker, **QUICK)
    consumer.subscribe(["t"], Endless())
    while not await consumer.poll(50):
        pass
    async with asyncio.timeout(CLOSE_S):
        await consumer.close(timeout_ms=200)
    assert broker.members("g") == {}, "the group is left all the same"


async def test_the_last_callback_of_a_close_may_commit(broker: LocalBroker) -> None:
    """As Kafka's, which is closed once the callback has returned; what starts again is refused."""
    refused: list[str] = []

    class Committing(RebalanceListener):
        async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            consumer.pause(partitions)
            for offset in (await consumer.committed(partitions)).values():
                assert offset == -1
            await consumer.commit()
            assert consumer.group_metadata().member_id
            for begun in (consumer.poll(0), consumer.unsubscribe(), consumer.assign([("t", 0)])):
                try:
                    await begun
                except RuntimeError as error:
                    refused.append(str(error))

    consumer = member(broker, **QUICK | {"enable.auto.commit": False})
    consumer.subscribe(["t"], Committing())
    while not await consumer.poll(50):
        pass
    await consumer.close()
    with pytest.raises(RuntimeError, match="closed"):
        await consumer.commit()
    assert refused == ["this consumer is closed; make a new one"] * 3
    assert broker.committed("g")["t", 0] == 1


async def test_a_close_that_is_cancelled_leaves_nothing_behind(broker: LocalBroker) -> None:
    """testCloseInterrupt"""
    consumer = member(broker, **QUICK)
    consumer.subscribe(["t"])
    while not await consumer.poll(50):
        pass
    with broker.hold("LeaveGroup"), pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await consumer.close()
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()}, "every task ends")


@pytest.mark.parametrize("in_group", [True, False])
async def test_a_close_ends_the_fetch_session(broker: LocalBroker, in_group: bool) -> None:
    """[testFetcherCloseClosesFetchSessionsInBroker] The broker keeps no session of a consumer that is gone, also where a fetch
    of its waits for records."""
    sessions = broker.broker.fetch_sessions
    consumer = member(broker, **QUICK)
    if in_group:
        consumer.subscribe(["t"])
    else:
        await consumer.assign([("t", 0)])
    while not await consumer.poll(50):
        pass
    await consumer.poll(50)
    assert len(sessions) == 1
    before_s = time.monotonic()
    await consumer.close()
    assert time.monotonic() - before_s < CLOSE_S
    await until(lambda: len(sessions) == 0)


# -- the event loop is closed first -------------------------------------------------------------------------------------


async def subscribed(settings: dict[str, Any]) -> Consumer:
    consumer = Consumer(settings | {"group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    while not await consumer.poll(1_000):
        pass
    return consumer


async def assigned(settings: dict[str, Any]) -> Consumer:
    consumer = Consumer(settings)
    await consumer.assign([("t", 0)])
    consumer.seek(("t", 0), 0)
    while not await consumer.poll(1_000):
        pass
    return consumer


async def having_sent(settings: dict[str, Any]) -> Producer:
    producer = Producer(settings)
    await producer.send("t", b"value")
    return producer


async def in_a_transaction(settings: dict[str, Any]) -> Producer:
    producer = Producer(settings | {"transactional.id": "x"})
    await producer.init_transactions()
    producer.begin_transaction()
    await producer.send("t", b"value")
    return producer


async def of_topics(settings: dict[str, Any]) -> Admin:
    admin = Admin(settings)
    await admin.describe_cluster()
    return admin


@pytest.mark.parametrize("make", [subscribed, assigned, having_sent, in_a_transaction, of_topics])
def test_a_client_whose_event_loop_is_closed_closes_at_once(
    broker: LocalBroker, make: Callable[[dict[str, Any]], Coroutine[Any, Any, Consumer | Producer | Admin]]
) -> None:
    """Issue M, 18: it waited for a group, or a transaction, over a connection that nobody reads."""
    client = asyncio.run(make({"bootstrap.servers": broker.bootstrap_servers}))

    async def use() -> None:
        if isinstance(client, Consumer):
            await client.poll(1_000)
        elif isinstance(client, Admin):
            await client.describe_cluster()
        else:
            await client.send("another", b"value")

    async def close() -> None:
        closing = client.close()
        if closing is not None:
            async with asyncio.timeout(10):
                await closing

    with pytest.raises(RuntimeError, match="the event loop of this client is closed"):
        asyncio.run(use())
    asyncio.run(close())
