"""A loop of consumer and producer, as a user writes it."""

from __future__ import annotations

import asyncio
import re
from typing import assert_type

from coterie.client import (
    CommitFailedError,
    Consumer,
    ConsumerGroupMetadata,
    CorruptBatchError,
    ErrorCode,
    GroupMembershipOperation,
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
        assert_type(consumer.subscribe(["orders"], Listener()), None)
        assert_type(consumer.subscribe(re.compile("orders.*")), None)
        assert_type(consumer.subscription(), set[str])
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
        assert_type(consumer.seek(("orders", 0), 5), None)
        assert_type(consumer.seek(("orders", 0), OffsetAndMetadata(5, 1)), None)
        assert_type(consumer.seek(TopicPartition("orders", 0), 5), None)
        assert_type(await consumer.seek_to_beginning([("orders", 0)]), None)
        assert_type(await consumer.seek_to_end(), None)
        assert_type(await consumer.seek_to_timestamp(1_700_000_000_000), None)
        assert_type(consumer.pause([("orders", 0)]), None)
        assert_type(consumer.resume([("orders", 0)]), None)
        assert_type(consumer.paused(), set[TopicPartition])
        assert_type(consumer.position(("orders", 0)), int)
        assert_type(await consumer.committed([("orders", 0)]), dict[TopicPartition, int])
        assert_type(await consumer.committed_metadata([("orders", 0)]), dict[TopicPartition, OffsetAndMetadata])
        assert_type(await consumer.end_offsets([("orders", 0)]), dict[TopicPartition, int])
        assert_type(consumer.group_metadata(), ConsumerGroupMetadata)
        assert_type(consumer.enforce_rebalance(), None)
        assert_type(consumer.enforce_rebalance("the weights changed"), None)
        assert_type(await consumer.beginning_offsets([("orders", 0)]), dict[TopicPartition, int])
        assert_type(await consumer.offsets_for_times({("orders", 0): 0}), dict[TopicPartition, int])
        assert_type(consumer.lag(), dict[TopicPartition, int])
        assert_type(consumer.metrics(), dict[str, float])
        assert_type(consumer.generation, int)
        try:
            assert_type(await consumer.commit(), None)
            await consumer.commit({("orders", 0): 6})
        except CommitFailedError as error:
            assert_type(error.code, ErrorCode)
        except CorruptBatchError as error:
            consumer.seek((error.topic, error.partition), error.next_offset)
        except WakeupError:
            return
        assert_type(consumer.commit_async(), asyncio.Task[None])
        assert_type(consumer.wakeup(), None)
        assert_type(await consumer.unsubscribe(), None)
        assert_type(await consumer.close(1000), None)
        stay = GroupMembershipOperation.REMAIN_IN_GROUP
        assert_type(await consumer.close(group_membership_operation=stay), None)


async def assigned(consumer: Consumer) -> None:
    assert_type(await consumer.assign([("orders", 0), TopicPartition("orders", 1)]), None)


async def produce() -> None:
    async with Producer(ADDRESS | {"acks": "all"}) as producer:
        delivery = await producer.send("orders", b"value", b"key", headers=[("source", b"web")])
        assert_type(await delivery, RecordMetadata)
        assert_type(await producer.flush(), None)
        assert_type(await producer.send_and_wait("orders", b"value"), RecordMetadata)
        assert_type(await producer.partitions_for("orders"), int)
        assert_type(await producer.close(1000), None)


async def transactions(consumer: Consumer) -> None:
    async with Producer(ADDRESS | {"transactional.id": "billing-1"}) as producer:
        assert_type(await producer.init_transactions(), None)
        async with producer.transaction():
            await producer.send("invoices", b"value")
            group = consumer.group_metadata()
            assert_type(await producer.send_offsets_to_transaction({("orders", 0): 6}, group), None)
        assert_type(producer.begin_transaction(), None)
        assert_type(await producer.commit_transaction(), None)
        producer.begin_transaction()
        assert_type(await producer.abort_transaction(), None)
        left = await producer.leave_transaction_open()
        assert_type(producer.resume_transaction(left), None)


def reason(error: KafkaError) -> str:
    return f"{error.code.name}: {error.code.text}" + (" (retry)" if error.code.retriable else "")
