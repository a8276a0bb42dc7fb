"""Kafka's own VerifiableProducer and VerifiableConsumer, which its system tests run."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from coterie.client.blocking import BlockingAdmin
from coterie_conformance.servers.kafka import java

MESSAGES, PARTITIONS, WAIT_S = 300, 4, 60.0
TOOLS = "org.apache.kafka.tools"
ASSIGNORS = "org.apache.kafka.clients.consumer"
GROUPS: dict[str, tuple[str, ...]] = {
    "range": ("--assignment-strategy", f"{ASSIGNORS}.RangeAssignor"),
    "cooperative": ("--assignment-strategy", f"{ASSIGNORS}.CooperativeStickyAssignor"),
    "consumer": ("--group-protocol", "consumer"),
}


class Verifiable:
    """A tool while it runs; ``events`` are the lines of JSON that it has printed."""

    def __init__(self, version: str, tool: str, *words: str, log: Path) -> None:
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                java(version, f"{TOOLS}.{tool}", *words, heap="128m", options=("-XX:TieredStopAtLevel=1",)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.events: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self.events.append(json.loads(line))

    def named(self, name: str) -> list[dict[str, Any]]:
        """Its events of that name."""
        return [event for event in list(self.events) if event["name"] == name]

    def until(self, done: Callable[[], bool]) -> bool:
        """Whether it is so within WAIT_S."""
        end_s = time.monotonic() + WAIT_S
        while not done() and time.monotonic() < end_s:
            time.sleep(0.1)
        return done()

    def stop(self) -> bool:
        """By SIGTERM; whether it reports its end."""
        self._process.send_signal(signal.SIGTERM)
        is_ended = self.until(lambda: bool(self.named("shutdown_complete")))
        self._process.kill()
        self._process.wait()
        self._reader.join()
        return is_ended


def check_verifiable(version: str, address: str, log: Path) -> Iterator[tuple[str, str]]:
    """Name, and what is wrong, of a producer with two consumers of each kind of group, one of which leaves."""
    for kind, words in GROUPS.items():
        topic = f"verifiable-{kind}"
        with BlockingAdmin({"bootstrap.servers": address}) as admin:
            admin.create_topic(topic, PARTITIONS, replication_factor=1)
        yield from (
            (f"Verifiable, {kind}: {name}", wrong) for name, wrong in _group(version, address, topic, words, log)
        )


def _group(version: str, address: str, topic: str, words: tuple[str, ...], log: Path) -> Iterator[tuple[str, str]]:
    where = ("--bootstrap-server", address, "--topic", topic)
    group = (*where, "--group-id", topic, "--reset-policy", "earliest", *words)
    stays, leaves = (Verifiable(version, "VerifiableConsumer", *group, log=log) for _ in range(2))
    sends = ("--max-messages", str(MESSAGES), "--throughput", "100", "--acks", "-1")
    producer = Verifiable(version, "VerifiableProducer", *where, *sends, log=log)
    producer.until(lambda: bool(producer.named("shutdown_complete")))
    acknowledged = len(producer.named("producer_send_success"))
    yield "all is acknowledged", "" if acknowledged == MESSAGES else f"{acknowledged} of {MESSAGES}"
    producer.stop()

    def consumed() -> int:
        return sum(event["count"] for consumer in (stays, leaves) for event in consumer.named("records_consumed"))

    stays.until(lambda: consumed() >= MESSAGES)
    yield "all is consumed", "" if consumed() >= MESSAGES else f"{consumed()} of {MESSAGES}"
    yield "one leaves", "" if leaves.stop() else "it did not report its end"

    def has_all() -> bool:
        owned: set[int] = set()
        for event in list(stays.events):
            numbers = {p["partition"] for p in event.get("partitions", ()) if event["name"].startswith("partitions_")}
            owned = owned | numbers if event["name"] == "partitions_assigned" else owned - numbers
        return owned == {*range(PARTITIONS)}

    yield "the other has all", "" if stays.until(has_all) else f"{stays.events[-3:]}"
    refused = [
        event for consumer in (stays, leaves) for event in consumer.named("offsets_committed") if not event["success"]
    ]
    yield "commits are made", "" if not refused else f"{refused[:1]}"
    yield "the other leaves", "" if stays.stop() else "it did not report its end"
