"""What a producer's sender survives: errors of every kind, leaders that are gone, callers that give up, a close in between."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from coterie.client import Admin, ClientBugError, KafkaError, Producer
from coterie.client.connection.cluster import Cluster
from coterie.client.connection.connection import Connection
from coterie.client.errors import ConfigError
from coterie.machines.cluster_metadata import ClusterMetadata
from coterie.testing import ErrorCode, LocalBroker
from tests.awaiting import quiet, until


def producer(broker: LocalBroker, **more: Any) -> Producer:
    given = {key.replace("_", "."): value for key, value in more.items()}
    return Producer({"bootstrap.servers": broker.bootstrap_servers, "retry.backoff.ms": 10, "linger.ms": 0} | given)


@pytest.mark.parametrize("is_open", [True, False], ids=["the connection is open", "the connection is to be opened"])
async def test_an_error_that_nobody_foresaw_fails_its_batch_once_and_the_next_goes_through(
    coterie_broker: LocalBroker, monkeypatch: pytest.MonkeyPatch, is_open: bool
) -> None:
    tries: list[int] = []
    async with asyncio.timeout(20), producer(coterie_broker) as one:
        await (await one.send("t", b"first", partition=0))

        def broken(*args: Any) -> Any:
            tries.append(1)
            raise ZeroDivisionError("a bug")

        async def broken_later(*args: Any) -> Any:
            broken()

        if is_open:
            monkeypatch.setattr(Connection, "begin", broken)
        else:
            monkeypatch.setattr(Cluster, "open_connection", lambda *args: None)
            monkeypatch.setattr(Cluster, "connection", broken_later)
        delivery = await one.send("t", b"lost", partition=0)
        with pytest.raises(ClientBugError, match="an unexpected error in the client: ZeroDivisionError") as raised:
            await delivery
        assert isinstance(raised.value.__cause__, ZeroDivisionError)
        assert len(tries) == 1
        monkeypatch.undo()
        assert (await (await one.send("t", b"next", partition=0))).offset == 1


async def test_the_sender_survives_metadata_that_cannot_be_had(
    coterie_broker: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch without leader, a broker that does not answer: both pass."""
    refresh = Cluster.refresh
    failures = 0

    async def failing(self: Cluster, *args: Any, **more: Any) -> Any:
        nonlocal failures
        failures += 1
        if failures <= 3:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "away")
        return await refresh(self, *args, **more)

    async with asyncio.timeout(20), producer(coterie_broker) as one:
        await (await one.send("t", b"first", partition=0))
        monkeypatch.setattr(Cluster, "refresh", failing)
        one._cluster.forget("t")
        assert (await (await one.send("t", b"next", partition=0))).offset == 1
        assert failures > 3


@pytest.mark.parametrize("after", ["delete_topic", "leaderless"])
async def test_a_batch_without_a_leader_is_given_up_after_its_delivery_timeout(
    coterie_broker: LocalBroker, monkeypatch: pytest.MonkeyPatch, after: str
) -> None:
    monkeypatch.setattr(ClusterMetadata, "leader", lambda *_: None if after == "delete_topic" else -1)
    async with asyncio.timeout(20), producer(coterie_broker, delivery_timeout_ms=100) as one:
        deliveries = [await one.send("t", b"v", partition=0) for _ in range(3)]
        for delivery in deliveries:
            with pytest.raises(KafkaError, match="LEADER_NOT_AVAILABLE"):
                await delivery


async def test_what_may_succeed_later_is_not_tried_at_once_again(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 1)
    coterie_broker.fail("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER, times=1_000_000)
    async with asyncio.timeout(20):
        async with producer(coterie_broker, delivery_timeout_ms=500, retry_backoff_ms=100) as one:
            with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER"):
                await (await one.send("t", b"v"))
    assert coterie_broker.requested("Produce") <= 8


async def test_a_caller_that_gives_up_does_not_cancel_the_others_of_its_batch(coterie_broker: LocalBroker) -> None:
    async with asyncio.timeout(20), producer(coterie_broker, linger_ms=200) as one:
        await one.partitions_for("t")
        first, second = [await one.send("t", b"v", partition=0) for _ in range(2)]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await first
        assert (await second).offset == 1
        assert (await first).offset == 0


@pytest.mark.parametrize("api", ["InitProducerId", "Metadata", "Produce"])
async def test_a_close_repeats_what_may_succeed_later(coterie_broker: LocalBroker, api: str) -> None:
    coterie_broker.create_topic("t", 1)
    code = {
        "InitProducerId": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        "Metadata": ErrorCode.LEADER_NOT_AVAILABLE,
        "Produce": ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }[api]
    async with asyncio.timeout(20):
        one = producer(coterie_broker)
        await one.partitions_for("t")
        if api == "Metadata":
            one._cluster.forget("t")
        coterie_broker.fail(api, code, times=3)
        delivery = await one.send("t", b"v", partition=0)
        await one.close()
        assert (await delivery).offset == 0


@pytest.mark.parametrize("within", ["close", "cancelled"])
async def test_a_close_keeps_its_deadline_and_fails_what_is_left(coterie_broker: LocalBroker, within: str) -> None:
    coterie_broker.create_topic("t", 1)
    async with asyncio.timeout(20):
        one = producer(coterie_broker)
        await (await one.send("t", b"v"))
        with coterie_broker.hold("Produce"):
            delivery = await one.send("t", b"left")
            started_s = time.monotonic()
            if within == "close":
                await one.close(timeout_ms=100)
            else:
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.1):
                        await one.close()
            assert time.monotonic() - started_s < 10
            with pytest.raises(KafkaError, match="the producer was closed before"):
                await delivery


async def test_a_send_waits_for_room_no_longer_than_max_block_ms(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 1)
    async with asyncio.timeout(20):
        one = producer(coterie_broker, buffer_memory=1000, max_block_ms=100)
        await (await one.send("t", b"v"))
        with coterie_broker.hold("Produce"):
            await one.send("t", bytes(900))
            with pytest.raises(KafkaError, match=r"buffer\.memory had no room for the record within max.block.ms=100"):
                await one.send("t", bytes(900))
            with pytest.raises(KafkaError, match=r"buffer\.memory is less"):
                await one.send("t", bytes(1001))
            waiting = asyncio.create_task(one.send("t", bytes(900)))
            await quiet()
            await one.close(timeout_ms=10)
            with pytest.raises(RuntimeError, match="this producer is closed"):
                await waiting


def test_a_topic_that_is_missing_is_named_after_max_block_ms() -> None:
    async def story(broker: LocalBroker) -> None:
        async with asyncio.timeout(20), producer(broker, max_block_ms=100) as one:
            with pytest.raises(KafkaError, match=r"topic nowhere was not available within 0.1 s .*UNKNOWN_TOPIC"):
                await one.send("nowhere", b"v")

    with LocalBroker({"auto.create.topics.enable": "false"}) as broker:
        asyncio.run(story(broker))


async def test_a_topic_that_grows_is_used_whole_after_metadata_max_age_ms(coterie_broker: LocalBroker) -> None:
    """The producer kept a topic's number of partitions for ever."""
    coterie_broker.create_topic("t", 1)
    address = {"bootstrap.servers": coterie_broker.bootstrap_servers}
    async with producer(coterie_broker, metadata_max_age_ms=50) as one, Admin(address) as admin:
        assert (await one.send_and_wait("t", b"v", b"k")).partition == 0
        await admin.create_partitions("t", 8)

        async def spread() -> bool:
            deliveries = [await one.send("t", b"v", b"key %d" % n) for n in range(200)]
            return {(await delivery).partition for delivery in deliveries} == set(range(8))

        await until(spread, "keys reach every partition")
        assert await one.partitions_for("t") == 8


@pytest.mark.parametrize(("most", "expected"), [("1", 1), ("5", 5)])
async def test_requests_in_flight_are_bounded(coterie_broker: LocalBroker, most: str, expected: int) -> None:
    """max.in.flight.requests.per.connection: the setting was not there, and one batch of a partition was in flight."""
    coterie_broker.create_topic("t", 1)
    given = {"max.in.flight.requests.per.connection": most, "batch.size": 50, "linger.ms": 0}
    async with asyncio.timeout(20), producer(coterie_broker, **given) as one:
        await (await one.send("t", b"first"))
        with coterie_broker.hold("Produce", times=10) as rule:
            deliveries = [await one.send("t", b"%d" % n) for n in range(20)]

            async def held() -> bool:
                return len(rule.held) >= expected

            await until(held, f"{expected} requests are in flight")
            assert len(one._sender.machine.requests_in_flight()) == expected
        offsets = [(await delivery).offset for delivery in deliveries]
        assert offsets == list(range(1, 21))


def test_idempotence_needs_five_in_flight_at_most() -> None:
    """KafkaProducerTest.testInflightRequestsAndIdempotenceForIdempotentProducers."""
    many = {"bootstrap.servers": "127.0.0.1:1", "max.in.flight.requests.per.connection": 6}
    with pytest.raises(ConfigError, match=r"must be at most 5 with enable.idempotence=true, not 6"):
        Producer(many)
    Producer(many | {"enable.idempotence": False})
