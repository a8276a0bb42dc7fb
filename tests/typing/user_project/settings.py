"""Settings as their types know them, and mistakes that are errors: an ignore of mypy that is not needed is one too."""

from __future__ import annotations

from collections.abc import Mapping

from coterie.client import (
    Admin,
    AdminSettings,
    Assignor,
    Consumer,
    ConsumerSettings,
    Producer,
    ProducerSettings,
    StringSerializer,
)
from coterie.client.blocking import BlockingConsumer

consumer: ConsumerSettings = {
    "bootstrap.servers": ["a:1", "b:2"],
    "group.id": "g",
    "session.timeout.ms": 6000,
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
}
producer: ProducerSettings = {"bootstrap.servers": "a:1", "acks": 1, "partitioner": lambda topic, key, count: 0}
admin: AdminSettings = {"security.protocol": "SSL", "ssl.truststore.location": None}
texts: dict[str, str] = {"session.timeout.ms": "6000"}
Consumer(consumer), Producer(producer), Admin(admin)
Consumer(texts), Producer(texts), Admin(texts)
Consumer({"group.id": "g", "max.poll.records": 5}), Consumer(texts | {"a": "b"})
more: dict[str, object] = {"transactional.id": "t", "linger.ms": 5}
Producer(more | {"bootstrap.servers": "a:1"}), BlockingConsumer(consumer)


def make(given: Mapping[str, object]) -> Consumer:
    return Consumer(given)


class Mine(Assignor):
    pass


named: ConsumerSettings = {"value.deserializer": "StringDeserializer", "key.deserializer": bytes.decode}
by_class: ProducerSettings = {"value.serializer": StringSerializer, "key.serializer": StringSerializer()}
wrong_serializer: ProducerSettings = {"value.serializer": 5}  # type: ignore[typeddict-item]
own: ConsumerSettings = {"partition.assignment.strategy": [Mine, "range"]}
wrong_assignor: ConsumerSettings = {"partition.assignment.strategy": [5]}  # type: ignore[list-item]
wrong_name: ConsumerSettings = {"session.timeout": 6000}  # type: ignore[typeddict-unknown-key]
wrong_type: ConsumerSettings = {"session.timeout.ms": "6 s"}  # type: ignore[typeddict-item]
wrong_word: ConsumerSettings = {"auto.offset.reset": "first"}  # type: ignore[typeddict-item]
of_another_client: ConsumerSettings = {"linger.ms": 5}  # type: ignore[typeddict-unknown-key]
wrong_function: ProducerSettings = {"partitioner": lambda topic: 0}  # type: ignore[typeddict-item]
Consumer(["group.id"])  # type: ignore[arg-type]
