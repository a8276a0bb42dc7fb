"""A batch that cannot be read: CORRUPT_MESSAGE with partition and offset, again at each poll until one seeks, and no record
around it lost (FetchCollectorTest, FetcherTest.testInvalidDefaultRecordBatch, testParseCorruptedRecord)."""

from __future__ import annotations

import asyncio
import pickle
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import google_crc32c
import pytest

from coterie.client import Consumer
from coterie.client.errors import CorruptBatchError
from coterie.records.compression import CODEC_BY_NAME
from coterie.records.encoding import encode_batch
from coterie.testing import LocalBroker
from coterie.testing.local_broker import LocalBroker as Broker

T0 = ("t", 0)


def batch(*values: bytes, codec: str = "none") -> bytearray:
    return bytearray(encode_batch([(1, None, v, ()) for v in values], codec=CODEC_BY_NAME[codec]))


def sealed(data: bytearray) -> bytes:
    """Length and CRC made right again."""
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">I", data, 17, google_crc32c.value(bytes(data[21:])))
    return bytes(data)


def wrong_crc() -> bytes:
    data = batch(b"bad")
    data[-2] ^= 1
    return bytes(data)


def wrong_record_length() -> bytes:
    data = batch(b"bad")
    data[61] = 0x7E
    return sealed(data)


def more_records_than_there_are() -> bytes:
    data = batch(b"bad")
    struct.pack_into(">i", data, 57, 5)
    struct.pack_into(">i", data, 23, 4)
    return sealed(data)


def garbage_in(codec: str) -> bytes:
    data = batch(b"bad" * 50, codec=codec)
    data[65:] = b"\xa5" * (len(data) - 65)
    return sealed(data)


def header_name_of_negative_length() -> bytes:
    data = bytearray(encode_batch([(1, None, b"bad", [("name", b"x")])]))
    data[data.index(b"name") - 1] = 0x03  # zigzag of -2
    return sealed(data)


DAMAGES = {
    "wrong CRC": wrong_crc(),
    "wrong record length": wrong_record_length(),
    "more records than there are": more_records_than_there_are(),
    "garbage as zstd": garbage_in("zstd"),
    "garbage as lz4": garbage_in("lz4"),
    "garbage as gzip": garbage_in("gzip"),
    "garbage as snappy": garbage_in("snappy"),
    "a header's name of length -2": header_name_of_negative_length(),
}


def put(broker: Broker, partition: int, data: bytes) -> None:
    """Into the log, past every check, as a damaged disk would have it."""
    log = broker.broker.topics.partition("t", partition).log
    broker._call(lambda: log.append_own(data, 0))


@asynccontextmanager
async def reading(broker: LocalBroker, partitions: int = 1, **more: Any) -> AsyncIterator[Consumer]:
    given = {key.replace("_", "."): value for key, value in more.items()}
    settings = {"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest", "fetch.max.wait.ms": 50}
    async with asyncio.timeout(30), Consumer(settings | given) as consumer:
        await consumer.assign([("t", p) for p in range(partitions)])
        yield consumer


async def empty_tables_until_damage(consumer: Consumer) -> None:
    while True:
        assert not len(await consumer.poll_arrow(100))


async def values_until_damage(consumer: Consumer) -> tuple[list[bytes | None], CorruptBatchError]:
    values: list[bytes | None] = []
    while True:
        try:
            polled = await consumer.poll(100)
        except CorruptBatchError as error:
            return values, error
        values += [r.value for records in polled.values() for r in records]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("max_records", [1, 500])
async def test_it_is_raised_with_each_poll_until_one_seeks(
    coterie_broker: LocalBroker, damage: str, max_records: int
) -> None:
    coterie_broker.create_topic("t", 1)
    for data in (batch(b"a", b"b"), DAMAGES[damage], batch(b"c")):
        put(coterie_broker, 0, bytes(data))
    async with reading(coterie_broker, max_poll_records=max_records) as consumer:
        before, error = await values_until_damage(consumer)
        assert before == [b"a", b"b"]
        assert (error.topic, error.partition, error.offset) == ("t", 0, 2)
        assert error.code.name == "CORRUPT_MESSAGE"
        assert "t-0 cannot be read at offset 2: " in str(error)
        for _ in range(3):
            assert (await values_until_damage(consumer))[0] == []
            assert consumer.position(T0) == 2
        consumer.seek(T0, 2)
        assert (await values_until_damage(consumer))[0] == []
        consumer.pause([T0])
        assert await consumer.poll(10) == {}
        consumer.resume([T0])
        end = (await consumer.end_offsets([T0]))[T0]
        consumer.seek(T0, end - 1)
        polled: dict[Any, Any] = {}
        while not polled:
            polled = await consumer.poll(100)
        assert [r.value for r in polled[T0]] == [b"c"]


@pytest.mark.parametrize("damage", sorted(DAMAGES.keys() - {"a header's name of length -2"}))  # a table has no headers
async def test_arrow_tables_end_before_it(coterie_broker: LocalBroker, damage: str) -> None:
    coterie_broker.create_topic("t", 1)
    for data in (batch(b"a", b"b"), DAMAGES[damage], batch(b"c")):
        put(coterie_broker, 0, bytes(data))
    async with reading(coterie_broker) as consumer:
        values: list[bytes] = []
        while len(values) < 2:
            values += (await consumer.poll_arrow(100))["value"].to_pylist()
        assert values == [b"a", b"b"]
        for _ in range(3):
            with pytest.raises(CorruptBatchError, match="t-0 cannot be read at offset 2: "):
                await empty_tables_until_damage(consumer)
            assert consumer.position(T0) == 2


async def test_no_record_of_another_partition_is_lost(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 3)
    for n in range(3):
        for data in (batch(b"%d-first" % n), *([wrong_record_length()] if n == 1 else []), batch(b"%d-last" % n)):
            put(coterie_broker, n, bytes(data))
    async with reading(coterie_broker, partitions=3) as consumer:
        values: set[bytes | None] = set()
        for _ in range(1000):
            more, error = await values_until_damage(consumer)
            values |= set(more)
            assert (error.partition, error.offset) == (1, 1)
            consumer.pause([("t", 1)])
            polled = await consumer.poll(100)
            values |= {r.value for records in polled.values() for r in records}
            consumer.resume([("t", 1)])
            if len(values) == 5:
                break
        assert values == {b"0-first", b"0-last", b"1-first", b"2-first", b"2-last"}
        consumer.seek(("t", 1), error.next_offset)
        more = []
        while not more:
            more = [r.value for r in (await consumer.poll(100)).get(("t", 1), [])]
        assert more == [b"1-last"]


async def test_without_check_crcs_a_wrong_crc_is_no_damage(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 1)
    put(coterie_broker, 0, wrong_crc())
    async with reading(coterie_broker, check_crcs="false") as consumer:
        polled: dict[Any, Any] = {}
        while not polled:
            polled = await consumer.poll(100)
        assert len(polled[T0]) == 1


def test_the_error_of_a_spark_task_reaches_the_driver_whole() -> None:
    error = CorruptBatchError("t", 3, 17, 20, "the CRC is wrong")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.code, again.offset, again.next_offset) == (str(error), error.code, 17, 20)
