"""The same without asyncio: the blocking clients run their event loop in a thread of their own.

.venv/bin/python examples/blocking.py [HOST:PORT]
"""

import sys

from coterie.client.blocking import BlockingConsumer, BlockingProducer

ADDRESS = {"bootstrap.servers": sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"}

with BlockingProducer(ADDRESS) as producer:
    future = producer.send("greetings", b"hello", key=b"world")
    for value in (b"good morning", b"good night"):
        producer.send("greetings", value, key=b"world")
    producer.flush()
    print(f"acknowledged at offset {future.result().offset}")

values: list[str] = []
with BlockingConsumer(ADDRESS | {"group.id": "readers", "auto.offset.reset": "earliest"}) as consumer:
    consumer.subscribe(["greetings"])
    while len(values) < 3:
        for records in consumer.poll(1000).values():
            values += [(record.value or b"").decode() for record in records]
print(", ".join(values))  # in the order of sending: one key is one partition
