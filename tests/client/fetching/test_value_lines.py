"""`write_lines` writes the values that `poll` returns, for generated logs, limits and writes that fail."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from coterie.client import Consumer, ConsumerInterceptor, Producer
from coterie.client.consumer.value_lines import PIECE_BYTES, returns_bytes, write_lines
from coterie.client.errors import CorruptBatchError
from coterie.testing import LocalBroker
from tests.client.fetching.test_damaged_batches import DAMAGES, batch, empty_tables_until_damage, put

T0 = ("t", 0)
SEEDS = range(4)


@asynccontextmanager
async def reading(broker: LocalBroker, **more: Any) -> AsyncIterator[Consumer]:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest", "fetch.max.wait.ms": 50}
    given = {key.replace("_", "."): value for key, value in more.items()}
    async with asyncio.timeout(30), Consumer(settings | given) as consumer:
        await consumer.assign([T0])
        yield consumer


async def fill(broker: LocalBroker, rng: random.Random) -> int:
    """Batches of every codec, some in transactions, of which some are aborted. Returns where the log ends."""
    for number in range(rng.randint(2, 5)):
        settings = {
            "bootstrap.servers": broker.bootstrap_servers,
            "compression.type": rng.choice(["none", "gzip", "snappy", "lz4", "zstd"]),
            "batch.size": rng.choice([100, 100_000]),
        }
        is_transactional = rng.random() < 0.5
        if is_transactional:
            settings["transactional.id"] = f"writer-{number}"
        async with Producer(settings) as producer:
            if is_transactional:
                await producer.init_transactions()
                producer.begin_transaction()
            for _ in range(rng.randint(1, 40)):
                size = rng.choice([0, 1, 30, 3_000, PIECE_BYTES])
                value = None if rng.random() < 0.1 else rng.randbytes(size).replace(b"\n", b"")
                await producer.send("t", value, key=rng.choice([None, b"k"]), headers=rng.choice([[], [("h", b"1")]]))
            await producer.flush()
            if is_transactional:
                await (producer.commit_transaction() if rng.random() < 0.5 else producer.abort_transaction())
    async with reading(broker) as consumer:
        return (await consumer.end_offsets([T0]))[T0]


async def write_all(consumer: Consumer, write: Callable[[bytes], object]) -> None:
    """Until it fails."""
    while True:
        await write_lines(consumer, 100, 10_000, write)


async def by_poll(consumer: Consumer, end: int) -> tuple[list[bytes], list[int]]:
    """The values as lines, and their offsets."""
    values, offsets = list[bytes](), list[int]()
    while consumer.position(T0) < end:
        for records in (await consumer.poll(100)).values():
            values += [(record.value or b"") + b"\n" for record in records]
            offsets += [record.offset for record in records]
    return values, offsets


@pytest.mark.parametrize("isolation_level", ["read_committed", "read_uncommitted"])
def test_every_value_of_a_poll_and_no_other(coterie_broker: LocalBroker, isolation_level: str) -> None:
    async def story(rng: random.Random) -> None:
        coterie_broker.create_topic("t", 1)
        end = await fill(coterie_broker, rng)
        async with reading(coterie_broker, isolation_level=isolation_level) as consumer:
            values, offsets = await by_poll(consumer, end)
        start = rng.choice([0, *offsets])
        left = [n for n, offset in enumerate(offsets) if offset >= start]
        async with reading(coterie_broker, isolation_level=isolation_level) as consumer:
            consumer.seek(T0, start)
            written = list[bytes]()
            for limit in (rng.randint(1, len(left)) if left else 1, 10_000):
                lines = list[bytes]()
                count = 0
                while count < limit and consumer.position(T0) < end:
                    count += await write_lines(consumer, 100, limit - count, lines.append)
                assert count <= limit
                assert sum(map(len, lines)) == sum(len(values[n]) for n in left[:count])
                written += lines
                left = left[count:]
                if left:
                    assert (consumer.position(T0)) in (offsets[left[0]], offsets[left[0] - 1] + 1)
            assert b"".join(written) == b"".join(values[n] for n, offset in enumerate(offsets) if offset >= start)

    for seed in SEEDS:
        coterie_broker.reset()
        asyncio.run(story(random.Random(seed)))


async def test_where_a_write_fails_the_position_is_the_first_record_that_was_not_written(
    coterie_broker: LocalBroker,
) -> None:
    values = [b"%d" % n * 9_000 for n in range(30)]
    coterie_broker.create_topic("t", 1)
    coterie_broker.produce("t", *values)
    written = list[bytes]()

    def write(data: bytes) -> None:
        if len(written) == 2:
            raise OSError("full")
        written.append(data)

    async with reading(coterie_broker) as consumer:
        with pytest.raises(OSError, match="full"):
            await write_all(consumer, write)
        complete = b"".join(written).count(b"\n")
        assert 0 < complete < 30
        assert consumer.position(T0) == complete
        polled = await consumer.poll(1_000)
        assert polled[T0][0].value == values[complete]  # type: ignore[index]


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_batch_is_raised_behind_the_lines_before_it(coterie_broker: LocalBroker, damage: str) -> None:
    coterie_broker.create_topic("t", 1)
    for data in (batch(b"a", b"b"), DAMAGES[damage], batch(b"c")):
        put(coterie_broker, 0, bytes(data))
    async with reading(coterie_broker) as consumer:
        written = list[bytes]()
        for _ in range(3):
            with pytest.raises(CorruptBatchError) as raised:
                await write_all(consumer, written.append)
            assert raised.value.offset == 2
            assert consumer.position(T0) == 2
        assert b"".join(written) == b"a\nb\n"


def test_a_position_within_a_damaged_batch_does_not_go_back(coterie_broker: LocalBroker) -> None:
    """A commit of it would have the group read records a second time; tables of Arrow went back to the batch's beginning."""
    coterie_broker.create_topic("t", 1)
    damaged = batch(b"a", b"b", b"c")
    damaged[61] = 0x7E
    put(coterie_broker, 0, bytes(damaged))

    async def story(poll: Callable[[Consumer], Any]) -> None:
        async with reading(coterie_broker, check_crcs=False) as consumer:
            consumer.seek(T0, 2)
            with pytest.raises(CorruptBatchError):
                await poll(consumer)
            assert consumer.position(T0) == 2

    asyncio.run(story(lambda consumer: write_all(consumer, bytes)))
    asyncio.run(story(empty_tables_until_damage))


@pytest.mark.parametrize(
    ("setting", "are_lines"),
    [
        ({}, True),
        ({"value_deserializer": "StringDeserializer"}, False),
        ({"key_deserializer": "LongDeserializer"}, False),
        ({"interceptor_classes": (ConsumerInterceptor,)}, False),
    ],
    ids=str,
)
def test_records_that_something_else_is_to_see_are_no_lines(setting: dict[str, Any], are_lines: bool) -> None:
    async def story() -> bool:
        async with Consumer({"bootstrap.servers": "127.0.0.1:1"} | setting) as consumer:
            return returns_bytes(consumer)

    assert asyncio.run(story()) is are_lines
