"""Records between `send` and their batch: which partition those without key go to, and callers that wait, give up or are many.
Kafka's RecordAccumulatorTest by name."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from itertools import pairwise

import pytest

from coterie.client import Delivery, RecordMetadata
from coterie.client.blocking import BlockingProducer
from coterie.testing import LocalBroker
from coterie.wire.messages.logs.produce import ProduceRequest
from tests.awaiting import quiet
from tests.client.transactions.test_transaction_calls import transacting

pytestmark = pytest.mark.virtual_time

LARGE, SMALL = bytes(200), b"value"


async def partitions_of(sizes: list[bytes], keyed: int | None = None) -> list[int]:
    """Of records without key, the first's called 0; before each, one to the partition ``keyed``, seen from the first's."""
    async with transacting(transactional_id=None, linger_ms=60_000, batch_size=150) as (one, _cluster):
        deliveries: list[Delivery] = [await one.send("t", SMALL)]
        first = deliveries[0]._batch.partition[1]
        for value in sizes:
            if keyed is not None:
                await one.send("t", LARGE, partition=(first + keyed) % 2)
            deliveries.append(await one.send("t", value))
        await one.flush()
        return [((await delivery).partition - first) % 2 for delivery in deliveries]


async def test_records_without_key_go_round_by_batches() -> None:
    """testUniformBuiltInPartitioner: a large record still joins the partition whose batch it closes, the next one does not."""
    assert await partitions_of([LARGE, LARGE, LARGE, LARGE]) == [0, 0, 1, 0, 1]


async def test_batches_of_another_partition_move_no_record_without_key() -> None:
    """KIP-480: only the end of a batch of the partition in use does."""
    assert await partitions_of([SMALL, SMALL], keyed=1) == [0, 0, 0]


async def test_lingering_batches_are_not_divided() -> None:
    """testBuiltInPartitionerFractionalBatches: what comes in one linger.ms is one batch, two thirds full."""
    async with transacting(transactional_id=None, linger_ms=60_000, batch_size=150) as (one, cluster):
        for round_of in range(1, 11):
            batches = {id((await one.send("t", SMALL))._batch) for _ in range(4)}
            assert len(batches) == 1
            await one.flush()
            assert len([r for r in cluster.requested if isinstance(r, ProduceRequest)]) == round_of


async def test_a_flush_that_is_given_up_leaves_no_trace() -> None:
    """testAwaitFlushComplete: later records linger again."""
    async with transacting(transactional_id=None, linger_ms=60_000) as (one, cluster):
        cluster.hold(ProduceRequest)
        await one.send("t", SMALL, partition=0)
        flush = asyncio.create_task(one.flush())
        await quiet()
        flush.cancel()
        assert await asyncio.gather(flush, return_exceptions=True) != [None]
        cluster.release(ProduceRequest)
        lingering = await one.send("t", SMALL, partition=1)
        await quiet()
        assert not lingering._end.is_reached
        assert cluster.kinds().count("Produce") == 1


def test_many_threads_send(coterie_broker: LocalBroker) -> None:
    """testStressfulSituation: nothing is lost, and each thread's records are in their order."""
    coterie_broker.create_topic("t", 2)
    address = {"bootstrap.servers": coterie_broker.bootstrap_servers, "batch.size": 1_024, "buffer.memory": 10_240}
    sent: list[list[Future[RecordMetadata]]] = [[] for _ in range(5)]
    with BlockingProducer[bytes, bytes](address | {"linger.ms": 0}) as one:

        def send(number: int) -> None:
            sent[number] += [one.send("t", b"%d" % number, b"key", partition=n % 2) for n in range(200)]

        threads = [threading.Thread(target=send, args=(number,)) for number in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        one.flush()
        offsets = [[future.result().offset for future in futures] for futures in sent]
    for parity in (0, 1):
        assert sorted(offset for each in offsets for offset in each[parity::2]) == list(range(500))
        assert all(first < second for each in offsets for first, second in pairwise(each[parity::2]))
