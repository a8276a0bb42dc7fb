"""A loop of blocking consumer and producer, in a script."""

from __future__ import annotations

import re
from concurrent.futures import Future
from typing import assert_type

from coterie.client import (
    CommitFailedError,
    ConsumerGroupMetadata,
    CorruptBatchError,
    ErrorCode,
    GroupMembershipOperation,
    OffsetAndMetadata,
    RebalanceListener,
    RecordMetadata,
    TimestampType,
    TopicPartition,
    WakeupError,
)
from coterie.client.blocking import BlockingConsumer, BlockingProducer

ADDRESS = {"bootstrap.servers": "127.0.0.1:9092"}


class Listener(RebalanceListener):
    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        print([partition.topic for partition in partitions])


def consume() -> None:
    with BlockingConsumer(ADDRESS | {"group.id": "billing"}) as consumer:
        assert_type(consumer.subscribe(["orders"], Listener()), None)
        assert_type(consumer.subscribe(re.compile("orders.*")), None)
        assert_type(consumer.subscription(), set[str])
        for partition, records in (consumer.poll(1000, 500)).items():
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
        assert_type(consumer.seek_to_beginning([("orders", 0)]), None)
        assert_type(consumer.seek_to_end(), None)
        assert_type(consumer.seek_to_timestamp(1_700_000_000_000), None)
        assert_type(consumer.pause([("orders", 0)]), None)
        assert_type(consumer.resume([("orders", 0)]), None)
        assert_type(consumer.paused(), set[TopicPartition])
        assert_type(consumer.position(("orders", 0)), int)
        assert_type(consumer.committed([("orders", 0)]), dict[TopicPartition, int])
        assert_type(consumer.committed_metadata([("orders", 0)]), dict[TopicPartition, OffsetAndMetadata])
        assert_type(consumer.end_offsets([("orders", 0)]), dict[TopicPartition, int])
        assert_type(consumer.group_metadata(), ConsumerGroupMetadata)
        assert_type(consumer.beginning_offsets([("orders", 0)]), dict[TopicPartition, int])
        assert_type(consumer.offsets_for_times({("orders", 0): 0}), dict[TopicPartition, int])
        assert_type(consumer.lag(), dict[TopicPartition, int])
        assert_type(consumer.metrics(), dict[str, float])
        assert_type(consumer.enforce_rebalance("the weights changed"), None)
        assert_type(consumer.generation, int)
        try:
            assert_type(consumer.commit(), None)
            consumer.commit({("orders", 0): 6})
        except CommitFailedError as error:
            assert_type(error.code, ErrorCode)
        except CorruptBatchError as error:
            consumer.seek((error.topic, error.partition), error.next_offset)
        except WakeupError:
            return
        assert_type(consumer.commit_async(), Future[None])
        assert_type(consumer.wakeup(), None)
        assert_type(consumer.unsubscribe(), None)
        assert_type(consumer.close(1000), None)
        assert_type(consumer.close(1000, GroupMembershipOperation.LEAVE_GROUP), None)


def assigned(consumer: BlockingConsumer[bytes, bytes]) -> None:
    assert_type(consumer.assign([("orders", 0), TopicPartition("orders", 1)]), None)


def produce() -> None:
    with BlockingProducer(ADDRESS | {"acks": "all"}) as producer:
        delivery = producer.send("orders", b"value", b"key", headers=[("source", b"web")])
        assert_type(producer.flush(), None)
        assert_type(delivery, Future[RecordMetadata])
        assert_type(delivery.result(), RecordMetadata)
        assert_type(producer.send_and_wait("orders", b"value"), RecordMetadata)
        assert_type(producer.partitions_for("orders"), int)
        assert_type(producer.close(1000), None)


def transactions(consumer: BlockingConsumer[bytes, bytes]) -> None:
    with BlockingProducer(ADDRESS | {"transactional.id": "billing-1"}) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("invoices", b"value")
            group = consumer.group_metadata()
            assert_type(producer.send_offsets_to_transaction({("orders", 0): 6}, group), None)
        assert_type(producer.begin_transaction(), None)
        assert_type(producer.commit_transaction(), None)
        producer.begin_transaction()
        assert_type(producer.abort_transaction(), None)
        left = producer.leave_transaction_open()
        assert_type(producer.resume_transaction(left), None)
