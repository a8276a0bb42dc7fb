"""Each call of a producer is cancelled at each of its awaits. Then the producer works on, a record is in the log once at most,
and a transaction ends as the next call has it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable

import pytest

from coterie.client import Consumer, KafkaError, Producer
from coterie.client.types import ConsumerGroupMetadata
from coterie.testing import LocalBroker
from tests.awaiting import until
from tests.client.cancelling import Cancelled, at_every_await

_NUMBERS = itertools.count()


class Topic:
    """A topic of its own for each story, with a producer, which is transactional under the topic's name if ``has_id``."""

    def __init__(self, broker: LocalBroker, *, has_id: bool = False, **settings: object) -> None:
        self.broker, self.name = broker, f"t{next(_NUMBERS)}"
        broker.create_topic(self.name)
        self.address = {"bootstrap.servers": broker.bootstrap_servers}
        named = {key.replace("_", "."): value for key, value in settings.items()}
        identity = {"transactional.id": self.name} if has_id else {}
        self.producer: Producer[bytes, bytes] = Producer(self.address | identity | named)

    async def send(self, *values: bytes) -> None:
        for value in values:
            await self.producer.send(self.name, value)

    async def begin(self, *values: bytes) -> None:
        """A transaction, and these records in it."""
        await self.producer.init_transactions()
        self.producer.begin_transaction()
        await self.send(*values)

    async def closed(self) -> list[bytes | None]:
        """The values of the committed records, once the producer is closed and has left no task behind."""
        await self.producer.close()
        await until(lambda: asyncio.all_tasks() == {asyncio.current_task()}, asyncio.all_tasks)
        settings = self.address | {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}
        values: list[bytes | None] = []
        async with Consumer(settings) as reader:
            await reader.assign([(self.name, 0)])
            end = (await reader.end_offsets([(self.name, 0)]))[self.name, 0]  # type: ignore[index]
            while reader.position((self.name, 0)) < end:
                values += [r.value for records in (await reader.poll(50)).values() for r in records]
        return values


@pytest.mark.parametrize("linger_ms", [0, 5])
@at_every_await()
async def test_a_send(cancelled: Cancelled, coterie_broker: LocalBroker, linger_ms: int) -> None:
    """A record whose `send` has not returned is not sent."""
    topic = Topic(coterie_broker, linger_ms=linger_ms)
    await cancelled.during(topic.send(b"a"))
    await topic.send(b"b")
    await topic.producer.flush()
    assert await topic.closed() == ([b"b"] if cancelled.is_due else [b"a", b"b"])


@at_every_await()
async def test_a_send_that_waits_for_room(cancelled: Cancelled, coterie_broker: LocalBroker) -> None:
    topic = Topic(coterie_broker, linger_ms=5, buffer_memory=300)
    await topic.send(b"a" * 200)
    await cancelled.during(topic.send(b"b" * 200))
    await topic.send(b"c" * 200)
    firsts = [value[:1] for value in await topic.closed() if value is not None]
    assert firsts == ([b"a", b"c"] if cancelled.is_due else [b"a", b"b", b"c"])


@pytest.mark.parametrize("name", ["delivery", "flush", "partitions_for", "send_and_wait"])
@at_every_await()
async def test_a_wait(cancelled: Cancelled, coterie_broker: LocalBroker, name: str) -> None:
    """The record goes its way all the same, and its delivery can be awaited again."""
    topic = Topic(coterie_broker, linger_ms=5)
    producer = topic.producer
    values = [b"a", b"b"] if name in ("delivery", "flush") else []
    deliveries = [await producer.send(topic.name, value) for value in values]
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "delivery": lambda: deliveries[0],
        "flush": producer.flush,
        "partitions_for": lambda: producer.partitions_for(topic.name),
        "send_and_wait": lambda: producer.send_and_wait(topic.name, b"d"),
    }
    await cancelled.during(calls[name]())
    assert [(await delivery).offset for delivery in deliveries] == list(range(len(deliveries)))
    await producer.send_and_wait(topic.name, b"c")
    sent = await topic.closed()
    if name == "send_and_wait" and sent != [b"c"]:
        values = [b"d"]
    assert sent == [*values, b"c"]
    assert cancelled.is_due or name != "send_and_wait" or values


@pytest.mark.parametrize("is_transactional", [True, False])
@at_every_await()
async def test_a_close(cancelled: Cancelled, coterie_broker: LocalBroker, is_transactional: bool) -> None:
    """What was sent is acknowledged, or fails; a transaction is not committed."""
    topic = Topic(coterie_broker, has_id=is_transactional, linger_ms=5)
    if is_transactional:
        await topic.begin()
    deliveries = [await topic.producer.send(topic.name, value) for value in (b"a", b"b")]
    await cancelled.during(topic.producer.close())
    results = await asyncio.gather(*map(_result, deliveries))
    if is_transactional:
        async with Producer(topic.address | {"transactional.id": topic.name}) as next_one:
            await next_one.init_transactions()
    values = await topic.closed()
    if is_transactional:
        assert values == []
    elif "REQUEST_TIMED_OUT" in results:
        assert cancelled.is_due
        assert values in ([], [b"a", b"b"])
    else:
        assert (results, values) == ([0, 1], [b"a", b"b"])


async def _result(delivery: Awaitable[object]) -> object:
    try:
        return getattr(await delivery, "offset")  # noqa: B009 -- of a RecordMetadata
    except KafkaError as error:
        return error.code.name


# -- transactions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["init", "send", "flush", "offsets", "commit", "abort"])
@at_every_await()
async def test_a_call_of_a_transaction(cancelled: Cancelled, coterie_broker: LocalBroker, name: str) -> None:
    """The same call once more comes to the end that the first would have come to."""
    topic = Topic(coterie_broker, has_id=True)
    producer, offsets = topic.producer, {(topic.name, 0): 7}
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "init": producer.init_transactions,
        "send": lambda: topic.send(b"a"),
        "flush": producer.flush,
        "offsets": lambda: producer.send_offsets_to_transaction(offsets, ConsumerGroupMetadata(topic.name)),
        "commit": producer.commit_transaction,
        "abort": producer.abort_transaction,
    }
    if name != "init":
        await topic.begin(*([] if name == "send" else [b"a"]))
    await cancelled.during(calls[name]())
    if cancelled.is_due:
        await calls[name]()
    if name == "init":
        producer.begin_transaction()
        await topic.send(b"a")
    if name not in ("commit", "abort"):
        await producer.commit_transaction()
    producer.begin_transaction()
    await topic.send(b"b")
    await producer.commit_transaction()
    assert await topic.closed() == ([b"b"] if name == "abort" else [b"a", b"b"])
    assert coterie_broker.committed(topic.name) == (offsets if name == "offsets" else {})


@pytest.mark.parametrize("is_committed", [True, False])
@at_every_await()
async def test_the_end_of_a_transaction_after_offsets_that_were_not_awaited(
    cancelled: Cancelled, coterie_broker: LocalBroker, is_committed: bool
) -> None:
    topic = Topic(coterie_broker, has_id=True)
    await topic.begin(b"a")
    group, offsets = ConsumerGroupMetadata(topic.name), {(topic.name, 0): 7}
    await cancelled.during(topic.producer.send_offsets_to_transaction(offsets, group))
    await (topic.producer.commit_transaction() if is_committed else topic.producer.abort_transaction())
    assert await topic.closed() == ([b"a"] if is_committed else [])
    committed = coterie_broker.committed(topic.name)
    assert committed == (offsets if is_committed else {}) or (cancelled.is_due and not committed)


@at_every_await()
async def test_a_block(cancelled: Cancelled, coterie_broker: LocalBroker) -> None:
    """Left before its commit it is aborted, left later the commit goes on, and `commit_transaction` waits for that."""
    topic = Topic(coterie_broker, has_id=True)
    producer = topic.producer
    await producer.init_transactions()

    async def block() -> None:
        async with producer.transaction():
            await topic.send(b"a")
            await producer.send_offsets_to_transaction({(topic.name, 0): 7}, ConsumerGroupMetadata(topic.name))

    await cancelled.during(block())
    is_committed = not cancelled.is_due
    with contextlib.suppress(KafkaError):  # of a block that was left before its commit
        await producer.commit_transaction()
        is_committed = True
    producer.begin_transaction()
    await topic.send(b"b")
    await producer.commit_transaction()
    assert await topic.closed() == ([b"a", b"b"] if is_committed else [b"b"])
    assert coterie_broker.committed(topic.name) == ({(topic.name, 0): 7} if is_committed else {})


@at_every_await()
async def test_a_transaction_that_is_to_be_left_open(cancelled: Cancelled, coterie_broker: LocalBroker) -> None:
    topic = Topic(coterie_broker, has_id=True)
    await topic.begin(b"a")
    await cancelled.during(topic.producer.leave_transaction_open())
    left = await topic.producer.leave_transaction_open()
    await topic.producer.close()
    async with Producer(topic.address | {"transactional.id": topic.name}) as other:
        other.resume_transaction(left)
        await other.commit_transaction()
    assert await topic.closed() == [b"a"]
