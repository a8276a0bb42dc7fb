"""A small producer, and what a test needs of an admin: sending to a queue of one's choice, making a topic."""

from __future__ import annotations

import time
from types import TracebackType

from coterie.rocketmq.allocation import MessageQueue
from coterie_conformance.rocketmq import message_requests
from coterie_conformance.rocketmq.client.connection import RemotingCluster, RemotingConnection, RocketMQError


class RocketMQProducer:
    """Use as an async context manager. Every method raises RocketMQError."""

    def __init__(self, name_server: str, group: str = "coterie-producer") -> None:
        self._cluster, self._group = RemotingCluster(name_server), group

    async def __aenter__(self) -> RocketMQProducer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, _: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._cluster.close()

    async def create_topic(self, broker_address: str, topic: str, queues: int) -> None:
        """On one broker; the name server hears of it within moments."""
        connection = RemotingConnection(broker_address, lambda _: None)
        try:
            await self._cluster.invoke(connection, message_requests.create_topic(topic, queues))
        finally:
            await connection.close()

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Those of the topic, by the name server. Raises RocketMQError."""
        return (await self._cluster.fetch_route(topic)).queues

    async def send(self, queue: MessageQueue, body: bytes) -> int:
        """The offset in its queue, once the broker has it."""
        if queue.topic not in self._cluster.routes:
            await self._cluster.fetch_route(queue.topic)
        broker = self._cluster.broker(queue.topic, queue.broker_name)
        response = await self._cluster.invoke(
            broker, message_requests.send(self._group, queue, body, int(time.time() * 1000))
        )
        if "queueOffset" not in response.fields:
            raise RocketMQError(response.code, "the broker does not say where the message went")
        return int(response.fields["queueOffset"])
