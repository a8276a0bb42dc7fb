"""Columns come into the batches in which `Producer.send` of each record in turn puts them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.client.consumer.consumer import Consumer
from coterie.client.errors import KafkaError
from coterie.client.producer.column_sender import ColumnSender, RecordColumns
from coterie.client.producer.partitions import partition_for_key
from coterie.client.producer.producer import Producer
from coterie.testing import LocalBroker
from coterie.wire.errors import ErrorCode

BATCH_SIZE = 200
Row = tuple[bytes | None, bytes | None, int | None, tuple[tuple[str, bytes | None], ...]]
Batches = dict[tuple[str, int], list[tuple[int, list[Row]]]]  # by partition: size and records, without partition

blobs = st.none() | st.integers(0, 60).map(lambda n: b"x" * n) | st.sampled_from((b"x" * 200, b"x" * 500))
keys = st.none() | st.binary(max_size=3)
headers = st.lists(st.tuples(st.sampled_from(("h", "ä€")), st.none() | st.binary(max_size=9)), max_size=2).map(tuple)
rows = st.lists(st.tuples(blobs, keys, st.none() | st.integers(0, 2), headers), max_size=40)


def without(given_rows: list[Row], columns: set[str]) -> list[Row]:
    """Rows of which these columns are empty."""
    return [
        (v, None if "key" in columns else k, None if "partition" in columns else p, () if "headers" in columns else h)
        for v, k, p, h in given_rows
    ]


def columns_of(given_rows: list[Row], absent: set[str]) -> RecordColumns:
    values, key_column, partitions, header_column = ([row[n] for row in given_rows] for n in range(4))
    header_bytes = [sum(len(name.encode()) + len(value or b"") for name, value in row[3]) for row in given_rows]
    return RecordColumns(
        values,  # type: ignore[arg-type]
        None if "key" in absent else key_column,  # type: ignore[arg-type]
        None if "partition" in absent else partitions,  # type: ignore[arg-type]
        None if "headers" in absent else header_column,  # type: ignore[arg-type]
        None if "headers" in absent else header_bytes,
    )


def unconnected(**given_settings: str) -> Producer[bytes, bytes]:
    """A producer that knows of the topic, and whose loop has no turn in which it would connect."""
    producer = Producer[bytes, bytes](
        {"bootstrap.servers": "127.0.0.1:1", "batch.size": BATCH_SIZE} | given_settings  # no look-up of a name
    )
    producer._counts["t"], producer._sticky["t"] = 3, 1
    return producer


def batches_of(producer: Producer[bytes, bytes]) -> Batches:
    return {
        partition: [(b.size, [(value, key, None, tuple(h)) for _, key, value, h in b.items]) for b in queue.batches]
        for partition, queue in producer._accumulator.queues.items()
    }


async def sent(pieces: list[list[Row]], absent: set[str], *, by_columns: bool) -> Batches:
    producer, failures = unconnected(), list[KafkaError]()
    sender = ColumnSender(producer, failures.append)
    for piece in pieces:
        if by_columns:
            await sender.send("t", columns_of(piece, absent))
        else:
            for value, key, partition, pairs in piece:
                await producer.send("t", value, key, partition=partition, headers=pairs)
    assert len(producer._ends) == sum(len(queue.batches) for queue in producer._accumulator.queues.values())
    batches = batches_of(producer)
    await producer.close(0)
    return batches


@given(st.lists(rows, max_size=3), st.sets(st.sampled_from(("key", "partition", "headers"))))
def test_the_batches_are_those_of_single_records(given_pieces: list[list[Row]], absent: set[str]) -> None:
    pieces = [without(piece, absent) for piece in given_pieces]
    are_spread = (
        any(k is None and p is None for piece in pieces for _, k, p, _ in piece) and not {"key", "partition"} <= absent
    )
    columns = asyncio.run(sent(pieces, absent, by_columns=True))
    if not are_spread:
        assert columns == asyncio.run(sent(pieces, absent, by_columns=False))
        return
    # Records without a key beside others: they are where the open batch is, by its size before the others of their piece.
    assert all(size <= BATCH_SIZE or len(items) == 1 for of_one in columns.values() for size, items in of_one)
    every = [
        ((value, key, None, pairs), wanted(row)) for piece in pieces for row in piece for value, key, _, pairs in [row]
    ]
    for (_, partition), of_one in columns.items():
        later = iter(every)  # what is in a partition comes in the order of the rows
        for row in (row for _, items in of_one for row in items):
            assert any(row == other and number in (None, partition) for other, number in later)
    assert sum(len(items) for of_one in columns.values() for _, items in of_one) == sum(map(len, pieces))


def wanted(row: Row) -> int | None:
    """The partition to which a record must go."""
    _, key, partition, _ = row
    return partition if partition is not None or key is None else partition_for_key(key, 3)


@pytest.mark.parametrize(
    ("columns", "code"),
    [
        (RecordColumns([b"v", b"x" * 2_000_000]), ErrorCode.MESSAGE_TOO_LARGE),
        (RecordColumns([b"v", b"v"], partitions=[0, -1]), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
async def test_a_record_that_cannot_be_sent_fails_the_columns(columns: RecordColumns, code: ErrorCode) -> None:
    producer = unconnected()
    with pytest.raises(KafkaError) as failed:
        await ColumnSender(producer, lambda error: None).send("t", columns)
    assert failed.value.code == code
    assert batches_of(producer) == {}
    await producer.close(0)
    with pytest.raises(RuntimeError, match="closed"):
        await ColumnSender(producer, lambda error: None).send("t", RecordColumns([b"v"]))


async def test_columns_need_a_transaction_where_the_producer_has_an_id() -> None:
    producer = unconnected(**{"transactional.id": "x"})
    with pytest.raises(KafkaError):
        await ColumnSender(producer, lambda error: None).send("t", RecordColumns([b"v"]))
    await producer.close(0)


@pytest.mark.parametrize("with_keys", [False, True])
def test_columns_larger_than_the_buffer(coterie_broker: LocalBroker, with_keys: bool) -> None:
    """All arrive, and with keys in order, though the buffer has room for a twentieth of them."""
    coterie_broker.create_topic("t", 2)
    server = {"bootstrap.servers": coterie_broker.bootstrap_servers}
    values = [b"%05d" % n for n in range(2_000)]
    key_column = [b"k%d" % (n % 7) for n in range(2_000)] if with_keys else None

    async def story() -> list[Any]:
        failures: list[KafkaError] = []
        bounds: dict[str, Any] = {"buffer.memory": 3_000, "batch.size": 1_000}
        async with Producer(server | bounds) as producer:
            await ColumnSender(producer, failures.append).send("t", RecordColumns(values, key_column))
            assert producer._accumulator.buffered_bytes <= 3_000
            await producer.flush()
        assert failures == []
        async with Consumer(server | {"auto.offset.reset": "earliest"}) as consumer:
            await consumer.assign([("t", 0), ("t", 1)])
            records: list[Any] = []
            while len(records) < len(values):
                records += [record for polled in (await consumer.poll(1_000)).values() for record in polled]
        return records

    records = asyncio.run(story())
    assert sorted(record.value for record in records) == values
    if key_column is not None:
        for partition in (0, 1):
            assert [r.value for r in records if r.partition == partition] == [
                v for v, k in zip(values, key_column, strict=True) if partition_for_key(k, 2) == partition
            ]


def test_a_batch_that_fails_is_reported_once(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 1)
    coterie_broker.fail("Produce", ErrorCode.TOPIC_AUTHORIZATION_FAILED, times=1)

    async def story() -> list[ErrorCode]:
        failures: list[KafkaError] = []
        async with Producer({"bootstrap.servers": coterie_broker.bootstrap_servers}) as producer:
            await ColumnSender(producer, failures.append).send("t", RecordColumns([b"one", b"two"]))
            await producer.flush()
        return [error.code for error in failures]

    assert asyncio.run(story()) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
