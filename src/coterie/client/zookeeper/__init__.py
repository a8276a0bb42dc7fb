"""The ZooKeeper high-level consumer of Kafka 0.8, for real: over kazoo, fetching from any Kafka broker that is registered.

    with ZooKeeperConsumer({"zookeeper.connect": "127.0.0.1:2181", "group.id": "g"}, {"flights": 2}) as consumer:
        for stream in consumer.streams["flights"]:
            threading.Thread(target=read, args=(stream,)).start()

Needs kazoo (`pip install 'coterie[zookeeper]'`).
"""

from __future__ import annotations

from coterie.client.zookeeper.connector import ConsumerRebalanceFailed, ZooKeeperConsumer
from coterie.client.zookeeper.streams import MessageAndMetadata, Stream

__all__ = ["ConsumerRebalanceFailed", "MessageAndMetadata", "Stream", "ZooKeeperConsumer"]
