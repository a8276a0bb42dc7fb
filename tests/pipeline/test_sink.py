"""The exactly-once sink without Spark: what a task that was killed, and still runs, may not leave behind. Arrow's columns
as a producer takes them."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from coterie.client import Admin, Consumer, KafkaError
from coterie.client.offsets.offsets import list_offsets
from coterie.client.settings.settings import client_settings
from coterie.pipeline.options.options import sink_options
from coterie.pipeline.options.types import OptionError
from coterie.pipeline.sink import SinkTarget, TaskId, WriteAborted, abort_write, by_topic, write_rows, write_transaction
from coterie.pipeline.sink import target as sink_target
from coterie.records.arrow_arrays import blobs_of
from coterie.testing import LocalBroker
from coterie.wire.errors import ErrorCode
from tests.broker_process import BrokerProcess, free_port

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def target(broker: BrokerProcess, *, topic: str | None = "out") -> SinkTarget:
    columns = ("value",) if topic else ("topic", "value")
    return SinkTarget({"bootstrap.servers": broker.address}, topic, columns, exactly_once=True, write_id="w1")


def rows(*values: bytes, topic: str = "out") -> Any:
    return pyarrow.record_batch({"topic": [topic] * len(values), "value": list(values)})


async def first_unstable_offset(broker: BrokerProcess, topic: str) -> int:
    """How far a reader of committed records gets, less the end: 0 where no transaction is open."""
    settings = {"bootstrap.servers": broker.address}
    async with Consumer(settings) as consumer:
        ends = await list_offsets(consumer._cluster, {(topic, 0): -1})
        stable = await list_offsets(consumer._cluster, {(topic, 0): -1}, committed=True)
    return stable[topic, 0] - ends[topic, 0]


async def create(broker: BrokerProcess) -> None:
    async with Admin({"bootstrap.servers": broker.address}) as admin:
        await admin.create_topic("out", 1)


@pytest.mark.parametrize("topic", ["out", None])
def test_a_killed_task_that_starts_after_the_abort_begins_no_transaction(
    broker: BrokerProcess, topic: str | None
) -> None:
    to = target(broker, topic=topic)

    async def story() -> int:
        await create(broker)
        await abort_write(to, [None, None], query_id=to.write_id)
        with pytest.raises(WriteAborted):
            await write_transaction(to, TaskId(to.write_id, -1, 1), iter([rows(b"late")]))
        return await first_unstable_offset(broker, "out")

    assert asyncio.run(story()) == 0


def test_a_killed_task_that_has_begun_is_fenced_by_the_abort(broker: BrokerProcess) -> None:
    to = target(broker)

    def batches() -> Iterator[Any]:
        yield rows(b"before")
        with ThreadPoolExecutor() as pool:  # the driver, in the middle of the task's write
            pool.submit(lambda: asyncio.run(abort_write(to, [None], query_id=to.write_id))).result()
        yield rows(b"after")

    async def story() -> int:
        await create(broker)
        with pytest.raises(KafkaError):
            await write_transaction(to, TaskId(to.write_id, -1, 0), batches())
        return await first_unstable_offset(broker, "out")

    assert asyncio.run(story()) == 0


def test_a_stream_batch_that_failed_holds_back_its_own_tasks_only(broker: BrokerProcess) -> None:
    failed = target(broker)
    again = SinkTarget(failed.client, "out", ("value",), exactly_once=True, write_id="w2")

    async def story() -> int:
        await create(broker)
        await abort_write(failed, [None], query_id=None)
        with pytest.raises(WriteAborted):
            await write_transaction(failed, TaskId("query", 7, 0), iter([rows(b"late")]))
        return (await write_transaction(again, TaskId("query", 7, 0), iter([rows(b"again")]))).records

    assert asyncio.run(story()) == 1


@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_write_to_a_broker_that_is_away_ends_by_the_delivery_timeout(exactly_once: bool) -> None:
    """And so does the end of a write that has failed, which otherwise waits for 60 s more."""
    address = f"127.0.0.1:{free_port()}"
    given = {"kafka.bootstrap.servers": address, "kafka.delivery.timeout.ms": "300"}
    options = given | {"topic": "out", "exactlyOnce": str(exactly_once)}
    to = sink_target(sink_options(options), StructType().add("value", "binary"))

    async def write() -> None:
        batches = iter([rows(b"v")])
        await (write_transaction(to, TaskId(to.write_id, -1, 0), batches) if exactly_once else write_rows(to, batches))

    async def story() -> None:
        with pytest.raises(KafkaError, match=re.escape(address)):
            await write()
        if exactly_once:
            with pytest.raises(KafkaError):
                await abort_write(to, [None], query_id=None)

    started_s = time.monotonic()
    asyncio.run(story())
    assert time.monotonic() - started_s < 10


@pytest.mark.parametrize(
    ("given", "max_block_ms"),
    [
        ({}, 60_000),
        ({"delivery.timeout.ms": "5000"}, 5_000),
        ({"delivery.timeout.ms": "200000"}, 60_000),
        ({"delivery.timeout.ms": "5000", "max.block.ms": "9000"}, 9_000),
    ],
)
def test_waits_of_a_task(given: dict[str, str], max_block_ms: int) -> None:
    to = SinkTarget({"bootstrap.servers": "h:1"} | given, "out", ("value",), exactly_once=False, write_id="w")
    assert client_settings(to.producer_settings()).max_block_ms == max_block_ms


def test_a_batch_that_the_broker_refuses_fails_the_write(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("out", 1)
    coterie_broker.fail("Produce", ErrorCode.TOPIC_AUTHORIZATION_FAILED, times=1)
    to = SinkTarget(
        {"bootstrap.servers": coterie_broker.bootstrap_servers}, "out", ("value",), exactly_once=False, write_id="w"
    )
    with pytest.raises(KafkaError) as failed:
        asyncio.run(write_rows(to, iter([rows(b"one", b"two")])))
    assert failed.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_rows_are_sent_while_spark_makes_the_next_ones(coterie_broker: LocalBroker) -> None:
    """Which may take longer than delivery.timeout.ms."""
    coterie_broker.create_topic("out", 1)
    to = SinkTarget(
        {"bootstrap.servers": coterie_broker.bootstrap_servers}, "out", ("value",), exactly_once=False, write_id="w"
    )

    def batches() -> Iterator[Any]:
        yield rows(b"one")
        coterie_broker.until_requested("Produce", 1)
        yield rows(b"two")

    assert asyncio.run(write_rows(to, batches())).records == 2


def test_rows_name_their_topics(coterie_broker: LocalBroker) -> None:
    """Those of a topic stay in order."""
    for topic in ("a", "b"):
        coterie_broker.create_topic(topic, 1)
    server = {"bootstrap.servers": coterie_broker.bootstrap_servers}
    to = SinkTarget(server, None, ("value", "topic"), exactly_once=False, write_id="w")
    batch = pyarrow.record_batch({"topic": ["b", "a", "b"], "value": [b"1", b"2", b"3"]})
    assert asyncio.run(write_rows(to, iter([batch, rows(topic="a"), rows(b"4", topic="a")]))).records == 4

    async def values(topic: str, count: int) -> list[bytes | None]:
        async with Consumer(server | {"auto.offset.reset": "earliest"}) as consumer:
            await consumer.assign([(topic, 0)])
            records: list[Any] = []
            while len(records) < count:
                records += (await consumer.poll(1_000)).get((topic, 0), [])
        return [record.value for record in records]

    assert asyncio.run(values("a", 2)) == [b"2", b"4"]
    assert asyncio.run(values("b", 2)) == [b"1", b"3"]


def test_a_row_without_a_topic(coterie_broker: LocalBroker) -> None:
    to = SinkTarget(
        {"bootstrap.servers": coterie_broker.bootstrap_servers},
        None,
        ("value", "topic"),
        exactly_once=False,
        write_id="w",
    )
    batch = pyarrow.record_batch({"topic": pyarrow.array(["a", None]), "value": [b"1", b"2"]})
    with pytest.raises(OptionError, match="a row has no topic"):
        asyncio.run(write_rows(to, iter([batch])))


pairs = st.tuples(st.sampled_from(("", "h", "ä€")), st.none() | st.binary(max_size=3))
header_rows = st.none() | st.lists(pairs, max_size=3)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_keys_and_values(kind: Any) -> None:
    column = pa.array(["\u00e9".encode(), None, b""], pa.binary()).cast(kind)
    assert blobs_of(column) == ["\u00e9".encode(), None, b""]
    assert blobs_of(column.slice(2)) == [b""]
    assert blobs_of(pa.nulls(2, kind)) == [None, None]
    assert blobs_of(column.slice(3)) == []


@given(st.lists(header_rows, max_size=8) | st.integers(1, 4).map(lambda n: [[("h", b"v")]] * n), st.integers(0, 3))
def test_the_headers_of_rows(given_rows: list[list[tuple[str, bytes | None]] | None], begin: int) -> None:
    structs = [None if row is None else [{"key": k, "value": v} for k, v in row] for row in given_rows]
    batch = pa.record_batch({"value": pa.nulls(len(structs), pa.binary()), "headers": pa.array(structs, HEADERS)})
    ((_, columns),) = by_topic(batch.slice(begin), ("value", "headers"), "t")
    wanted = [tuple(row or ()) for row in given_rows[begin:]]
    assert columns.headers == wanted
    assert columns.header_bytes == [sum(len(k.encode()) + len(v or b"") for k, v in row) for row in wanted]


def test_a_header_without_a_name() -> None:
    batch = pa.record_batch({"value": [b"v"], "headers": pa.array([[{"key": None, "value": b"v"}]], HEADERS)})
    with pytest.raises(OptionError, match="a header has no name"):
        list(by_topic(batch, ("value", "headers"), "t"))
