"""confluent-kafka as a member of a group until SIGTERM: prints what it owns and each record that it reads.
`python -m ... HOST:PORT GROUP TOPIC PROTOCOL`.
"""

from __future__ import annotations

import json
import signal
import sys
from typing import Any

from confluent_kafka import Consumer, KafkaException


def write(key: str, value: list[int]) -> None:
    """One line of JSON."""
    print(json.dumps({key: value}), flush=True)


def main(address: str, group: str, topic: str, protocol: str) -> None:
    """Reads until SIGTERM, and leaves the group."""
    settings: dict[str, Any] = {
        "bootstrap.servers": address,
        "group.id": group,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    if protocol == "classic":
        settings["heartbeat.interval.ms"] = 500
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ended.append(number))
    consumer, owned = Consumer(settings), list[int]()
    consumer.subscribe([topic])
    while not ended:
        records = [m for m in consumer.consume(100, 0.1) if m.error() is None]
        now = sorted(tp.partition for tp in consumer.assignment())
        if now != owned:
            owned = now
            write("owned", owned)
        for record in records:
            write("read", [record.partition(), record.offset()])
        if records:
            try:
                consumer.commit(asynchronous=False)
            except KafkaException as error:  # the next commit makes it, or the records are read again
                print(error, file=sys.stderr)
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
