"""The exactly-once sink without Spark: what a task that was killed, and still runs, may not leave behind."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow
import pytest

from coterie.client import Admin, Consumer, KafkaError
from coterie.client.offsets import list_offsets
from coterie.pipeline.sink import SinkTarget, TaskId, WriteAborted, abort_write, write_transaction
from tests.broker_process import BrokerProcess

pytestmark = pytest.mark.spark  # the sink's module imports PySpark; no session is started


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
