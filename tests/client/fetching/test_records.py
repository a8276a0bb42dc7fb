"""What a consumer returns and what `send` promises: records and their places as named tuples; records one after the other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coterie.client import (
    Consumer,
    ConsumerInterceptor,
    KafkaError,
    Producer,
    Record,
    RecordMetadata,
    TimestampType,
    TopicPartition,
)
from coterie.records import decoding
from coterie.testing import ErrorCode, LocalBroker
from tests.client.group import member, polled, read, settled

T0 = TopicPartition("t", 0)
HEADERS = (("h", b"x"), ("n", None))


def settings(broker: LocalBroker, **more: Any) -> dict[str, Any]:
    given = {key.replace("_", "."): value for key, value in more.items()}
    return {"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest"} | given


async def records_of(consumer: Consumer, count: int) -> list[Record]:
    records: list[Record] = []
    async with asyncio.timeout(20):
        while len(records) < count:
            for some in (await consumer.poll(100)).values():
                records += some
    return records


@pytest.mark.parametrize("count", [1, decoding.MANY])
@pytest.mark.parametrize("times", list(TimestampType))
async def test_a_record_names_everything_that_the_broker_knows(
    coterie_broker: LocalBroker, count: int, times: TimestampType
) -> None:
    """Whether a batch is decoded record by record or all at once (from MANY on)."""
    broker_time = {TimestampType.CREATE_TIME: "CreateTime", TimestampType.LOG_APPEND_TIME: "LogAppendTime"}[times]
    coterie_broker.create_topic("t", 2, {"message.timestamp.type": broker_time})
    async with Producer(settings(coterie_broker)) as producer, Consumer(settings(coterie_broker)) as consumer:
        for n in range(count):
            delivery = await producer.send("t", b"v%d" % n, b"k", partition=1, timestamp_ms=7, headers=HEADERS)
        await producer.flush()
        sent = await delivery
        assert sent[:3] == ("t", 1, count - 1)
        assert (sent.timestamp_ms == 7) == (times is TimestampType.CREATE_TIME)
        await consumer.assign([("t", 1)])
        records = await records_of(consumer, count)
        assert [r.offset for r in records] == list(range(count))
        last = records[-1]
        assert type(last) is Record
        assert last == Record("t", 1, count - 1, sent.timestamp_ms, b"k", b"v%d" % (count - 1), HEADERS, times, 0)
        assert last.timestamp_type is times


async def test_a_delivery_without_acknowledgement_has_no_offset(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 1)
    async with Producer(settings(coterie_broker, acks=0, enable_idempotence=False)) as producer:
        deliveries = [await producer.send("t", b"v") for _ in range(3)]
        await producer.flush()
        assert {(await d).offset for d in deliveries} == {-1}


async def test_plain_tuples_stand_for_partitions(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 1)
    coterie_broker.produce("t", b"a", b"b")
    async with member(coterie_broker, enable_auto_commit=False) as one:
        await one.assign([("t", 0)])
        (partition,) = one.assignment()
        assert (type(partition), partition, partition.topic) == (TopicPartition, ("t", 0), "t")
        await one.commit({("t", 0): 1})
        assert (await one.committed([("t", 0)]))[T0] == 1
        one.pause([("t", 0)])
        assert one.paused() == {T0}
        one.resume([T0])
        one.seek(("t", 0), 1)
        assert await read(one) == [b"b"]
        assert one.position(("t", 0)) == one.position(T0) == 2
        for result in (await one.end_offsets([("t", 0)]), one.lag(), await one.offsets_for_times({("t", 0): 0})):
            assert {type(key) for key in result} == {TopicPartition}


# -- records one after the other -------------------------------------------------------------------------------------


async def test_iterating_returns_records_and_moves_the_position_by_one(coterie_broker: LocalBroker) -> None:
    """What was not handed out is not committed when the consumer is closed."""
    coterie_broker.create_topic("t", 1)
    coterie_broker.produce("t", *(b"%d" % n for n in range(100)))
    async with member(coterie_broker) as one:
        one.subscribe(["t"])
        values = []
        async for record in one:
            values.append((record.topic, record.partition, record.value))
            assert one.position(T0) == record.offset + 1
            if len(values) == 40:
                break
        assert values == [("t", 0, b"%d" % n) for n in range(40)]
        assert (await read(one))[0] == b"40", "a poll continues behind the record handed out last"
        one.seek(T0, 50)
    assert coterie_broker.committed("g") == {T0: 50}


async def test_iterating_follows_seek_and_pause(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 1)
    coterie_broker.produce("t", *(b"%d" % n for n in range(100)))
    async with member(coterie_broker) as one, asyncio.timeout(20):
        await one.assign([T0])
        offsets = []
        async for record in one:
            offsets.append(record.offset)
            if record.offset == 3:
                one.seek(T0, 90)
            if record.offset == 92:
                one.pause([T0])
                asyncio.get_running_loop().call_later(0.1, one.resume, [T0])
            if record.offset == 99:
                break
        assert offsets == [0, 1, 2, 3, *range(90, 100)]


async def test_iterating_runs_callbacks_between_two_records(coterie_broker: LocalBroker) -> None:
    """They wait for no end of the decoded records, which here is 100,000 away."""
    coterie_broker.create_topic("t", 2)
    for partition in (0, 1):
        coterie_broker.produce("t", *(b"x" for _ in range(50_000)), partition=partition)
    async with (
        member(coterie_broker, max_poll_records=1_000_000) as one,
        member(coterie_broker, "two") as two,
        asyncio.timeout(20),
    ):
        await settled(one, 2)
        await one.seek_to_beginning()  # polls have handed out records already
        assert one._membership is not None
        effects = one._membership.for_poll
        two.subscribe(["t"])
        joining = asyncio.create_task(polled(two, lambda: len(two.assignment()) == 1, "the second has its share"))
        due: list[object] = []
        async for _ in one:
            assert not due or effects[:1] != due, "a callback was due before this record"
            await asyncio.sleep(0.001)
            due = list(effects[:1])
            if joining.done():
                break
        await joining
        assert len(one.assignment()) == 1


class Upper(ConsumerInterceptor):
    def on_consume(self, records: dict[TopicPartition, list[Record]]) -> dict[TopicPartition, list[Record]]:
        return {tp: [r._replace(value=(r.value or b"").upper()) for r in some] for tp, some in records.items()}


async def test_interceptors_see_the_records_of_an_iteration(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 1)
    coterie_broker.produce("t", b"a", b"b", b"c")
    async with member(coterie_broker, interceptor_classes=Upper) as one, asyncio.timeout(20):
        await one.assign([T0])
        values = []
        async for record in one:
            values.append(record.value)
            if len(values) == 3:
                break
        assert values == [b"A", b"B", b"C"]


# -- on_delivery -------------------------------------------------------------------------------------------------------


async def test_a_delivery_is_reported_as_metadata_and_error(coterie_broker: LocalBroker) -> None:
    """Kafka's Callback.onCompletion(metadata, exception): a record that failed has its topic and partition, and -1 for the
    rest."""
    coterie_broker.create_topic("t", 2)
    reports: list[tuple[RecordMetadata, KafkaError | None]] = []
    async with Producer(settings(coterie_broker)) as producer:
        sent = await producer.send("t", b"v", partition=1, on_delivery=lambda *given: reports.append(given))
        await producer.flush()
        assert reports == [(await sent, None)]
        coterie_broker.fail("Produce", ErrorCode.MESSAGE_TOO_LARGE)
        await producer.send("t", b"v", partition=1, on_delivery=lambda *given: reports.append(given))
        await producer.flush()
    (first, none), (second, error) = reports
    assert (type(first), first[:3], none) == (RecordMetadata, ("t", 1, 0), None)
    assert (type(second), second) == (RecordMetadata, ("t", 1, -1, -1))
    assert error is not None
    assert error.code == ErrorCode.MESSAGE_TOO_LARGE


async def test_a_callback_of_a_delivery_that_raises_is_logged(
    coterie_broker: LocalBroker, caplog: pytest.LogCaptureFixture
) -> None:
    coterie_broker.create_topic("t", 1)
    async with Producer(settings(coterie_broker)) as producer:
        with pytest.raises(TypeError, match=r"on_delivery must be a function of \(metadata, error\), not 'later'"):
            await producer.send("t", b"v", on_delivery="later")  # type: ignore[arg-type]
        delivery = await producer.send("t", b"v", on_delivery=lambda metadata, error: 1 / 0)
        await producer.flush()
        assert (await delivery).offset == 0
    assert "on_delivery of a record of t-0 raised" in caplog.text
