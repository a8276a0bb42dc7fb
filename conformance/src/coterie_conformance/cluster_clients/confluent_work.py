"""confluent-kafka (librdkafka) at work on a cluster: see `work`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer

from coterie_conformance.cluster_clients.work import DELIVERY_S, GroupWork, Polled, PositionMoves

SETTINGS = {"reconnect.backoff.max.ms": 200, "topic.metadata.refresh.interval.ms": 5_000}
PRODUCER = {"acks": "all", "enable.idempotence": True, "message.timeout.ms": 30_000, "linger.ms": 2}
MEMBER = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "session.timeout.ms": 10_000,
    "heartbeat.interval.ms": 1_000,
}


class ConfluentProducer:
    """A `WorkingProducer`."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._producer: Any = Producer({"bootstrap.servers": bootstrap, **SETTINGS, **PRODUCER})

    def send(self, partition: int, value: bytes) -> Callable[[], int]:
        """Returns a function that waits for the record's offset."""
        delivered: list[tuple[Any, Any]] = []
        self._producer.produce(
            self._topic, value, partition=partition, on_delivery=lambda error, m: delivered.append((error, m))
        )
        return partial(self._offset, delivered)

    def _offset(self, delivered: list[tuple[Any, Any]]) -> int:
        """Raises KafkaException, TimeoutError."""
        ends_s = time.monotonic() + DELIVERY_S
        while not delivered:
            if time.monotonic() > ends_s:
                raise TimeoutError(f"no delivery report in {DELIVERY_S:g} s")
            self._producer.poll(0.1)
        error, message = delivered[0]
        if error is not None:
            raise KafkaException(error)
        return int(message.offset())

    def close(self) -> None:
        self._producer.flush(1)


class ConfluentMember:
    """A `WorkingMember`."""

    def __init__(self, bootstrap: str, topic: str, group: str, moves: PositionMoves) -> None:
        self._moves = moves
        self._consumer: Any = Consumer({"bootstrap.servers": bootstrap, "group.id": group, **SETTINGS, **MEMBER})
        self._consumer.subscribe([topic], on_assign=lambda *_: moves.note())

    def poll(self) -> tuple[Polled, bool]:
        """Raises KafkaException."""
        polled: dict[int, list[tuple[int, str]]] = {}
        for message in self._consumer.consume(500, 0.1):
            if message.error() is None:
                polled.setdefault(message.partition(), []).append((message.offset(), message.value().decode()))
            else:
                print(message.error(), file=sys.stderr, flush=True)
        return polled, self._moves.take()

    def commit(self) -> None:
        """Raises KafkaException."""
        for partition in self._consumer.commit(asynchronous=False) or ():
            if partition.error is not None:
                raise KafkaException(partition.error)

    def close(self) -> None:
        self._consumer.close()


def main(bootstrap: str, topic: str, partitions: str, members: str, group: str) -> None:
    """Runs until the end of stdin."""
    GroupWork(
        "confluent-kafka",
        int(partitions),
        lambda: ConfluentProducer(bootstrap, topic),
        lambda moves: ConfluentMember(bootstrap, topic, group, moves),
    ).run(int(members))


if __name__ == "__main__":
    main(*sys.argv[1:])
