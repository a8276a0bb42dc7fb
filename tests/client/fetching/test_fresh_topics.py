"""Offsets of a topic that was just created: brokers hear of it one after the other, so that the client asks again. Topics
that are deleted under a consumer."""

from __future__ import annotations

import asyncio
import re
import threading

import pytest

from coterie.client import Admin, Consumer, KafkaError, TopicPartition
from coterie.testing import ErrorCode, LocalBroker
from tests.client.group import QUICK, polled, read

T0 = ("t", 0)
OF_PROTOCOL = {"classic": QUICK, "consumer": {n: v for n, v in QUICK.items() if n != "heartbeat.interval.ms"}}


@pytest.mark.parametrize(
    "code", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER]
)
async def test_what_passes_is_asked_again(coterie_broker: LocalBroker, code: ErrorCode) -> None:
    coterie_broker.create_topic("t", 1)
    coterie_broker.produce("t", b"v")
    coterie_broker.fail("ListOffsets", code, times=3)
    async with Admin({"bootstrap.servers": coterie_broker.bootstrap_servers, "retry.backoff.ms": 10}) as admin:
        assert await admin.list_offsets({T0: -1}) == {T0: 1}
    assert coterie_broker.requested("ListOffsets") == 4


def test_a_topic_that_comes_a_moment_later_is_found() -> None:
    async def story(broker: LocalBroker) -> None:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "retry.backoff.ms": 10}
        timer = threading.Timer(0.2, broker.create_topic, ("t", 1))
        timer.start()
        async with Admin(settings) as admin:
            assert await admin.list_offsets({T0: -1}) == {T0: 0}
        timer.join()

    with LocalBroker({"auto.create.topics.enable": "false"}) as broker:
        asyncio.run(story(broker))


@pytest.mark.parametrize("request_timeout_ms", [200, pytest.param(60_000, marks=pytest.mark.slow)])
def test_one_that_never_comes_is_an_error_of_its_own_name(
    monkeypatch: pytest.MonkeyPatch, request_timeout_ms: int
) -> None:
    monkeypatch.setattr("coterie.client.offsets.offsets.NEW_TOPIC_S", 0.3)

    async def story(broker: LocalBroker) -> None:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "request.timeout.ms": request_timeout_ms}
        async with asyncio.timeout(20), Admin(settings) as admin:
            with pytest.raises(
                KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION: t-0: this broker has no such topic or partition"
            ):
                await admin.list_offsets({T0: -1})

    with LocalBroker({"auto.create.topics.enable": "false"}) as broker:
        asyncio.run(story(broker))


async def test_what_does_not_pass_is_an_error_at_once(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 1)
    coterie_broker.fail("ListOffsets", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    async with Admin({"bootstrap.servers": coterie_broker.bootstrap_servers}) as admin:
        with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
            await admin.list_offsets({T0: -1})
    assert coterie_broker.requested("ListOffsets") == 1


def test_a_topic_that_metadata_lacks_for_a_while_is_read_on(coterie_broker: LocalBroker) -> None:
    """A leader that moves, and a broker that does not know the topic yet: the partition had no leader then, no further request
    was sent, and nothing was read any more."""
    coterie_broker.create_topic("t", 1)
    coterie_broker.produce("t", b"one")
    settings = {
        "bootstrap.servers": coterie_broker.bootstrap_servers,
        "auto.offset.reset": "earliest",
        "fetch.max.wait.ms": 50,
        "retry.backoff.ms": 10,
    }

    async def story() -> list[bytes | None]:
        values: list[bytes | None] = []
        async with asyncio.timeout(20), Consumer(settings) as consumer:
            await consumer.assign([("t", 0)])
            while len(values) < 2:
                for records in (await consumer.poll(500)).values():
                    values += [record.value for record in records]
                    if len(values) == 1:
                        coterie_broker.fail("Metadata", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                        lookups = coterie_broker.requested("Metadata")
                        coterie_broker.fail("Fetch", ErrorCode.NOT_LEADER_OR_FOLLOWER)
                        await asyncio.to_thread(coterie_broker.until_requested, "Metadata", lookups + 1)
                        coterie_broker.produce("t", b"two")
        return values

    assert asyncio.run(story()) == [b"one", b"two"]


@pytest.mark.parametrize("protocol", OF_PROTOCOL)
async def test_a_topic_that_is_deleted_does_not_hold_up_the_others(coterie_broker: LocalBroker, protocol: str) -> None:
    """KAFKA-16235: the automatic commit before the rebalance names it, and no coordinator takes that any more."""
    coterie_broker.create_topic("t-1", 1)
    coterie_broker.create_topic("t-2", 1)
    coterie_broker.produce("t-1", b"a")
    coterie_broker.produce("t-2", b"b")
    address = {"bootstrap.servers": coterie_broker.bootstrap_servers}
    group = {"group.id": "g", "group.protocol": protocol}
    async with Consumer(OF_PROTOCOL[protocol] | address | group) as consumer, Admin(address) as admin:
        consumer.subscribe(re.compile("t-.*"))
        assert set(await read(consumer, 2)) == {b"a", b"b"}
        await admin.delete_topic("t-1")
        async with asyncio.timeout(10):
            await polled(consumer, lambda: consumer.assignment() == {TopicPartition("t-2", 0)})
        coterie_broker.produce("t-2", b"c")
        assert await read(consumer) == [b"c"]
    assert coterie_broker.committed("g") == {("t-2", 0): 2}


async def test_a_rebalance_does_not_create_a_deleted_topic_again(coterie_broker: LocalBroker) -> None:
    """The leader looks the group's topics up. Those of its own pattern are none that anybody asked to create."""
    coterie_broker.create_topic("t-1", 1)
    coterie_broker.create_topic("t-2", 1)
    address = {"bootstrap.servers": coterie_broker.bootstrap_servers}
    group = {"group.id": "g", "metadata.max.age.ms": 300_000}
    async with Consumer(QUICK | address | group) as consumer, Admin(address) as admin:
        consumer.subscribe(re.compile("t-.*"))
        await polled(consumer, lambda: len(consumer.assignment()) == 2)
        await admin.delete_topic("t-1")
        generation = consumer.generation
        consumer.enforce_rebalance()
        await polled(consumer, lambda: consumer.generation > generation)
        assert "t-1" not in await admin.describe_topics()
