"""RocketMQ's push consumer for real: the rebalance machine over RocketMQ's remoting protocol, and a small producer.

consumer = RocketMQConsumer("127.0.0.1:9876", "group", ["topic"], listener)
await consumer.start()
...
await consumer.close()
"""

from __future__ import annotations

from coterie_conformance.rocketmq.client.connection import RocketMQError
from coterie_conformance.rocketmq.client.consumer import RocketMQConsumer
from coterie_conformance.rocketmq.client.producer import RocketMQProducer

__all__ = ["RocketMQConsumer", "RocketMQError", "RocketMQProducer"]
