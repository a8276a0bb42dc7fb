"""A caller's slip is an error at the call that made it, and the client goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from coterie.client import KafkaError, Producer
from coterie.client.blocking import BlockingProducer
from coterie.testing import LocalBroker

SENDS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"value": "text"}, TypeError, "value must be bytes or None, not str; encode it: value.encode()"),
    ({"value": 5}, TypeError, "value must be bytes or None, not int"),
    ({"key": "k"}, TypeError, "key must be bytes or None, not str"),
    ({"topic": b"t"}, TypeError, "topic must be a str, not bytes"),
    ({"headers": {"a": b"x"}}, TypeError, r"headers must be a sequence .* not dict; use list\(headers.items\(\)\)"),
    ({"headers": [("a", "x")]}, TypeError, "a header's value must be bytes or None, not str"),
    ({"headers": [(b"a", b"x")]}, TypeError, "a header's name must be a str, not bytes"),
    ({"headers": ["ab"]}, TypeError, r"a header must be a \(name, value\) pair, not 'ab'"),
    ({"headers": 7}, TypeError, "headers must be a sequence"),
    ({"timestamp_ms": 2**70}, ValueError, "timestamp_ms must be from 0 to 9223372036854775807"),
    ({"timestamp_ms": -5}, ValueError, "timestamp_ms must be from 0"),
    ({"timestamp_ms": "now"}, TypeError, "timestamp_ms must be an int, not str"),
    ({"timestamp_ms": 1.5}, TypeError, "timestamp_ms must be an int, not float"),
    ({"partition": "0"}, TypeError, "partition must be an int, not str"),
    ({"partition": 1.0}, TypeError, "partition must be an int, not float"),
    ({"partition": 3}, KafkaError, "t has partitions 0 to 2"),
    ({"partition": -1}, KafkaError, "t has partitions 0 to 2"),
]


@pytest.mark.parametrize(("slip", "kind", "sentence"), SENDS)
def test_a_record_that_cannot_be_is_refused_by_send(
    coterie_broker: LocalBroker, slip: dict[str, Any], kind: type[Exception], sentence: str
) -> None:
    coterie_broker.create_topic("t", 3)

    async def story() -> None:
        async with asyncio.timeout(20), Producer({"bootstrap.servers": coterie_broker.bootstrap_servers}) as producer:
            with pytest.raises(kind, match=sentence):
                await producer.send(**({"topic": "t", "value": b"v"} | slip))
            assert await (await producer.send("t", b"good", b"k", partition=1)) == (1, 0)

    asyncio.run(story())


@pytest.mark.parametrize(("slip", "kind", "sentence"), SENDS[:4])
def test_so_it_is_by_the_blocking_producer(
    coterie_broker: LocalBroker, slip: dict[str, Any], kind: type[Exception], sentence: str
) -> None:
    coterie_broker.create_topic("t", 3)
    with BlockingProducer({"bootstrap.servers": coterie_broker.bootstrap_servers}) as producer:
        with pytest.raises(kind, match=sentence):
            producer.send(**({"topic": "t", "value": b"v"} | slip))
        assert producer.send("t", b"good", partition=2) == (2, 0)


@pytest.mark.parametrize("value", [bytearray(b"abc"), memoryview(b"abc")])
def test_other_bytes_are_taken_as_they_are_at_the_call(coterie_broker: LocalBroker, value: Any) -> None:
    async def story() -> None:
        async with Producer({"bootstrap.servers": coterie_broker.bootstrap_servers}) as producer:
            delivery = await producer.send("t", value, value)
            if isinstance(value, bytearray):
                value[:] = b"xyz"
            await delivery

    asyncio.run(story())


@pytest.mark.parametrize("choice", ["0", 99, -1, None])
def test_a_partitioner_that_names_no_partition_is_refused(coterie_broker: LocalBroker, choice: Any) -> None:
    coterie_broker.create_topic("t", 3)
    settings = {"bootstrap.servers": coterie_broker.bootstrap_servers, "partitioner": lambda *_: choice}

    async def story() -> None:
        async with asyncio.timeout(20), Producer(settings) as producer:
            with pytest.raises((TypeError, KafkaError)):
                await producer.send("t", b"v")
            assert await (await producer.send("t", b"v", partition=0)) == (0, 0)

    asyncio.run(story())


AFTER_CLOSE: dict[str, Callable[[Producer], Awaitable[Any]]] = {
    "send": lambda p: p.send("t", b"v"),
    "flush": lambda p: p.flush(),
    "partitions_for": lambda p: p.partitions_for("t"),
}


@pytest.mark.parametrize("method", AFTER_CLOSE)
def test_a_closed_producer_refuses(coterie_broker: LocalBroker, method: str) -> None:
    async def story() -> None:
        producer = Producer({"bootstrap.servers": coterie_broker.bootstrap_servers})
        await (await producer.send("t", b"v"))
        await producer.close()
        with pytest.raises(RuntimeError, match="this producer is closed; make a new one"):
            await AFTER_CLOSE[method](producer)
        await producer.close()

    asyncio.run(story())
