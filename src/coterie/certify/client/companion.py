"""Another library's consumer in the user's group: `python -m coterie.certify.client.companion HOST:PORT GROUP TOPIC PROTOCOL`.
It prints what it has processed and commits it, until SIGTERM; a program of a user may look like this one."""

from __future__ import annotations

import signal
import sys

from coterie.client.blocking import BlockingConsumer
from coterie.client.errors import KafkaError, RejoinNeededError


def main(address: str, group: str, topic: str, protocol: str) -> None:
    """Reads from the earliest record on."""
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ended.append(number))
    settings = {
        "bootstrap.servers": address,
        "group.id": group,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    if protocol == "classic":
        # The defaults of other libraries.
        settings["partition.assignment.strategy"] = "range,roundrobin,cooperative-sticky"
    with BlockingConsumer(settings) as consumer:
        consumer.subscribe([topic])
        while not ended:
            try:
                records = consumer.poll(200)
            except (
                RejoinNeededError
            ) as error:  # removed while it looked up where to read, as Java's: the next poll joins
                print(error, file=sys.stderr)
                continue
            for record in (record for batch in records.values() for record in batch):
                print((record.value or b"").decode().strip(), flush=True)
            if records:
                try:
                    consumer.commit()
                except KafkaError as error:  # the group has rebalanced: the records are read again
                    print(error, file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
