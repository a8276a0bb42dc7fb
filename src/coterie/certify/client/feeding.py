"""The records of a consumer's story, whose values name their offsets: the stage is the only writer of the topic."""

from __future__ import annotations

import threading
from typing import Any

from coterie.certify.client.history import value_of
from coterie.certify.client.observed_faults import OWN_CLIENT
from coterie.client.blocking import BlockingAdmin, BlockingProducer

KEPT = 20  # by `trim`, in each partition
IN_TRANSACTION = 10  # records, in each partition
LARGE_BYTES = 1_500_000


class Feeder:
    """``ends``: the next offset of each partition; ``optional``: as a `ClientHistory` has it."""

    def __init__(self, address: str, topic: str, partitions: int) -> None:
        self._settings: dict[str, Any] = {"bootstrap.servers": address, "client.id": OWN_CLIENT}
        self._topic = topic
        self._lock = threading.Lock()
        self._producer = self._new_producer()
        self.ends = dict.fromkeys(range(partitions), 0)
        self.optional: set[tuple[int, int]] = set()

    def _new_producer(self) -> BlockingProducer:
        return BlockingProducer(self._settings | {"enable.idempotence": True, "max.request.size": 4 * LARGE_BYTES})

    def feed(self, count: int) -> None:
        """So many records into each partition; returns once they are acknowledged."""
        with self._lock:
            self._send(self._producer, count)
            self._producer.flush()

    def _send(self, producer: BlockingProducer, count: int, padding: int = 0) -> None:
        for partition in self.ends:
            for _ in range(count):
                value = value_of(partition, self.ends[partition]).ljust(padding)
                producer.send(self._topic, value.encode(), partition=partition)
                self.ends[partition] += 1

    def large(self) -> None:
        """A record in each partition, with spaces behind its value."""
        with self._lock:
            self._send(self._producer, 1, LARGE_BYTES)
            self._producer.flush()

    def transaction(self, end: str) -> None:
        """Commits or aborts some records; a marker follows in each partition."""
        with self._lock, BlockingProducer(self._settings | {"transactional.id": OWN_CLIENT}) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            starts = dict(self.ends)
            self._send(producer, IN_TRANSACTION)
            producer.flush()
            if end == "commit":
                producer.commit_transaction()
            else:
                producer.abort_transaction()
                self.optional |= {(p, offset) for p, start in starts.items() for offset in range(start, self.ends[p])}
            for partition in self.ends:
                self.optional.add((partition, self.ends[partition]))
                self.ends[partition] += 1

    def trim(self) -> None:
        """Deletes all but the last records of each partition."""
        with self._lock, BlockingAdmin(self._settings) as admin:
            before = {p: max(0, end - KEPT) for p, end in self.ends.items()}
            admin.delete_records({(self._topic, p): offset for p, offset in before.items()})
            self.optional |= {(p, offset) for p, start in before.items() for offset in range(start)}

    def grow(self, partitions: int) -> None:
        """The topic has so many partitions now."""
        with self._lock:
            with BlockingAdmin(self._settings) as admin:
                admin.create_partitions(self._topic, partitions)
            self._producer.close()
            self._producer = self._new_producer()  # with metadata of now
            self.ends |= dict.fromkeys(range(len(self.ends), partitions), 0)

    def close(self) -> None:
        """What is not acknowledged is given up."""
        self._producer.close(1_000)
