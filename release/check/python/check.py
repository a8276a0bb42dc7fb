"""The image in testcontainers' Kafka module of Python, unchanged, with a client of Kafka's protocol."""

import time

from kafka import KafkaConsumer, KafkaProducer
from testcontainers.community.kafka import KafkaContainer

for mode in ("with a ZooKeeper of its own", "KRaft"):
    container = KafkaContainer(image="localhost/coterie:7.6.0")
    if mode == "KRaft":
        container.with_kraft()
    began_s = time.monotonic()
    with container:
        print(f"{mode}: started in {time.monotonic() - began_s:.1f} s", flush=True)
        servers = container.get_bootstrap_server()
        producer = KafkaProducer(bootstrap_servers=servers)
        producer.send("t", b"hello")
        producer.close()
        settings = {"group_id": "g", "auto_offset_reset": "earliest", "consumer_timeout_ms": 20_000}
        consumer = KafkaConsumer("t", bootstrap_servers=servers, **settings)
        assert next(consumer).value == b"hello"
        consumer.close()
