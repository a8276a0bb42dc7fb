"""The feed of a console in a broker's own process: the broker hands its events, and shows a group on request."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Collection
from typing import Any, Protocol

from aiohttp import web

from coterie.client import Admin
from coterie.coordinator.journal.line import JournalLine
from coterie.observer.group_descriptions import SHARE_TYPE
from coterie.text.phrase import Phrase
from coterie.web.feeds.feed import with_share_progress
from coterie.web.group_memory import GroupFacts, GroupMemory, PartitionLag, kind_of

UPDATE_EVERY_S = 0.25
UPDATE_S = 0.003  # of the broker's time for the rows of groups, each time: 1.2 % of a core
HOT_STATES = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})


class GroupsOfBroker(Protocol):
    """What the broker hands."""

    def now_ms(self) -> int:
        """The broker's time."""

    def names(self) -> Collection[str]:
        """Every group that is loaded."""

    def group(self, name: str) -> tuple[tuple[str | None, str, int, int, int | None], Collection[PartitionLag]] | None:
        """Protocol type (None: the consumer protocol), state, number of members, generation and since when it is in its state;
        and its partitions with a committed offset. None where there is no such group."""

    def explain(self, name: str) -> dict[str, Any] | None:
        """The document of `groups why --json`; None where there is no such group."""

    def figures(self) -> dict[str, Any]:
        """As `GroupFeed.figures`."""

    def listen(self, take: Callable[[JournalLine], None]) -> AsyncIterator[list[JournalLine]]:
        """The lines before now, oldest first; ``take`` is called with each further one."""


class HandedFeed:
    """A `GroupFeed` of one broker. Costs the broker nothing but memory while no page listens."""

    trouble: Phrase | None = None

    def __init__(self, groups: GroupsOfBroker, client: dict[str, Any]) -> None:
        self.client, self._groups = client, groups
        self.memory = GroupMemory()
        self._names: list[str] = []  # of the present round
        self._waiting: list[JournalLine] | None = []  # lines that came while those before them are read
        self._admin: Admin | None = None

    async def explain(self, group: str) -> dict[str, Any] | None:
        """As `GroupFeed.explain`; a share group's offsets are read as by any client."""
        document = self._groups.explain(group)
        if document is None or document["protocol_type"] != SHARE_TYPE:
            return document
        self._admin = self._admin or Admin({"default.api.timeout.ms": "3000"} | self.client)
        return await with_share_progress(self._admin, document)

    def figures(self) -> dict[str, Any] | None:
        return self._groups.figures()

    async def running(self, app: web.Application) -> AsyncIterator[None]:
        """While the application runs, as aiohttp's cleanup contexts are."""
        work = asyncio.create_task(self._run())
        yield
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work
        if self._admin is not None:
            self._admin.close()

    async def _run(self) -> None:
        async for lines in self._groups.listen(self._take):
            for line in lines:
                self.memory.take(line)
        waiting, self._waiting = self._waiting or [], None
        for line in waiting:
            self.memory.take(line)
        while True:
            if self.memory.readers:
                self.update(time.perf_counter)
            await asyncio.sleep(UPDATE_EVERY_S)

    def _take(self, line: JournalLine) -> None:
        if self._waiting is None:
            self.memory.take(line)
        else:
            self._waiting.append(line)

    def update(self, clock: Callable[[], float]) -> None:
        """The rows of the groups that changed, then of the others in turn, as far as the time of an update goes."""
        until_s, changed, again = clock() + UPDATE_S, self.memory.changed, set[str]()
        now_ms = self._groups.now_ms()
        if not self._names:
            self._names = sorted(self._groups.names(), reverse=True)
        while changed or self._names:
            name = changed.pop() if changed else self._names.pop()
            if self._show(name, now_ms):
                again.add(name)
            if clock() > until_s:
                break
        changed |= again

    def _show(self, name: str, now_ms: int) -> bool:
        """Makes a group's row; whether it may come to wait, with nothing more to see."""
        handed = self._groups.group(name)
        if handed is None:
            self.memory.forget(name)
            return False
        (protocol_type, state, members, generation, since_ms), lags = handed
        kind = kind_of(protocol_type or "", is_consumer_protocol=protocol_type is None)
        facts = GroupFacts(kind, state, members, generation, since_ms)
        self.memory.courses[name].measured(lags, now_ms)
        self.memory.show(name, facts, now_ms)
        return facts.state in HOT_STATES
