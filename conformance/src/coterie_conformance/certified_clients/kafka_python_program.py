"""kafka-python as a consumer that processes, then commits, or as a producer: `consumer|producer`."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError


def consume(ends: threading.Event) -> None:
    """Until SIGTERM."""
    consumer = KafkaConsumer(
        os.environ["COTERIE_TOPIC"],
        bootstrap_servers=os.environ["COTERIE_BOOTSTRAP_SERVERS"].split(","),
        group_id=os.environ["COTERIE_GROUP"],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    while not ends.is_set():
        polled = consumer.poll(timeout_ms=200)
        for record in (record for records in polled.values() for record in records):
            print(record.value.decode().strip(), flush=True)
        if polled:
            try:
                consumer.commit()
            except KafkaError as error:  # the group may have rebalanced: the records are read again
                print(repr(error), file=sys.stderr)
    consumer.close()


def produce() -> None:
    """Until the end of its input."""
    servers = os.environ["COTERIE_BOOTSTRAP_SERVERS"].split(",")
    producer = KafkaProducer(bootstrap_servers=servers, acks="all", enable_idempotence=True)

    def report(value: str) -> Any:
        return lambda _: print(value, flush=True)

    for line in sys.stdin:
        value = line.strip()
        future = producer.send(os.environ["COTERIE_TOPIC"], value.encode())
        future.add_callback(report(value))
        future.add_errback(lambda error: print(repr(error), file=sys.stderr))
    producer.close()


def main(role: str) -> None:
    """In that role."""
    ends = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ends.set() if role == "consumer" else sys.exit())
    if role == "consumer":
        consume(ends)
    else:
        produce()


if __name__ == "__main__":
    main(*sys.argv[1:])
