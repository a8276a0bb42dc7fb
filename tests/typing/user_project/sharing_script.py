"""A topic worked through as a queue, in a script."""

from __future__ import annotations

from concurrent.futures import Future
from typing import assert_type

from coterie.client import AcknowledgeType, KafkaError, ShareRecord, TopicPartition
from coterie.client.blocking import BlockingShareConsumer


def acknowledged(offsets: dict[TopicPartition, set[int]], error: KafkaError | None) -> None:
    print(offsets, error)


def work() -> None:
    with BlockingShareConsumer({"bootstrap.servers": "127.0.0.1:9092", "group.id": "workers"}) as consumer:
        assert_type(consumer.subscribe(["jobs"]), None)
        assert_type(consumer.subscription(), set[str])
        assert_type(consumer.assignment(), set[TopicPartition])
        assert_type(consumer.set_acknowledgement_commit_callback(acknowledged), None)
        for partition, records in (consumer.poll(1000)).items():
            assert_type(partition, TopicPartition)
            assert_type(records, list[ShareRecord[bytes, bytes]])
            for record in records:
                assert_type(record.value, bytes | None)
                assert_type(record.delivery_count, int)
                assert_type(consumer.acknowledge(record, AcknowledgeType.RELEASE), None)
        assert_type(consumer.commit(), dict[TopicPartition, KafkaError | None])
        assert_type(consumer.commit_async(), Future[dict[TopicPartition, KafkaError | None]])
        assert_type(consumer.acquisition_lock_timeout_ms(), int | None)
        assert_type(consumer.metrics(), dict[str, float])
        assert_type(consumer.unsubscribe(), None)
        assert_type(consumer.wakeup(), None)
        assert_type(consumer.close(), None)
