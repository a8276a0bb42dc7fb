"""One RocketMQ consumer in a process of its own: prints its queues and received messages ten times a second."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence

from coterie.rocketmq.allocation import MessageQueue
from coterie_conformance.rocketmq.client import RocketMQConsumer
from coterie_conformance.rocketmq.frames import StoredMessage

TELL_S = 0.1


async def consume(name_server: str, group: str, topic: str, client_id: str, kind: str) -> None:
    """Until it is ended."""
    read: list[tuple[MessageQueue, int]] = []

    def listener(queue: MessageQueue, messages: Sequence[StoredMessage]) -> None:
        read.extend((queue, m.queue_offset) for m in messages)

    orderly = kind == "orderly"
    consumer = RocketMQConsumer(name_server, group, [topic], listener, client_id=client_id, orderly=orderly)
    await consumer.start()
    while True:
        received, read[:] = list(read), []
        print(json.dumps({"queues": consumer.queues(), "read": received}), flush=True)
        await asyncio.sleep(TELL_S)


if __name__ == "__main__":
    asyncio.run(consume(*sys.argv[1:]))
