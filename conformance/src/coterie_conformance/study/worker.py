"""One consumer of any protocol in a process of its own: reports each change of its partitions with the time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from coterie.laboratory.study.assignors import ASSIGNOR_OF_PROTOCOL
from coterie.laboratory.study.compared import INTERVAL_MS, SESSION_MS

TOPIC = "t"
LOOK_S = 0.005


async def watch(owned: Callable[[], Iterable[Any]]) -> None:
    """Until the process is ended."""
    last: list[Any] | None = None
    while True:
        now = sorted(map(list, owned()))
        if now != last:
            last = now
            print(json.dumps({"ms": int(time.time() * 1000), "owned": now}), flush=True)
        await asyncio.sleep(LOOK_S)


async def kafka(
    servers: str, topic: str, group: str, name: str, instance: str, protocol: str, metadata_max_age_ms: str
) -> None:
    """A consumer of one of Kafka's protocols: eager, cooperative or consumer. ``instance`` empty: a dynamic member."""
    from coterie.client import Consumer

    settings: dict[str, Any] = {
        "bootstrap.servers": servers,
        "group.id": group,
        "client.id": name,
        "group.instance.id": instance or None,
        "metadata.max.age.ms": metadata_max_age_ms,
        "auto.offset.reset": "earliest",
    }
    if protocol == "consumer":
        settings["group.protocol"] = protocol
    else:
        settings["partition.assignment.strategy"] = ASSIGNOR_OF_PROTOCOL[protocol]
        settings |= {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": INTERVAL_MS}
    async with Consumer(settings) as consumer:
        consumer.subscribe([topic])
        watching = asyncio.create_task(watch(consumer.assignment))
        while not watching.done():
            await consumer.poll(100)


async def zookeeper(address: str, group: str, name: str, session_ms: str) -> None:
    """A high-level consumer of Kafka 0.8 with one stream."""
    from coterie.client.zookeeper import ZooKeeperConsumer

    settings = {
        "zookeeper.connect": address,
        "group.id": group,
        "consumer.id": name,
        "zookeeper.session.timeout.ms": session_ms,
        "auto.offset.reset": "smallest",
        "auto.commit.interval.ms": 5_000,
    }
    with ZooKeeperConsumer(settings, {TOPIC: 1}) as consumer:
        await watch(consumer.owned)


async def rocketmq(name_server: str, group: str, name: str, kind: str) -> None:
    """A push consumer of RocketMQ; ``kind`` is "orderly" or "concurrently"."""
    from coterie_conformance.rocketmq.client import RocketMQConsumer

    consumer = RocketMQConsumer(
        name_server, group, [TOPIC], lambda queue, messages: None, client_id=name, orderly=kind == "orderly"
    )
    await consumer.start()
    await watch(consumer.queues)


KINDS: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {
    "kafka": kafka,
    "zookeeper": zookeeper,
    "rocketmq": rocketmq,
}

if __name__ == "__main__":
    from coterie.client import KafkaError

    with contextlib.suppress(KeyboardInterrupt):
        try:
            asyncio.run(KINDS[sys.argv[1]](*sys.argv[2:]))
        except KafkaError as error:  # a static member's name is refused while its predecessor's session lasts
            sys.exit(f"the {sys.argv[1]} consumer ended: {error}")
