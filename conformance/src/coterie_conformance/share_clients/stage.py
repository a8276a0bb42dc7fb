"""The stage of a story of share consumers: a topic and a group of its own on a broker, and the client's members."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coterie.client.blocking import BlockingAdmin, BlockingConsumer, BlockingProducer
from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.client.errors import check
from coterie.text.addresses import parse_address
from coterie.wire.messages.settings.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from coterie_conformance.share_clients.programs import Delivered, RunningSharer

GROUP_RESOURCE, SET = 32, 0
POLL_MS = 1000
DeadLetter = tuple[int, bytes | None, bytes | None, tuple[Any, ...]]  # partition, key, value, headers
QUIET_POLLS = 3  # that must bring nothing
PATIENCE_S = 90.0
NUMBERS = itertools.count(1)


class SharerStage:
    """``command`` starts a member of the client that is looked at. Each stage has its own ``topic`` and ``group``, whose
    dead letters are those of ``letters``."""

    def __init__(self, address: str, command: list[str], folder: Path, *, renews: bool) -> None:
        self.address, self.renews = address, renews
        self._command, self._log = command, folder / "members.log"
        number = next(NUMBERS)
        self.topic, self.group, self.letters = f"shared-{number}", f"sharers-{number}", f"dlq.shared-{number}"
        self._members: list[RunningSharer] = []

    def begin(self, *, partitions: int = 1, **settings: str) -> None:
        """Makes the topic and alters the group's settings; it begins at the topic's first records unless they say otherwise."""
        with BlockingAdmin({"bootstrap.servers": self.address}) as admin:
            admin.create_topic(self.topic, partitions)
        wanted = {"share_auto_offset_reset": "earliest", **settings}
        changes = [AlterableConfig(name.replace("_", "."), SET, value) for name, value in wanted.items()]
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP_RESOURCE, self.group, changes)], False)
        connection = BrokerSocket(*parse_address(self.address))
        try:
            response = connection.request(request).responses[0]
        finally:
            connection.close()
        check(response.error_code, response.error_message)

    def produce(self, *values: str, partition: int = 0) -> None:
        """In one batch."""
        with BlockingProducer({"bootstrap.servers": self.address, "linger.ms": 100}) as producer:
            for future in [producer.send(self.topic, value.encode(), partition=partition) for value in values]:
                future.result()

    def dead_letters(self, count: int) -> list[DeadLetter]:
        """So many records of the group's dead letter topic, and any that come within a second, sorted. Raises
        AssertionError."""
        deadline, taken = time.monotonic() + PATIENCE_S, list[DeadLetter]()
        settings: dict[str, object] = {
            "bootstrap.servers": self.address,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "group.id": f"{self.group}-letters",
        }
        with BlockingConsumer(settings) as consumer:
            consumer.subscribe([self.letters])
            quiet_polls = 0
            while len(taken) < count or not quiet_polls:
                assert time.monotonic() < deadline, f"{len(taken)} dead letters of {count}"
                polled = [record for records in consumer.poll(POLL_MS).values() for record in records]
                taken += [(r.partition, r.key, r.value, tuple(r.headers)) for r in polled]
                quiet_polls = 0 if polled else quiet_polls + 1
        return sorted(taken, key=repr)

    @contextlib.contextmanager
    def transaction(self, name: str) -> Iterator[BlockingProducer]:
        """A producer with an open transaction, which its user ends."""
        settings = {"bootstrap.servers": self.address, "transactional.id": f"{self.group}-{name}"}
        with BlockingProducer(settings) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            yield producer

    def member(self, mode: str = "explicit") -> RunningSharer:
        """One more member of the group."""
        member = RunningSharer(self._command, self.address, self.group, self.topic, mode, self._log)
        self._members.append(member)
        return member

    def close(self) -> None:
        """Ends what is left of the members."""
        for member in self._members:
            member.kill()


def polled(member: RunningSharer, count: int = 1) -> list[Delivered]:
    """One poll that brings at least ``count`` records. Raises AssertionError."""
    end_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < end_s:
        records = member.poll(POLL_MS)
        if len(records) >= count:
            return records
        assert not records, f"{len(records)} records where {count} are one batch"
    raise AssertionError("no record came")


def all_accepted(member: RunningSharer, count: int) -> list[Delivered]:
    """This many records, each accepted and committed. Raises AssertionError."""
    taken: list[Delivered] = []
    while len(taken) < count:
        records = polled(member)
        for record in records:
            member.acknowledge(record)
        failed = member.commit()
        assert not failed, f"an acknowledgement was refused: {failed}"
        taken += records
    return sorted(taken)


def quiet(member: RunningSharer) -> list[Delivered]:
    """What some polls bring where nothing should come."""
    return [record for _ in range(QUIET_POLLS) for record in member.poll(POLL_MS)]
