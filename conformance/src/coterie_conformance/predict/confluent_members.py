"""confluent-kafka (librdkafka) as members of groups, each in a thread: as `Members.java`."""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

from confluent_kafka import Consumer

ASSIGNORS = {"eager": "range", "cooperative": "cooperative-sticky"}


class MemberThread(threading.Thread):
    """One life of a member."""

    def __init__(
        self, address: str, name: str, group: str, topic: str, protocol: str, instance: str, session: str, poll_ms: str
    ) -> None:
        super().__init__(daemon=True)
        settings: dict[str, Any] = {
            "bootstrap.servers": address,
            "group.id": group,
            "client.id": name,
            "auto.offset.reset": "earliest",
        }
        if protocol == "consumer":
            settings["group.protocol"] = protocol
        else:
            settings |= {"session.timeout.ms": int(session), "partition.assignment.strategy": ASSIGNORS[protocol]}
        if instance != "-":
            settings["group.instance.id"] = instance
        self.ends, self._poll_s = threading.Event(), int(poll_ms) / 1000
        self._member, self._topic, self._owned = name, topic, set[int]()
        self._consumer = Consumer(settings)

    def run(self) -> None:
        """Polls until it is to end."""
        self._consumer.subscribe([self._topic], on_assign=self._assigned, on_revoke=self._gone, on_lost=self._gone)
        while not self.ends.is_set():
            read: dict[int, list[int]] = {}
            for message in self._consumer.consume(100, 0.1):
                if message.error() is None:
                    read.setdefault(message.partition(), [message.offset(), 0])[1] = message.offset()
            if read:
                print(json.dumps({"name": self._member, "read": read}) + "\n", end="", flush=True)
                self.ends.wait(self._poll_s)
        self._owned.clear()
        self._print()
        self._consumer.close()

    def _assigned(self, _: Any, partitions: list[Any]) -> None:
        self._owned |= {p.partition for p in partitions}
        self._print()

    def _gone(self, _: Any, partitions: list[Any]) -> None:
        self._owned -= {p.partition for p in partitions}
        self._print()

    def _print(self) -> None:
        line = {"name": self._member, "ms": int(time.time() * 1000), "owned": sorted(self._owned)}
        print(json.dumps(line) + "\n", end="", flush=True)  # one write: the members share standard output


def main(address: str) -> None:
    """Obeys standard input until it ends."""
    members: dict[str, MemberThread] = {}
    for line in sys.stdin:
        match line.split():
            case ["open", name, *words]:
                members[name] = MemberThread(address, name, *words)
                members[name].start()
            case ["close", name]:
                members[name].ends.set()


if __name__ == "__main__":
    main(*sys.argv[1:])
