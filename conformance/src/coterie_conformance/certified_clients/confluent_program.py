"""confluent-kafka as a consumer that processes, then commits, or a producer: `consumer|producer [KEY=VALUE...]`."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer


def consume(settings: dict[str, Any], ends: threading.Event) -> None:
    """Until SIGTERM."""
    group = {"group.id": os.environ["COTERIE_GROUP"], "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({**settings, **group})
    consumer.subscribe([os.environ["COTERIE_TOPIC"]])
    while not ends.is_set():
        records = consumer.consume(100, 0.2)
        for record in records:
            if record.error() is None:
                print(record.value().decode().strip(), flush=True)
            else:
                print(record.error(), file=sys.stderr)
        if any(record.error() is None for record in records):
            try:
                consumer.commit(asynchronous=False)
            except KafkaException as error:  # the group may have rebalanced: the records are read again
                print(error, file=sys.stderr)
    consumer.close()


def produce(settings: dict[str, Any]) -> None:
    """Until the end of its input."""
    producer = Producer(settings)

    def delivered(error: Any, record: Any) -> None:
        if error is None:
            print(record.value().decode(), flush=True)
        else:
            print(error, file=sys.stderr)

    ends = threading.Event()

    def poll() -> None:
        while not ends.is_set():
            producer.poll(0.1)

    threading.Thread(target=poll, daemon=True).start()
    for line in sys.stdin:
        producer.produce(os.environ["COTERIE_TOPIC"], line.strip().encode(), on_delivery=delivered)
    ends.set()
    producer.flush()


def main(role: str, *words: str) -> None:
    """Settings of librdkafka's."""
    settings: dict[str, Any] = dict(word.split("=", 1) for word in words)
    settings["bootstrap.servers"] = os.environ["COTERIE_BOOTSTRAP_SERVERS"]
    ends = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ends.set() if role == "consumer" else sys.exit())
    if role == "consumer":
        consume(settings, ends)
    else:
        produce(settings)


if __name__ == "__main__":
    main(*sys.argv[1:])
