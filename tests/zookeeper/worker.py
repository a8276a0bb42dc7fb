"""A high-level consumer in a process of its own, which says five times a second where it stands."""

from __future__ import annotations

import json
import sys
import threading
import time

from coterie.client.zookeeper import ZooKeeperConsumer


def main() -> None:
    zookeeper, group_id, topic, streams, session_timeout_ms = sys.argv[1:]
    settings = {
        "zookeeper.connect": zookeeper,
        "group.id": group_id,
        "auto.offset.reset": "smallest",
        "zookeeper.session.timeout.ms": session_timeout_ms,
        "auto.commit.interval.ms": 500,
        "rebalance.backoff.ms": 500,
        "rebalance.max.retries": 20,
    }
    read: list[tuple[int, int]] = []
    with ZooKeeperConsumer(settings, {topic: int(streams)}) as consumer:

        def take(stream: object) -> None:
            for message in stream:  # type: ignore[attr-defined]
                read.append((message.partition, message.record.offset))

        for stream in consumer.streams[topic]:
            threading.Thread(target=take, args=(stream,), daemon=True).start()
        reported = 0
        while True:
            machine, upto = consumer.machine, len(read)
            report = {
                "owned": [partition for _, partition in consumer.owned()],
                "rebalances": machine.rebalances,
                "conflicts": machine.conflicts,
                "failures": consumer.failures,
                "read": read[reported:upto],
            }
            print(json.dumps(report), flush=True)
            reported = upto
            time.sleep(0.2)


if __name__ == "__main__":
    main()
