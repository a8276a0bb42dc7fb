"""A loop of consumer and producer, as a user writes it."""

from __future__ import annotations

import re
from typing import assert_type

from coterie.client import (
    CommitFailedError,
    Consumer,
    ConsumerGroupMetadata,
    CorruptBatchError,
    ErrorCode,
    KafkaError,
    OffsetAndMetadata,
    Producer,
    RebalanceListener,
    RecordMetadata,
    TimestampType,
    TopicPartition,
    WakeupError,
)

ADDRESS = {"bootstrap.servers": "127.0.0.1:9092"}


class Listener(RebalanceListener):
    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        print([partition.topic for partition in partitions])


async def consume() -> None:
    async with Consumer(ADDRESS | {"group.id": "billing"}) as consumer:
        consumer.subscribe(["orders"], Listener())
        consumer.subscribe(re.compile("orders.*"))
        for partition, records in (await consumer.poll(1000, 500)).items():
            assert_type(partition, TopicPartition)
            for record in records:
                assert_type(record.value, bytes | None)
                assert_type(record.key, bytes | None)
                assert_type(record.offset, int)
                assert_type(record.timestamp_type, TimestampType)
                for name, value in record.headers:
                    assert_type((name, value), tuple[str, bytes | None])
        assert_type(consumer.assignment(), set[TopicPartition])
        consumer.seek(("orders", 0), 5)
        consumer.seek(TopicPartition("orders", 0), 5)
        consumer.pause([("orders", 0)])
        assert_type(consumer.paused(), set[TopicPartition])
        assert_type(consumer.position(("orders", 0)), int)
        assert_type(await consumer.committed([("orders", 0)]), dict[TopicPartition, int])
        assert_type(await consumer.committed_metadata([("orders", 0)]), dict[TopicPartition, OffsetAndMetadata])
        assert_type(await consumer.end_offsets([("orders", 0)]), dict[TopicPartition, int])
        assert_type(consumer.group_metadata(), ConsumerGroupMetadata)
        assert_type(consumer.lag(), dict[TopicPartition, int])
        try:
            await consumer.commit()
            await consumer.commit({("orders", 0): 6})
        except CommitFailedError as error:
            assert_type(error.code, ErrorCode)
        except CorruptBatchError as error:
            consumer.seek((error.topic, error.partition), error.next_offset)
        except WakeupError:
            return


async def produce() -> None:
    async with Producer(ADDRESS | {"acks": "all"}) as producer:
        delivery = await producer.send("orders", b"value", b"key", headers=[("source", b"web")])
        assert_type(await delivery, RecordMetadata)
        await producer.flush()


async def transactions(consumer: Consumer) -> None:
    async with Producer(ADDRESS | {"transactional.id": "billing-1"}) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send("invoices", b"value")
            await producer.send_offsets_to_transaction({("orders", 0): 6}, consumer.group_metadata())


def reason(error: KafkaError) -> str:
    return f"{error.code.name}: {error.code.text}" + (" (retry)" if error.code.retriable else "")
