"""What a client waits for is in its log (issue M, 3): the rule by a clock in hand, then each face, in virtual time."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from coterie.client import Admin, ConfigError, Consumer, KafkaError, Producer
from coterie.client.blocking import BlockingAdmin, BlockingConsumer, BlockingProducer
from coterie.client.errors import BootstrapError
from coterie.client.pauses.clock import Waits
from coterie.client.types import SubscriptionPattern
from coterie.client.zookeeper.fetchers import FetcherManager
from coterie.client.zookeeper.settings import consumer_settings
from coterie.client.zookeeper.streams import PartitionTopicInfo, Stream
from coterie.pipeline.options.options import source_options
from coterie.pipeline.reading.topics import TopicReader
from coterie.testing import ErrorCode, LocalBroker, simulate
from tests.awaiting import until_in_thread

NOWHERE = "broker-1:1"  # a host of the simulated network, on which nobody listens there
ADDRESS = {"bootstrap.servers": NOWHERE}
GROUP = {"group.id": "readers"}
Story = Callable[[dict[str, Any]], Awaitable[None]]


class Clock:
    now_ms = 0.0

    def __call__(self) -> float:
        return self.now_ms


def seconds_of(records: list[logging.LogRecord]) -> list[int]:
    matches = (re.search(r"for (\d+) s: ", record.getMessage()) for record in records)
    return [int(match[1]) for match in matches if match]


def test_the_first_warning_comes_after_a_second_and_others_after_pauses_that_double(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    waits = Waits("client one", clock)
    for tenth in range(20_000):
        clock.now_ms = 100.0 * tenth
        waits.failed("topic t", "this broker has no such topic")
    assert seconds_of(caplog.records) == [1, 6, 16, 36, 76, 156, 316, 616, 916, 1216, 1516, 1816]
    assert caplog.messages[0] == "client one has been waiting for topic t for 1 s: this broker has no such topic"


def test_an_attempt_that_itself_takes_long_is_warned_of_when_it_fails(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    waits = Waits("client one", clock)
    clock.now_ms = 10_000
    waits.failed("a connection to h:1", "no response within 10 s", since_ms=0)
    assert seconds_of(caplog.records) == [10]


@pytest.mark.parametrize("ends", ["succeeded", "another error", "given up"])
def test_a_wait_that_has_ended_begins_again(caplog: pytest.LogCaptureFixture, ends: str) -> None:
    clock = Clock()
    waits = Waits("client one", clock)
    for _ in range(2):
        waits.responded("topic t", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        clock.now_ms += 1_000
        waits.responded_each("topic", "t", [(0, ErrorCode.NONE)])
        waits.failed("topic t", "missing")
        if ends == "given up":
            clock.now_ms += 100_000
        else:
            waits.responded("topic t", 29 if ends == "another error" else 0)
    assert seconds_of(caplog.records) == [1, 1]


def test_what_passes_within_a_second_is_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    waits = Waits("client one", clock)
    for _ in range(10):
        clock.now_ms += 900
        waits.responded("topic t", ErrorCode.LEADER_NOT_AVAILABLE)
        waits.responded("topic t", 12_345)  # of a newer broker
    assert caplog.messages == []


# -- each face ----------------------------------------------------------------------------------------------------------

# Not closed: the simulation ends them as a kill does.


async def subscribe(settings: dict[str, Any]) -> None:
    consumer = Consumer(settings | GROUP)
    consumer.subscribe(["t"])
    while True:
        await consumer.poll(1_000)


async def subscribe_by_the_consumer_protocol(settings: dict[str, Any]) -> None:
    await subscribe(settings | {"group.protocol": "consumer"})


async def subscribe_to_a_pattern(settings: dict[str, Any]) -> None:
    consumer = Consumer(settings | GROUP)
    consumer.subscribe(re.compile("t.*"))
    async for _ in consumer:
        pass


async def subscribe_to_a_pattern_of_the_broker(settings: dict[str, Any]) -> None:
    consumer = Consumer(settings | GROUP | {"group.protocol": "consumer"})
    consumer.subscribe(SubscriptionPattern("t.*"))
    while True:
        await consumer.poll(1_000)


async def assign(settings: dict[str, Any]) -> None:
    consumer = Consumer(settings)
    await consumer.assign([("t", 0)])
    while True:
        await consumer.poll(1_000)


async def seek(settings: dict[str, Any]) -> None:
    consumer = Consumer(settings)
    await consumer.assign([("t", 0)])
    consumer.seek(("t", 0), 5)
    while True:
        await consumer.poll_arrow(1_000)


async def send(settings: dict[str, Any]) -> None:
    producer = Producer(settings)
    await producer.send("t", b"value")


async def begin_transactions(settings: dict[str, Any]) -> None:
    producer = Producer(settings | {"transactional.id": "x"})
    await producer.init_transactions()


async def commit(settings: dict[str, Any]) -> None:
    consumer = Consumer(settings | GROUP)
    await consumer.commit({("t", 0): 1})


async def create_topic(settings: dict[str, Any]) -> None:
    admin = Admin(settings)
    await admin.create_topic("t")


WAITING: list[Story] = [
    subscribe,
    subscribe_by_the_consumer_protocol,
    subscribe_to_a_pattern,
    subscribe_to_a_pattern_of_the_broker,
    assign,
    seek,
    send,
    begin_transactions,
    commit,
]


@pytest.mark.parametrize("story", WAITING)
def test_an_address_where_nobody_listens(caplog: pytest.LogCaptureFixture, story: Story) -> None:
    with simulate() as world:
        world.broker()
        world.spawn("client", story, ADDRESS)
        world.advance(50)
    warned = [r for r in caplog.records if "waiting for a connection to broker-1:1 for" in r.getMessage()]
    first, second, third, *_ = seconds_of(warned)
    assert first <= 2, "an attempt after the first second"
    assert 5 <= second - first <= 7
    assert 10 <= third - second <= 12
    assert "no broker answers at broker-1:1" in warned[0].getMessage()


async def failure_of(story: Story, settings: dict[str, Any], failures: list[Exception]) -> None:
    try:
        await story(settings)
    except (KafkaError, ConfigError) as error:
        failures.append(error)


@pytest.mark.parametrize("story", [*WAITING, create_topic])
def test_hosts_that_cannot_be_resolved_are_refused_by_the_first_call(story: Story) -> None:
    failures: list[Exception] = []
    with simulate() as world:
        world.broker()
        settings = {"bootstrap.servers": "no-such-host:9092,nor-this:9092"}
        world.spawn("client", failure_of, story, settings, failures)
        world.until(lambda: failures, "the error", timeout_s=5)
    assert [type(error) for error in failures] == [BootstrapError]
    assert "none of bootstrap.servers can be resolved: no-such-host:9092, nor-this:9092" in str(failures[0])


@pytest.mark.parametrize("story", [subscribe, send])
def test_one_host_that_can_be_resolved_is_enough(caplog: pytest.LogCaptureFixture, story: Story) -> None:
    failures: list[Exception] = []
    with simulate() as world:
        world.broker()
        world.spawn("client", failure_of, story, {"bootstrap.servers": f"no-such-host:9092,{NOWHERE}"}, failures)
        world.advance(20)
    assert failures == []
    assert any("waiting for a connection to no-such-host:9092" in text for text in caplog.messages)


@pytest.mark.parametrize(
    "make",
    [Consumer, Producer, Admin, BlockingConsumer, BlockingProducer, BlockingAdmin],
    ids=lambda kind: kind.__name__,
)
def test_a_client_without_an_address_is_refused(make: Callable[[dict[str, Any]], object]) -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.servers is missing: set it to HOST:PORT of a broker"):
        make({})


@pytest.mark.parametrize(
    "story",
    [subscribe, subscribe_by_the_consumer_protocol, subscribe_to_a_pattern, seek, send],
    ids=lambda s: s.__name__,
)
def test_a_topic_that_does_not_exist_and_is_not_created(caplog: pytest.LogCaptureFixture, story: Story) -> None:
    with simulate() as world:
        broker = world.broker({"auto.create.topics.enable": "false"})
        settings = {"bootstrap.servers": broker.bootstrap_servers, "metadata.max.age.ms": 500}
        world.spawn("client", story, settings)
        world.advance(50)
        what = "a topic that matches t.*" if story is subscribe_to_a_pattern else "topic t"
        warned = [r for r in caplog.records if f"waiting for {what} for" in r.getMessage()]
        assert len(seconds_of(warned)) >= 3, caplog.messages
        broker.create_topic("t")
        world.advance(10)
        caplog.clear()
        world.advance(400)
        assert [text for text in caplog.messages if "has been waiting" in text] == []


@pytest.mark.parametrize(
    ("api", "code", "story", "what"),
    [
        ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE", subscribe, "the coordinator of readers"),
        ("JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS", subscribe, "the response to JoinGroup"),
        (
            "ConsumerGroupHeartbeat",
            "COORDINATOR_LOAD_IN_PROGRESS",
            subscribe_by_the_consumer_protocol,
            "the response to",
        ),
        ("OffsetFetch", "UNSTABLE_OFFSET_COMMIT", subscribe, "the committed offsets of group readers"),
        ("ListOffsets", "LEADER_NOT_AVAILABLE", assign, "offsets of t-0"),
        ("Fetch", "KAFKA_STORAGE_ERROR", seek, "records of t-0"),
        ("Produce", "NOT_ENOUGH_REPLICAS", send, "the acknowledgement of t-0"),
        ("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", commit, "a commit of group readers"),
        ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE", begin_transactions, "the coordinator of x"),
    ],
)
def test_an_error_that_does_not_pass(
    caplog: pytest.LogCaptureFixture, api: str, code: str, story: Story, what: str
) -> None:
    with simulate() as world:
        broker = world.broker()
        broker.create_topic("t")
        rule = broker.fail(api, code, times=10**6)
        world.spawn("client", story, {"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest"})
        world.advance(40)
        warned = [text for text in caplog.messages if f"waiting for {what}" in text]
        assert len(warned) >= 3, caplog.messages
        assert ErrorCode[code].text in warned[0]
        broker.faults.rules.remove(rule)
        world.advance(5)
        caplog.clear()
        world.advance(100)
        assert [text for text in caplog.messages if "has been waiting" in text] == []


@pytest.mark.parametrize(
    ("story", "api"),
    [
        (subscribe, "JoinGroup"),
        (subscribe, "SyncGroup"),
        (subscribe_by_the_consumer_protocol, "ConsumerGroupHeartbeat"),
    ],
)
def test_a_rebalance_that_does_not_end(caplog: pytest.LogCaptureFixture, story: Story, api: str) -> None:
    with simulate() as world:
        broker = world.broker()
        broker.create_topic("t")
        with broker.hold(api) as held:
            world.spawn("client", story, {"bootstrap.servers": broker.bootstrap_servers})
            broker.until_held(held)
            world.advance(25)
            warned = [text for text in caplog.messages if "waiting for a stable assignment in group readers" in text]
            assert len(warned) in (2, 3), caplog.messages
            assert all(text.endswith("the rebalance waits for members that have not joined again") for text in warned)
        world.advance(10)
        caplog.clear()
        world.advance(100)
        assert caplog.messages == []


def test_a_blocking_consumer_warns_from_its_thread(caplog: pytest.LogCaptureFixture) -> None:
    with BlockingConsumer({"bootstrap.servers": "127.0.0.1:1"} | GROUP) as consumer:
        consumer.subscribe(["t"])
        for _ in range(20):
            consumer.poll(1_000)
            if seconds_of(caplog.records):
                break
    assert "client coterie, group readers, has been waiting for a connection to 127.0.0.1:1 for" in caplog.text


def test_a_client_that_finds_all_it_needs_is_silent(
    coterie_broker: LocalBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        settings = {"bootstrap.servers": coterie_broker.bootstrap_servers}
        async with Producer(settings) as producer:
            await producer.send("t", b"value")
        async with Consumer(settings | GROUP | {"auto.offset.reset": "earliest"}) as consumer:
            consumer.subscribe(["t"])
            async for _ in consumer:
                break

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())
    assert caplog.messages == []


# -- the faces that have threads ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("brokers", "why"),
    [([], "no broker is registered in ZooKeeper"), ([("127.0.0.1", 1)], "no broker answers at 127.0.0.1:1")],
)
def test_the_consumer_of_zookeeper_waits_for_a_leader(
    caplog: pytest.LogCaptureFixture, brokers: list[tuple[str, int]], why: str
) -> None:
    stream = Stream("t", "thread-0", chunks=2, timeout_ms=-1)
    settings = consumer_settings({"zookeeper.connect": "none:1", "group.id": "old", "refresh.leader.backoff.ms": 10})
    manager = FetcherManager(settings, lambda: brokers, lambda error: None)
    manager.start([PartitionTopicInfo("t", 0, stream, 0, 0)])
    try:
        until_in_thread(lambda: seconds_of(caplog.records), lambda: caplog.messages)
    finally:
        manager.stop()
    assert "client coterie, group old, has been waiting for a leader of t-0 for " in caplog.messages[0]
    assert why in caplog.messages[0]


def test_spark_s_driver_waits_for_a_response(caplog: pytest.LogCaptureFixture) -> None:
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "kafka.retry.backoff.ms": "1"}
    reader, clock = TopicReader(source_options(options, streaming=True)), Clock()
    reader.waits = Waits("a Spark stream", clock)
    attempts = iter([KafkaError(ErrorCode.NETWORK_EXCEPTION)] * 3)

    def work() -> str:
        clock.now_ms += 800
        for error in attempts:
            raise error
        return "done"

    assert reader._retry(work) == "done"
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith(
        "a Spark stream has been waiting for a broker's response for 2 s: NETWORK_EXCEPTION"
    )
