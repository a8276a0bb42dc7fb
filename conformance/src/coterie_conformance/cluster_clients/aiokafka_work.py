"""aiokafka at work on a cluster, on one event loop in a thread of its own: see `work`."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import ConsumerRebalanceListener

from coterie_conformance.cluster_clients.work import DELIVERY_S, GroupWork, Polled, PositionMoves

PRODUCER = {
    "acks": "all",
    "enable_idempotence": True,
    "request_timeout_ms": 30_000,  # aiokafka gives a record up after it
    "metadata_max_age_ms": 5_000,
    "linger_ms": 2,
}
MEMBER = {
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "session_timeout_ms": 10_000,
    "heartbeat_interval_ms": 1_000,
    "metadata_max_age_ms": 5_000,
}


class EventLoopThread:
    """Runs coroutines for other threads."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def result(self, work: Coroutine[Any, Any, Any], timeout_s: float | None = None) -> Any:
        """Raises what ``work`` raises, and TimeoutError."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)


class MovesListener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Notes a move before and after each rebalance: the poll between may return records of before it."""

    def __init__(self, moves: PositionMoves) -> None:
        self._moves = moves

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._moves.note()

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._moves.note()


class AiokafkaProducer:
    """A `WorkingProducer`."""

    def __init__(self, loop: EventLoopThread, bootstrap: str, topic: str) -> None:
        self._loop, self._topic = loop, topic
        self._producer: Any = loop.result(self._started(bootstrap))

    async def _started(self, bootstrap: str) -> Any:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, **PRODUCER)
        await producer.start()
        return producer

    def send(self, partition: int, value: bytes) -> Callable[[], int]:
        future = self._loop.result(self._producer.send(self._topic, value, partition=partition), DELIVERY_S)
        return lambda: int(self._loop.result(self._offset(future), DELIVERY_S))

    async def _offset(self, future: Any) -> int:
        return int((await future).offset)

    def close(self) -> None:
        self._loop.result(self._producer.stop(), DELIVERY_S)


class AiokafkaMember:
    """A `WorkingMember`."""

    def __init__(self, loop: EventLoopThread, bootstrap: str, topic: str, group: str, moves: PositionMoves) -> None:
        self._loop, self._moves = loop, moves
        self._consumer: Any = loop.result(self._started(bootstrap, topic, group))

    async def _started(self, bootstrap: str, topic: str, group: str) -> Any:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=group, **MEMBER)
        consumer.subscribe([topic], listener=MovesListener(self._moves))
        await consumer.start()
        return consumer

    def poll(self) -> tuple[Polled, bool]:
        """The records by partition, and whether the assignment has changed since the last call."""
        polled, has_moved = self._loop.result(self._polled())
        return {
            partition.partition: [(record.offset, record.value.decode()) for record in records]
            for partition, records in polled.items()
        }, has_moved

    async def _polled(self) -> tuple[Any, bool]:
        polled = await self._consumer.getmany(timeout_ms=100)
        return polled, self._moves.take()  # on the loop: no rebalance ends meanwhile

    def commit(self) -> None:
        self._loop.result(self._consumer.commit())

    def close(self) -> None:
        self._loop.result(self._consumer.stop(), DELIVERY_S)


def main(bootstrap: str, topic: str, partitions: str, members: str, group: str) -> None:
    """Runs until the end of stdin."""
    loop = EventLoopThread()
    GroupWork(
        "aiokafka",
        int(partitions),
        lambda: AiokafkaProducer(loop, bootstrap, topic),
        lambda moves: AiokafkaMember(loop, bootstrap, topic, group, moves),
    ).run(int(members))


if __name__ == "__main__":
    main(*sys.argv[1:])
