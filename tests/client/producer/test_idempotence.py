"""A producer without transactions whose batch is lost goes on under its next epoch (KIP-360), without asking the broker.
The end of a producer's batch, for the tasks and callbacks that wait for it."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

import pytest

from coterie.client import KafkaError, Producer
from coterie.client.producer.delivery import BatchEnd
from coterie.producing.batch import Acknowledged
from coterie.producing.partition_queue import LAST_EPOCH
from coterie.testing import ErrorCode, LocalBroker


def producer(broker: LocalBroker) -> Producer:
    return Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0, "retry.backoff.ms": 10})


async def sent(one: Producer, value: bytes, partition: int = 0) -> int:
    """Its offset."""
    return (await (await one.send("t", value, partition=partition))).offset


def producers_of(broker: LocalBroker, partition: int) -> dict[int, tuple[int, int]]:
    """Epoch and last sequence by producer id, as the partition's log knows them."""
    by_id = broker.broker.topics.partition("t", partition).log.producers.by_id
    return {producer_id: (p.epoch, p.last_sequence) for producer_id, p in by_id.items()}


async def test_a_lost_batch_does_not_keep_the_next_from_being_written(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 2)
    async with producer(coterie_broker) as one:
        assert await sent(one, b"a") == 0
        assert await sent(one, b"other", 1) == 0
        (producer_id,) = producers_of(coterie_broker, 0)
        coterie_broker.fail("Produce", ErrorCode.MESSAGE_TOO_LARGE)
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
            await sent(one, b"lost")
        assert [await sent(one, b"b"), await sent(one, b"c")] == [1, 2]
        assert producers_of(coterie_broker, 0) == {producer_id: (1, 1)}
        assert await sent(one, b"other", 1) == 1
        assert producers_of(coterie_broker, 1) == {producer_id: (1, 0)}, "every partition starts again"
        assert coterie_broker.requested("InitProducerId") == 1


async def test_after_the_last_epoch_comes_another_producer_id(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 2)
    async with producer(coterie_broker) as one:
        await sent(one, b"a")
        (first_id,) = producers_of(coterie_broker, 0)
        one._sender.machine.identity.current = (first_id, LAST_EPOCH)
        coterie_broker.fail("Produce", ErrorCode.MESSAGE_TOO_LARGE)
        with pytest.raises(KafkaError):
            await sent(one, b"lost")
        assert await sent(one, b"b") == 1
        (second_id,) = set(producers_of(coterie_broker, 0)) - {first_id}
        assert producers_of(coterie_broker, 0)[second_id] == (0, 0)


async def test_a_task_that_is_cancelled_ends_nothing_for_the_others_and_leaves_nothing_behind() -> None:
    end = BatchEnd()

    async def waiting() -> Acknowledged | None:
        return await end

    tasks = [asyncio.create_task(waiting()) for _ in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.wait({tasks[1]})
    assert len(end._waiters) == 2
    tasks[0].cancel()  # is still to learn of it as the batch ends
    end.reach(Acknowledged(7))
    await asyncio.wait(tasks)
    assert [task.cancelled() for task in tasks] == [True, True, False]
    assert tasks[2].result() == Acknowledged(7)
    assert await end == Acknowledged(7)


async def test_callbacks_run_after_the_end_in_the_context_in_which_they_were_given() -> None:
    variable = ContextVar("variable", default="none")
    end, seen = BatchEnd(), list[str]()
    variable.set("first")
    end.then(lambda: seen.append(variable.get()))
    variable.set("second")
    end.reach(None)
    end.then(lambda: seen.append(variable.get()))
    assert not seen
    await asyncio.sleep(0)
    assert seen == ["first", "second"]
