"""Ring 3: the asyncio consumer, producer and admin, and a blocking face for scripts (`coterie.client.blocking`).

    async with Producer({"bootstrap.servers": "127.0.0.1:9092"}) as producer:
        await (await producer.send("t", b"value", key=b"k"))

    async with Consumer({"bootstrap.servers": "127.0.0.1:9092", "group.id": "g"}) as consumer:
        consumer.subscribe(["t"])
        for partition, records in (await consumer.poll(1000)).items(): ...

Works against Apache Kafka as well: nothing here knows which broker it speaks to.
"""

from __future__ import annotations

from coterie.client.admin import Admin
from coterie.client.admin_each import NewTopic
from coterie.client.consumer import Consumer
from coterie.client.errors import (
    CommitFailedError,
    ConfigError,
    CorruptBatchError,
    KafkaError,
    RebalanceInProgressError,
    WakeupError,
)
from coterie.client.listener import ConsumerGroupMetadata, ConsumerInterceptor, OffsetAndMetadata, RebalanceListener
from coterie.client.producer import Producer

__all__ = [
    "Admin",
    "CommitFailedError",
    "ConfigError",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerInterceptor",
    "CorruptBatchError",
    "KafkaError",
    "NewTopic",
    "OffsetAndMetadata",
    "Producer",
    "RebalanceInProgressError",
    "RebalanceListener",
    "WakeupError",
]
