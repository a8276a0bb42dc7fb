"""confluent-kafka as a member of a group until SIGTERM: `confluent_crew.py HOST:PORT GROUP TOPICS KEY=VALUE...`."""

from __future__ import annotations

import signal
import sys
import time
from typing import Any

from commands import Commands  # type: ignore[import-not-found]  # beside this file, in another environment
from confluent_kafka import Consumer


def main(address: str, group: str, topics: str, *words: str) -> None:
    """Reads until SIGTERM, and leaves the group."""
    settings: dict[str, Any] = {"bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest"}
    settings |= dict(word.split("=", 1) for word in words)
    settings["topic.metadata.refresh.interval.ms"] = settings.pop("metadata.max.age.ms", "300000")
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ended.append(number))
    consumer, commands, subscribed = Consumer(settings), Commands(topics), ""
    while not ended:
        if subscribed != commands.topics:
            subscribed = commands.topics
            consumer.subscribe(subscribed.split(","), on_revoke=lambda *_: time.sleep(commands.called_s()))
        consumer.poll(0.1)
        time.sleep(commands.slept_s())
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
