"""kafka-python at work on a cluster: see `work`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer

from coterie_conformance.cluster_clients.work import DELIVERY_S, GroupWork, Polled, PositionMoves

SETTINGS = {"reconnect_backoff_max_ms": 200, "metadata_max_age_ms": 5_000}
PRODUCER = {
    "acks": "all",
    "enable_idempotence": True,
    "delivery_timeout_ms": 30_000,
    "request_timeout_ms": 5_000,
    "linger_ms": 2,
}
MEMBER = {
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "session_timeout_ms": 10_000,
    "heartbeat_interval_ms": 1_000,
}


class AssignmentListener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Notes each rebalance."""

    def __init__(self, moves: PositionMoves) -> None:
        self._moves = moves

    def on_partitions_revoked(self, revoked: Any) -> None:
        pass

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._moves.note()


class KafkaPythonProducer:
    """A `WorkingProducer`."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._producer: Any = KafkaProducer(bootstrap_servers=bootstrap.split(","), **SETTINGS, **PRODUCER)

    def send(self, partition: int, value: bytes) -> Callable[[], int]:
        future = self._producer.send(self._topic, value, partition=partition)
        return lambda: int(future.get(DELIVERY_S).offset)

    def close(self) -> None:
        self._producer.close(1)


class KafkaPythonMember:
    """A `WorkingMember`."""

    def __init__(self, bootstrap: str, topic: str, group: str, moves: PositionMoves) -> None:
        self._moves = moves
        self._consumer: Any = KafkaConsumer(
            bootstrap_servers=bootstrap.split(","), group_id=group, **SETTINGS, **MEMBER
        )
        self._consumer.subscribe([topic], listener=AssignmentListener(moves))

    def poll(self) -> tuple[Polled, bool]:
        """The records by partition, and whether the assignment has changed since the last call."""
        polled = {
            partition.partition: [(record.offset, record.value.decode()) for record in records]
            for partition, records in self._consumer.poll(timeout_ms=100).items()
        }
        return polled, self._moves.take()

    def commit(self) -> None:
        self._consumer.commit()

    def close(self) -> None:
        self._consumer.close()


def main(bootstrap: str, topic: str, partitions: str, members: str, group: str) -> None:
    """Runs until the end of stdin."""
    GroupWork(
        "kafka-python",
        int(partitions),
        lambda: KafkaPythonProducer(bootstrap, topic),
        lambda moves: KafkaPythonMember(bootstrap, topic, group, moves),
    ).run(int(members))


if __name__ == "__main__":
    main(*sys.argv[1:])
