"""RocketMQ's push consumer for real: the rebalance machine over RocketMQ's remoting protocol, and a small producer.

consumer = RocketMQConsumer("127.0.0.1:9876", "group", ["topic"], listener)
await consumer.start()
...
await consumer.close()
"""

from __future__ import annotations

from coterie.client.rocketmq.connection import RocketMQError
from coterie.client.rocketmq.consumer import RocketMQConsumer
from coterie.client.rocketmq.producer import RocketMQProducer

__all__ = ["RocketMQConsumer", "RocketMQError", "RocketMQProducer"]
