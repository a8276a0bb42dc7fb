"""The demo's observations while it runs: samples of both groups, and the journal as it is written."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from coterie.client import Admin, Consumer, GroupState, KafkaError
from coterie.coordinator.journal.line import TOPIC as JOURNAL_TOPIC
from coterie.coordinator.journal.line import JournalLine

UUID_LENGTH = 37  # a dash and a UUID: what a member id has beyond its client or instance id


def short_name(member_id: str) -> str:
    """A member id without its UUID: the client id, or the instance id of a static member."""
    return member_id[:-UUID_LENGTH] if len(member_id) > UUID_LENGTH else member_id


@dataclass(slots=True)
class Sample:
    """One look, begun at ``time_ms``: lags in records (None before the first commit), and how many records were produced."""

    time_ms: int
    produced: int
    lags: dict[str, int | None]


@dataclass(slots=True)
class Watch:
    """All that was seen."""

    topic: str
    samples: list[Sample] = field(default_factory=list)
    journal: list[JournalLine] = field(default_factory=list)
    state: str = "-"
    generation: int = 0
    owners: dict[int, str] = field(default_factory=dict)
    lag_by_partition: dict[int, int] = field(default_factory=dict)

    def rebalances(self, group: str = "crew") -> list[JournalLine]:
        return [line for line in self.journal if line.group == group and line.event in ("stable", "empty")]

    def replaced(self) -> list[JournalLine]:
        """Where a static member of crew came back under another member id."""
        return [line for line in self.journal if line.group == "crew" and line.event == "member_replaced"]

    def last_lag(self, group: str) -> int | None:
        return self.samples[-1].lags.get(group) if self.samples else None


class Watcher:
    """Samples twice a second, through the ordinary clients."""

    def __init__(self, address: str, watch: Watch) -> None:
        self._watch = watch
        self._admin = Admin({"bootstrap.servers": address, "client.id": "demo-watcher"})
        self._reader = Consumer({"bootstrap.servers": address, "auto.offset.reset": "earliest"})
        self._reading = False

    async def look(self, produced: int) -> None:
        """One sample. A broker that cannot respond yet is looked at again the next time."""
        watch, now_ms = self._watch, int(time.time() * 1000)
        lags: dict[str, int | None] = {}
        for group in ("crew", "delays"):
            lags[group] = await self._lag(group)
        watch.samples.append(Sample(now_ms, produced, lags))
        await self._describe()
        await self._read_journal()

    async def _lag(self, group: str) -> int | None:
        try:
            offsets = await self._admin.lag(group)
            ends = await self._admin.list_offsets(dict.fromkeys(await self._admin.partitions([self._watch.topic]), -1))
        except KafkaError:
            return None
        if not offsets:
            return None
        if group == "crew":
            self._watch.lag_by_partition = {tp.partition: end - offsets.get(tp, (0, 0))[0] for tp, end in ends.items()}
        return sum(end - offsets.get(tp, (0, 0))[0] for tp, end in ends.items())

    async def _describe(self) -> None:
        try:
            group = await self._admin.describe_consumer_group("crew")
        except KafkaError:
            return
        self._watch.state = group.state
        if group.state is GroupState.STABLE:
            self._watch.owners = {p: short_name(owner.member_id) for (_, p), owner in group.owners.items()}

    async def _read_journal(self) -> None:
        if not self._reading:
            if JOURNAL_TOPIC not in await self._admin.describe_topics():
                return
            await self._reader.assign([(JOURNAL_TOPIC, 0)])
            self._reading = True
        polled: dict[Any, Any] = await self._reader.poll(50, 1000)
        for records in polled.values():
            for record in records:
                line = JournalLine.from_json(record.value)
                self._watch.journal.append(line)
                if line.group == "crew":
                    self._watch.generation = line.generation

    async def close(self) -> None:
        self._admin.close()
        await self._reader.close()
