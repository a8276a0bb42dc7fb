"""What a test denies while a with-block runs: clients meet Kafka's errors, and nothing else changes."""

from __future__ import annotations

import pytest

from coterie.client import ErrorCode, KafkaError
from coterie.client.blocking import BlockingAdmin, BlockingConsumer, BlockingProducer
from coterie.testing import LocalBroker


def test_a_denied_group_fails_a_consumer_until_the_end() -> None:
    with LocalBroker() as broker:
        broker.create_topic("orders")
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
        with BlockingProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
            producer.send("orders", b"v")
        with broker.deny("READ", group="g"), BlockingConsumer(settings) as consumer:
            consumer.subscribe(["orders"])
            with pytest.raises(KafkaError) as denied:
                consumer.poll(10_000)
            assert denied.value.code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        with BlockingConsumer(settings) as consumer:
            consumer.subscribe(["orders"])
            records = consumer.poll(30_000)
            assert [record.value for of_partition in records.values() for record in of_partition] == [b"v"]


def test_a_denied_topic_leaves_the_others() -> None:
    with LocalBroker() as broker:
        for topic in ("a", "b"):
            broker.create_topic(topic)
        with BlockingProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
            with broker.deny("WRITE", topic="a"):
                with pytest.raises(KafkaError) as denied:
                    producer.send("a", b"v").result()
                assert denied.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
                producer.send("b", b"v").result()
            producer.send("a", b"v").result()
        with BlockingAdmin({"bootstrap.servers": broker.bootstrap_servers}) as admin:
            assert set(admin.describe_topics()) >= {"a", "b"}


def test_what_cannot_be_denied_is_named() -> None:
    with LocalBroker() as broker:
        with pytest.raises(ValueError, match="one resource"):
            broker.deny("READ")
        with pytest.raises(ValueError, match="operation must be one of"):
            broker.deny("EAT", topic="t")


@pytest.mark.slow
def test_every_broker_of_a_cluster_denies_also_one_that_starts_meanwhile() -> None:
    with LocalBroker(brokers=2) as broker:
        broker.create_topic("orders", 2)
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
        broker.produce("orders", b"v")
        with broker.deny("READ", group="g"):
            for number in (1, 2):
                broker.kill(number)
                broker.restart(number)
                with BlockingConsumer(settings) as consumer:
                    consumer.subscribe(["orders"])
                    with pytest.raises(KafkaError) as denied:
                        consumer.poll(10_000)
                assert denied.value.code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        with BlockingConsumer(settings) as consumer:
            consumer.subscribe(["orders"])
            assert [r.value for records in consumer.poll(30_000).values() for r in records] == [b"v"]
