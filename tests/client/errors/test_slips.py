"""A caller's slip is an error at the call that made it, and the client goes on."""

# mypy: disable-error-code="arg-type, dict-item, list-item"

from __future__ import annotations

import asyncio
import inspect
import re
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from coterie.client import (
    Admin,
    ConfigError,
    Consumer,
    KafkaError,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    RebalanceListener,
    TopicPartition,
)
from coterie.client.blocking import BlockingAdmin, BlockingConsumer, BlockingProducer
from coterie.client.producer.partitions import PartitionCounts
from coterie.testing import LocalBroker
from tests.awaiting import LoopClock, quiet, until


def settings_of(broker: LocalBroker) -> dict[str, Any]:
    return {"bootstrap.servers": broker.bootstrap_servers}


SENDS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"value": "text"}, TypeError, "value must be bytes or None, not str; encode it: value.encode()"),
    ({"value": 5}, TypeError, "value must be bytes or None, not int"),
    ({"key": "k"}, TypeError, "key must be bytes or None, not str"),
    ({"topic": b"t"}, TypeError, "topic must be a str, not bytes"),
    ({"headers": {"a": b"x"}}, TypeError, r"headers must be a sequence .* not dict; use list\(headers.items\(\)\)"),
    ({"headers": [("a", "x")]}, TypeError, "a header's value must be bytes or None, not str; encode it: value.encode"),
    ({"headers": [(b"a", b"x")]}, TypeError, "a header's name must be a str, not bytes"),
    ({"headers": ["ab"]}, TypeError, r"a header must be a \(name, value\) pair, not 'ab'"),
    ({"headers": 7}, TypeError, "headers must be a sequence"),
    ({"timestamp_ms": 2**70}, ValueError, "timestamp_ms must be from 0 to 9223372036854775807"),
    ({"timestamp_ms": -5}, ValueError, "timestamp_ms must be from 0"),
    ({"timestamp_ms": "now"}, TypeError, "timestamp_ms must be an int, not str"),
    ({"timestamp_ms": 1.5}, TypeError, "timestamp_ms must be an int, not float"),
    ({"partition": "0"}, TypeError, "partition must be an int, not str"),
    ({"partition": 1.0}, TypeError, "partition must be an int, not float"),
    ({"partition": -1}, KafkaError, "t has partitions 0 to 2"),
]


@pytest.mark.parametrize(("slip", "kind", "sentence"), SENDS)
async def test_a_record_that_cannot_be_is_refused_by_send(
    coterie_broker: LocalBroker, slip: dict[str, Any], kind: type[Exception], sentence: str
) -> None:
    coterie_broker.create_topic("t", 3)
    async with asyncio.timeout(20), Producer(settings_of(coterie_broker)) as producer:
        with pytest.raises(kind, match=sentence):
            await producer.send(**({"topic": "t", "value": b"v"} | slip))
        assert (await (await producer.send("t", b"good", b"k", partition=1)))[1:3] == (1, 0)


@pytest.mark.parametrize(("slip", "kind", "sentence"), SENDS[:4])
def test_so_it_is_by_the_blocking_producer(
    coterie_broker: LocalBroker, slip: dict[str, Any], kind: type[Exception], sentence: str
) -> None:
    coterie_broker.create_topic("t", 3)
    with BlockingProducer(settings_of(coterie_broker)) as producer:
        with pytest.raises(kind, match=sentence):
            producer.send(**({"topic": "t", "value": b"v"} | slip))
        assert producer.send_and_wait("t", b"good", partition=2)[1:3] == (2, 0)


async def test_a_partition_that_does_not_come_is_waited_for_and_refused(
    coterie_broker: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For max.block.ms, by the clock of the loop: a lookup takes what it takes."""
    coterie_broker.create_topic("t", 3)
    failures = failed_lookups(monkeypatch)
    settings = settings_of(coterie_broker) | {"max.block.ms": 15_000}
    async with asyncio.timeout(60), Producer(settings) as producer:
        clock = LoopClock()
        sending = asyncio.create_task(producer.send("t", b"v", partition=3))
        await until(
            lambda: sending.done() or sum("t has partitions 0 to 2" in one for one in failures) >= 2, "two lookups"
        )
        assert not sending.done()
        clock.jump(15)
        with pytest.raises(KafkaError, match="t has partitions 0 to 2"):
            await sending
        assert (await (await producer.send("t", b"good", b"k", partition=1)))[1:3] == (1, 0)


def failed_lookups(patch: pytest.MonkeyPatch) -> list[str]:
    """The error of each lookup of a producer that failed, as it fails."""
    failures, look_up = list[str](), PartitionCounts._look_up

    async def noted(counts: PartitionCounts, topic: str, least: int) -> int:
        try:
            return await look_up(counts, topic, least)
        except KafkaError as error:
            failures.append(str(error))
            raise

    patch.setattr(PartitionCounts, "_look_up", noted)
    return failures


@pytest.mark.parametrize("value", [bytearray(b"abc"), memoryview(b"abc")])
async def test_other_bytes_are_taken_as_they_are_at_the_call(coterie_broker: LocalBroker, value: Any) -> None:
    async with Producer(settings_of(coterie_broker)) as producer:
        delivery = await producer.send("t", value, value)
        if isinstance(value, bytearray):
            value[:] = b"xyz"
        await delivery


@pytest.mark.parametrize("choice", ["0", 99, -1, None])
async def test_a_partitioner_that_names_no_partition_is_refused(coterie_broker: LocalBroker, choice: Any) -> None:
    coterie_broker.create_topic("t", 3)
    settings = {"bootstrap.servers": coterie_broker.bootstrap_servers, "partitioner": lambda *_: choice}
    async with asyncio.timeout(20), Producer(settings) as producer:
        with pytest.raises((TypeError, KafkaError)):
            await producer.send("t", b"v")
        assert (await (await producer.send("t", b"v", partition=0)))[1:3] == (0, 0)


AFTER_CLOSE: dict[str, Callable[[Producer], Awaitable[Any]]] = {
    "send": lambda p: p.send("t", b"v"),
    "flush": lambda p: p.flush(),
    "partitions_for": lambda p: p.partitions_for("t"),
}


@pytest.mark.parametrize("method", AFTER_CLOSE)
async def test_a_closed_producer_refuses(coterie_broker: LocalBroker, method: str) -> None:
    producer = Producer({"bootstrap.servers": coterie_broker.bootstrap_servers})
    await (await producer.send("t", b"v"))
    await producer.close()
    with pytest.raises(RuntimeError, match="this producer is closed; make a new one"):
        await AFTER_CLOSE[method](producer)
    await producer.close()


T0 = ("t", 0)
CONSUMER_SLIPS: list[tuple[Callable[[Consumer], Any], type[Exception], str]] = [
    (lambda c: c.subscribe(None), TypeError, "topics must be a list of str, not None"),
    (lambda c: c.subscribe([None]), TypeError, "each of topics must be a str, not NoneType"),
    (lambda c: c.subscribe(["  "]), ValueError, "a topic's name must not be empty or blank"),
    (lambda c: c.subscribe(re.compile("")), ValueError, "the pattern must not be empty or blank"),
    (lambda c: c.assign(None), TypeError, "partitions must be a list of tuples"),
    (lambda c: c.assign([(None, 0)]), TypeError, "topic must be a str, not NoneType"),
    (lambda c: c.assign([("  ", 0)]), ValueError, "a topic's name must not be empty or blank"),
    (lambda c: c.subscribe([b"t"]), TypeError, "each of topics must be a str, not bytes"),
    (lambda c: c.subscribe(7), TypeError, "topics must be a list of str, not 7"),
    (lambda c: c.subscribe(re.compile(b"t")), TypeError, "the pattern must be a str, not bytes"),
    (lambda c: c.subscribe(["t"], RebalanceListener), TypeError, "a listener must be an object of a subclass"),
    (lambda c: c.assign(("t", 0)), TypeError, r"named by a tuple \(topic, partition\), not 't'"),
    (lambda c: c.assign([("t", "0")]), TypeError, "partition must be an int, not str"),
    (lambda c: c.assign([("t", -1)]), ValueError, "partition must be from 0"),
    (lambda c: c.poll("1000"), TypeError, "timeout_ms must be a number of milliseconds, not str"),
    (lambda c: c.poll(-1), ValueError, "timeout_ms must not be negative"),
    (lambda c: c.poll(0, 0), ValueError, "max_records must be from 1"),
    (lambda c: c.poll_arrow("1000"), TypeError, "timeout_ms must be a number of milliseconds"),
    (lambda c: c.seek(T0, -1), ValueError, "an offset must be from 0"),
    (lambda c: c.seek(T0, "5"), TypeError, "an offset must be an int, not str"),
    (lambda c: c.seek(("u", 3), 5), ValueError, "u-3 is not assigned to this consumer"),
    (lambda c: c.pause([("u", 3)]), ValueError, "u-3 is not assigned"),
    (lambda c: c.resume("t"), TypeError, "partitions must be a list of tuples"),
    (lambda c: c.seek_to_end([("u", 3)]), ValueError, "u-3 is not assigned"),
    (lambda c: c.commit({T0: -7}), ValueError, "an offset must be from 0 to 9223372036854775807, not -7"),
    (lambda c: c.commit({T0: OffsetAndMetadata(-1)}), ValueError, "an offset must be from 0"),
    (lambda c: c.commit({T0: "7"}), TypeError, "an offset must be an int, not str"),
    (lambda c: c.commit({"t": 7}), TypeError, r"named by a tuple \(topic, partition\)"),
    (lambda c: c.commit([(T0, 7)]), TypeError, r"expected a mapping from \(topic, partition\) to offsets, not list"),
    (lambda c: c.commit({T0: 7}, "1"), TypeError, "timeout_ms must be a number"),
    (lambda c: c.commit_async({T0: -7}), ValueError, "an offset must be from 0"),
    (lambda c: c.commit_async({T0: 7}, "later"), TypeError, "callback must be a function"),
    (lambda c: c.committed("t"), TypeError, "partitions must be a list of tuples"),
    (lambda c: c.end_offsets(T0), TypeError, "named by a tuple"),
    (lambda c: c.offsets_for_times({T0: 1.5}), TypeError, "a timestamp must be an int, not float"),
    (lambda c: c.close("soon"), TypeError, "timeout_ms must be a number"),
]


async def done(result: Any) -> Any:
    return await result if inspect.isawaitable(result) else result


@pytest.mark.parametrize(("slip", "kind", "sentence"), CONSUMER_SLIPS)
async def test_a_consumer_refuses_what_cannot_be_and_goes_on(
    coterie_broker: LocalBroker, slip: Callable[[Consumer], Any], kind: type[Exception], sentence: str
) -> None:
    """KafkaConsumerTest's testSubscriptionOnNullTopicCollection, testSubscriptionOnNullTopic, testSubscriptionOnEmptyTopic,
    testSubscriptionOnNullPattern, testSubscriptionOnEmptyPattern, testSeekNegative, testAssignOnNullTopicPartition,
    testAssignOnNullTopicInPartition, testAssignOnEmptyTopicInPartition"""
    coterie_broker.create_topic("t", 1)
    coterie_broker.produce("t", b"v")
    settings = {"bootstrap.servers": coterie_broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    async with asyncio.timeout(20), Consumer(settings) as consumer:
        with pytest.raises(kind, match=sentence):
            await done(slip(consumer))
        await consumer.assign([T0])
        with pytest.raises((kind, ValueError)):
            await done(slip(consumer))
        polled: dict[Any, Any] = {}
        while not polled:
            polled = await consumer.poll(100)
        assert polled[T0][0].value == b"v"


ADMIN_SLIPS: list[tuple[Callable[[Admin], Any], type[Exception], str]] = [
    (lambda a: a.describe_topics("orders"), TypeError, "names must be a list of str, not 'orders'"),
    (lambda a: a.partitions("orders"), TypeError, "topics must be a list of str"),
    (lambda a: a.create_topic(b"t"), TypeError, "name must be a str, not bytes"),
    (lambda a: a.create_topic("u", "3"), TypeError, "partitions must be an int, not str"),
    (lambda a: a.create_topic("u", 1, {"retention.ms": 5}), TypeError, r"value of retention.ms must be a str, not int"),
    (lambda a: a.each.create_topics(["u"]), TypeError, "a topic to create must be a NewTopic, not 'u'"),
    (lambda a: a.each.create_topics([NewTopic("u", 1, {}, "1")]), TypeError, "replication_factor must be an int"),
    (lambda a: a.delete_topic(["t"]), TypeError, "name must be a str, not list"),
    (lambda a: a.each.delete_topics("orders"), TypeError, "names must be a list of str"),
    (lambda a: a.create_partitions("t", 2**40), ValueError, "count must be from"),
    (lambda a: a.each.create_partitions({"t": "4"}), TypeError, "a count must be an int"),
    (lambda a: a.describe_configs(7), TypeError, "a topic's name or a ConfigResource, not 7"),
    (lambda a: a.incremental_alter_configs("t", {"retention.ms": 5}), TypeError, "value of retention.ms must be a str"),
    (lambda a: a.incremental_alter_configs("t", ["retention.ms"]), TypeError, "configs must be a mapping"),
    (lambda a: a.delete_records({T0: "5"}), TypeError, "an offset must be an int, not str"),
    (lambda a: a.list_offsets({T0: 2**70}), ValueError, "a timestamp must be from"),
    (lambda a: a.list_groups("Stable"), TypeError, "states must be a list of str"),
    (lambda a: a.describe_consumer_group(b"g"), TypeError, "group_id must be a str"),
    (lambda a: a.each.describe_consumer_groups("g"), TypeError, "group_ids must be a list of str"),
    (lambda a: a.remove_members_from_consumer_group("g", "anna"), TypeError, "members must be a list of str"),
    (lambda a: a.alter_consumer_group_offsets("g", {T0: -1}), ValueError, "an offset must be from 0"),
    (lambda a: a.each.alter_consumer_group_offsets("g", {T0: "1"}), TypeError, "an offset must be an int"),
    (lambda a: a.delete_consumer_group_offsets("g", T0), TypeError, "named by a tuple"),
]


@pytest.mark.parametrize(("slip", "kind", "sentence"), ADMIN_SLIPS)
async def test_an_admin_refuses_what_cannot_be(
    coterie_broker: LocalBroker, slip: Callable[[Admin], Any], kind: type[Exception], sentence: str
) -> None:
    coterie_broker.create_topic("t", 1)
    async with asyncio.timeout(20), Admin({"bootstrap.servers": coterie_broker.bootstrap_servers}) as admin:
        with pytest.raises(kind, match=sentence):
            await done(slip(admin))
        assert "t" in await admin.describe_topics()
    with pytest.raises(RuntimeError, match="this client is closed; make a new one"):
        await admin.describe_topics()


CONSUMER_AFTER_CLOSE: list[Callable[[Any], Any]] = [
    lambda c: c.poll(1),
    lambda c: c.poll_arrow(1),
    lambda c: c.subscribe(["t"]),
    lambda c: c.unsubscribe(),
    lambda c: c.assign([T0]),
    lambda c: c.commit({T0: 1}),
    lambda c: c.commit(),
    lambda c: c.commit_async({T0: 1}),
    lambda c: c.committed([T0]),
    lambda c: c.end_offsets([T0]),
    lambda c: c.seek(T0, 0),
    lambda c: c.pause([]),
    lambda c: c.resume([]),
    lambda c: c.group_metadata(),
]


@pytest.mark.parametrize("call", CONSUMER_AFTER_CLOSE)
async def test_a_closed_consumer_refuses(coterie_broker: LocalBroker, call: Callable[[Any], Any]) -> None:
    """KafkaConsumerTest's testInvalidGroupMetadata"""
    settings = {"bootstrap.servers": coterie_broker.bootstrap_servers, "group.id": "g"}
    consumer = Consumer(settings)
    await consumer.close()
    with pytest.raises(RuntimeError, match="this consumer is closed; make a new one"):
        await done(call(consumer))
    await consumer.close()
    blocking = BlockingConsumer(settings)
    blocking.close()
    with pytest.raises(RuntimeError, match="this BlockingConsumer is closed; make a new one"):
        call(blocking)
    blocking.close()


async def test_a_poll_under_way_ends_with_the_close(coterie_broker: LocalBroker) -> None:
    async with asyncio.timeout(20):
        consumer = Consumer({"bootstrap.servers": coterie_broker.bootstrap_servers, "group.id": "g"})
        consumer.subscribe(["t"])
        polling = asyncio.create_task(consumer.poll(600_000))
        await quiet()
        await consumer.close()
        with pytest.raises(RuntimeError, match="this consumer is closed"):
            await polling


def test_the_blocking_module_has_no_asyncio_class() -> None:
    with pytest.raises(ImportError, match=r"has BlockingConsumer; the asyncio Consumer is in coterie\.client"):
        from coterie.client.blocking import Consumer as _
    with pytest.raises(ImportError, match="cannot import name 'Consumr'"):
        from coterie.client.blocking import Consumr as _  # type: ignore[attr-defined, no-redef]  # noqa: F401


def test_a_listener_that_calls_its_blocking_consumer_is_refused_instead_of_waiting_for_itself(
    coterie_broker: LocalBroker,
) -> None:
    coterie_broker.create_topic("t", 1)
    errors: list[str] = []

    class Committing(RebalanceListener):
        def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            try:
                consumer.commit({T0: 1})
            except RuntimeError as error:
                errors.append(str(error))

    settings = {"bootstrap.servers": coterie_broker.bootstrap_servers, "group.id": "g"}
    with BlockingConsumer(settings) as consumer:
        consumer.subscribe(["t"], Committing())
        for _ in range(100):
            consumer.poll(50)
            if errors:
                break
    assert errors == [
        "a BlockingConsumer cannot be called from its own thread, where listeners and callbacks run: it would wait for itself"
    ]


def test_a_blocking_client_with_a_wrong_setting_leaves_no_thread() -> None:
    before = set(threading.enumerate())  # one that an earlier test left may end meanwhile
    with pytest.raises(ValueError, match="there is no client setting"):
        BlockingAdmin({"no.such": 1})
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("address", ["a:99999", "a:0", "a:-1", "a:\u00b2", "a:", "a", ""])
def test_an_address_that_cannot_be_is_a_setting_that_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.servers must be HOST:PORT"):
        Admin({"bootstrap.servers": address})


async def test_a_callback_of_a_commit_that_raises_is_told_and_the_commit_stands(
    coterie_broker: LocalBroker, caplog: pytest.LogCaptureFixture
) -> None:
    coterie_broker.create_topic("t", 1)
    settings = {"bootstrap.servers": coterie_broker.bootstrap_servers, "group.id": "g"}
    async with asyncio.timeout(20), Consumer(settings) as consumer:
        await consumer.assign([T0])
        await consumer.commit_async({T0: 1}, lambda *_: 1 / 0)
        assert await consumer.committed([T0]) == {T0: 1}
    assert "the callback of a commit raised" in caplog.text
