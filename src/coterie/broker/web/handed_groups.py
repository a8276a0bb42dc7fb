"""What a broker hands to a console in its process: its groups, and the lines of its journal as they come."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from pathlib import Path
from typing import Any, Protocol

from coterie.broker.groups.explanation import GroupSources, end_offset, explained
from coterie.broker.requests.calls import ClientConnection
from coterie.broker.storage.topics import Topics
from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.journal.line import TOPIC as JOURNAL_TOPIC
from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.replay import AnyGroup
from coterie.coordinator.views.classic_group import list_group
from coterie.log.reading import offset_near_end
from coterie.records.batch import batches
from coterie.records.decoding import decode_records
from coterie.wire.errors import Refusal

HISTORY_BYTES = 16 * 1024 * 1024  # of the journal's end, at most


class HandedConnection(Protocol):
    """A client's open connection."""

    connection: ClientConnection

    @property
    def client_id(self) -> str: ...


class HandedConnections(Protocol):
    """All of them."""

    def __iter__(self) -> Iterator[HandedConnection]: ...
    def __len__(self) -> int: ...


class HandedSources(GroupSources, Protocol):
    """What is handed."""

    @property
    def connections(self) -> HandedConnections: ...


class HandedGroups:
    """The groups of this broker, as `coterie.web.feeds.handed_feed.GroupsOfBroker` names their parts."""

    def __init__(self, broker: HandedSources) -> None:
        self._broker = broker

    def now_ms(self) -> int:
        """The broker's time."""
        return self._broker.clock.now_ms()

    def names(self) -> Collection[str]:
        """Every group that is loaded."""
        return [group.group_id for group in self._broker.groups.loaded_groups()]

    def group(self, name: str) -> tuple[Any, ...] | None:
        """Protocol type (None: the consumer protocol), state, number of members, generation and since when it is in its state;
        and of each partition with a committed offset this and its lag."""
        group = self._group(name)
        if group is None:
            return None
        protocol_type = None if isinstance(group, ConsumerGroup) else list_group(group).protocol_type
        since_ms = group.phase_since_ms if group.phase_since_ms >= 0 else None
        lags = []
        for (topic, partition), committed in group.offsets.items():
            end = end_offset(self._broker, topic, partition)
            if end is not None:
                lags.append(((topic, partition), committed.offset, max(end - committed.offset, 0)))
        return (protocol_type, group.phase.value, len(group.members), group.generation, since_ms), lags

    def explain(self, name: str) -> dict[str, Any] | None:
        """The document of `groups why --json`."""
        group = self._group(name)
        return None if group is None else explained(self._broker, group)

    def _group(self, name: str) -> AnyGroup | None:
        try:
            return self._broker.groups.group(name)
        except Refusal:
            return None  # of another broker, or still being loaded

    def figures(self) -> dict[str, Any]:
        """Connections, memory, records appended since ever, and the clients by their software and id."""
        seen = Counter((c.connection.software.text, c.client_id) for c in self._broker.connections)
        topics = self._broker.topics.by_name.values()
        return {
            "connections": len(self._broker.connections),
            "memory_bytes": _resident_bytes(),
            "appended": sum(partition.log.end_offset for topic in topics for partition in topic.partitions),
            "clients": [
                {"software": software, "client_id": client_id, "connections": count}
                for (software, client_id), count in sorted(seen.items())
            ],
        }

    async def listen(self, take: Callable[[JournalLine], None]) -> AsyncIterator[list[JournalLine]]:
        """The lines so far, oldest first, a batch at a time; ``take`` gets each further one from now on."""
        journal = self._broker.groups.journal
        journal.write()
        journal.listeners.append(take)
        async for records in journal_records(self._broker.topics):
            yield [JournalLine.from_json(value) for _, value in records]


def _resident_bytes() -> int | None:
    """The memory of this process; None where the system does not show it."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


async def journal_records(topics: Topics) -> AsyncIterator[list[tuple[bytes, bytes]]]:
    """Key and value of the journal's records, a batch in each turn of the loop; only its end when it is long, and what is in it
    at the call."""
    topic = topics.by_name.get(JOURNAL_TOPIC)
    if topic is None:
        return
    log = topic.partitions[0].log
    data = log.read(offset_near_end(log, HISTORY_BYTES), HISTORY_BYTES)
    for position, header in batches(data):
        yield [(r.key, r.value) for r in decode_records(data, position, header) if r.key and r.value]
        await asyncio.sleep(0)
