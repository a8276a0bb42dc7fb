"""The defects in docs/features/other-clients.md are still there; with Apache Kafka 4.3 they are the same. Where a test fails,
the client is mended: take the defect out of the page."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coterie.client import ConsumerGroupMetadata
from coterie.client.blocking import BlockingConsumer, BlockingProducer
from coterie.testing import LocalBroker
from tests.exactly_once.copiers import GROUP, INPUT, OUTPUT, TRANSACTIONAL_ID


def _committed_values(broker: LocalBroker) -> list[bytes | None]:
    """Of partition 0 of the output."""
    values: list[bytes | None] = []
    settings = {"bootstrap.servers": broker.bootstrap_servers, "isolation.level": "read_committed"}
    with BlockingConsumer(settings) as consumer:
        consumer.assign([(OUTPUT, 0)])
        (end,) = consumer.end_offsets([(OUTPUT, 0)]).values()
        consumer.seek_to_beginning()
        while consumer.position((OUTPUT, 0)) < end:
            values += [record.value for records in consumer.poll(1000).values() for record in records]
    return values


def test_kafka_python_commits_the_offsets_of_an_aborted_transaction(coterie_broker: LocalBroker) -> None:
    """The records of input-1 are never copied; where another member has gone on with them, they are copied twice."""
    from kafka import KafkaProducer
    from kafka.errors import CommitFailedError
    from kafka.structs import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

    for topic in (INPUT, OUTPUT):
        coterie_broker.create_topic(topic, 2)
    producer: Any = KafkaProducer(bootstrap_servers=coterie_broker.bootstrap_servers, transactional_id=TRANSACTIONAL_ID)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(OUTPUT, b"a", partition=1)
    offsets, former_member = {TopicPartition(INPUT, 1): OffsetAndMetadata(10, "", -1)}, ("gone", None)
    with pytest.raises(CommitFailedError):
        producer.send_offsets_to_transaction(offsets, ConsumerGroupMetadata(GROUP, 7, *former_member))
    producer.abort_transaction()
    producer.begin_transaction()
    producer.send(OUTPUT, b"b", partition=0)
    producer.send_offsets_to_transaction({TopicPartition(INPUT, 0): OffsetAndMetadata(5, "", -1)}, GROUP)
    producer.commit_transaction()
    producer.close()
    assert coterie_broker.committed(GROUP) == {(INPUT, 0): 5, (INPUT, 1): 10}


def test_librdkafka_sends_the_sequences_of_an_aborted_transaction_again(coterie_broker: LocalBroker) -> None:
    """A batch whose response is lost is in the log; the next transaction's batch has its sequence, so that the broker takes it
    for the same one and does not write it."""
    from confluent_kafka import Producer

    coterie_broker.create_topic(OUTPUT)
    producer: Any = Producer(
        {
            "bootstrap.servers": coterie_broker.bootstrap_servers,
            "transactional.id": TRANSACTIONAL_ID,
            "client.id": TRANSACTIONAL_ID,
            "retry.backoff.ms": 2_000,  # the batch waits to be sent again when the transaction is aborted
        }
    )
    producer.init_transactions(20)
    coterie_broker.lose_response("Produce", client_id=TRANSACTIONAL_ID)
    producer.begin_transaction()
    producer.produce(OUTPUT, b"aborted", partition=0)
    coterie_broker.until_requested("Produce", 1)
    coterie_broker.drop_connections(TRANSACTIONAL_ID)
    producer.abort_transaction(20)
    producer.begin_transaction()
    producer.produce(OUTPUT, b"committed", partition=0)
    producer.commit_transaction(20)
    assert _committed_values(coterie_broker) == []


def test_aiokafka_reads_offsets_while_a_transaction_commits_newer_ones(coterie_broker: LocalBroker) -> None:
    """Its OffsetFetch, version 3, does not require stable offsets (KIP-447)."""
    coterie_broker.create_topic(INPUT)
    address = coterie_broker.bootstrap_servers

    async def committed() -> int | None:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        consumer: Any = AIOKafkaConsumer(bootstrap_servers=address, group_id=GROUP, isolation_level="read_committed")
        await consumer.start()
        try:
            offset: int | None = await consumer.committed(TopicPartition(INPUT, 0))
        finally:
            await consumer.stop()
        return offset

    with BlockingProducer({"bootstrap.servers": address, "transactional.id": TRANSACTIONAL_ID}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send_offsets_to_transaction({(INPUT, 0): 10}, ConsumerGroupMetadata(GROUP))
        assert asyncio.run(committed()) is None
        producer.commit_transaction()
    assert asyncio.run(committed()) == 10
