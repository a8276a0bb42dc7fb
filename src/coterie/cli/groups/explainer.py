"""Explanations of a group for `groups why` and `groups watch`: by its coterie broker, from a journal, or from outside."""

from __future__ import annotations

import asyncio
import contextlib
import time

from coterie.cli.groups.group_description import describe_group
from coterie.cli.groups.journal_reading import journal_lines
from coterie.client import Admin, GroupExplanation, KafkaError
from coterie.client.admin.group_explanation import PartitionProgress
from coterie.coordinator.journal.journal_timeline import JournalTimeline
from coterie.coordinator.journal.line import TOPIC, JournalLine
from coterie.observer.explanations import journal_explanation, seen_explanation
from coterie.observer.observation import ClusterObservation
from coterie.web.journal_tail import journal_tail
from coterie.wire.errors import ErrorCode

LOOK_S = 4.0  # the group is described each second
LINES_KEPT = 50
AGAIN_S = 1.0


class Explainer:
    """Of one group; an async context. ``journal``: as of --journal. ``timeline`` has the lines of the journal that are known,
    those of a coterie broker where it ``follows`` them."""

    def __init__(self, group: str, journal: str | None, client: dict[str, str], *, follows: bool = False) -> None:
        self._group, self._journal, self._client, self._follows = group, journal, client, follows
        self._admin = Admin(client)
        self._lines: list[JournalLine] = []
        self.timeline = JournalTimeline(group)
        self._observation = ClusterObservation(client, self._seen_line, lambda _: None, groups=[group])
        self._observing: asyncio.Task[None] | None = None
        self._following: asyncio.Task[None] | None = None
        self._began_ms = 0

    async def __aenter__(self) -> Explainer:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in filter(None, (self._observing, self._following)):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, KafkaError):
                await task
        self._admin.close()

    async def explain(self) -> GroupExplanation:
        """Raises KafkaError; GROUP_ID_NOT_FOUND where there is no such group, or the journal has no line of it."""
        if self._journal is not None:
            lines, _ = await journal_lines(self._group, self._client, self._journal)
            if not lines:
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"{self._journal} has no line of group {self._group}")
            self.timeline = JournalTimeline(self._group)
            for line in lines:
                self.timeline.add(line)
            return journal_explanation(lines, _now_ms())
        if self._observing is None:
            try:
                explanation = await self._admin.explain_group(self._group)
                if self._follows and self._following is None:
                    self._following = asyncio.create_task(self._follow())
                return explanation
            except KafkaError as error:
                if error.code != ErrorCode.UNSUPPORTED_VERSION:
                    raise
            await self._begin()
        return await self._seen()

    async def _follow(self) -> None:
        """Reads the broker's journal, and again from its start where that fails."""
        while True:
            self.timeline = JournalTimeline(self._group)
            with contextlib.suppress(KafkaError):
                async for lines in journal_tail(self._client, TOPIC):
                    for line in lines:
                        if line.group == self._group:
                            self.timeline.add(line)
            await asyncio.sleep(AGAIN_S)

    def _seen_line(self, line: JournalLine) -> None:
        self._lines.append(line)
        self.timeline.add(line)

    async def _begin(self) -> None:
        self._began_ms = _now_ms()
        self._observing = asyncio.create_task(self._observation.run(asyncio.Event()))
        await asyncio.wait([self._observing], timeout=LOOK_S)

    async def _seen(self) -> GroupExplanation:
        assert self._observing is not None
        if self._observing.done():
            self._observing.result()
        known = self._observation.machine.groups.get(self._group)
        description, _ = await describe_group(self._group, self._client)
        if known is None or known.described is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {self._group} was not described")
        partitions = tuple(
            PartitionProgress(
                p["topic"], p["partition"], p["owner"], p["committed"], p["end"], p["lag"], None, False, p["lag_ms"]
            )
            for p in description["partitions"]
        )
        del self._lines[:-LINES_KEPT]
        now_ms = _now_ms()
        return seen_explanation(known, self._lines, partitions, now_ms, now_ms - self._began_ms)


def _now_ms() -> int:
    return int(time.time() * 1000)
