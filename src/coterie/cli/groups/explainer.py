"""Explanations of a group for `groups why` and `groups watch`: by its coterie broker, from a journal, or from outside."""

from __future__ import annotations

import asyncio
import contextlib
import time

from coterie.cli.groups.group_description import describe_group
from coterie.cli.groups.journal_reading import journal_lines
from coterie.client import Admin, GroupExplanation, KafkaError
from coterie.client.admin.group_explanation import PartitionProgress
from coterie.coordinator.journal.line import JournalLine
from coterie.observer.explanations import journal_explanation, seen_explanation
from coterie.observer.observation import ClusterObservation
from coterie.wire.errors import ErrorCode

LOOK_S = 4.0  # the group is described each second
LINES_KEPT = 50


class Explainer:
    """Of one group; an async context. ``journal``: as of --journal."""

    def __init__(self, group: str, journal: str | None, client: dict[str, str]) -> None:
        self._group, self._journal, self._client = group, journal, client
        self._admin = Admin(client)
        self._lines: list[JournalLine] = []
        self._observation = ClusterObservation(client, self._lines.append, lambda _: None, groups=[group])
        self._observing: asyncio.Task[None] | None = None
        self._began_ms = 0

    async def __aenter__(self) -> Explainer:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._observing is not None:
            self._observing.cancel()
            with contextlib.suppress(asyncio.CancelledError, KafkaError):
                await self._observing
        self._admin.close()

    async def explain(self) -> GroupExplanation:
        """Raises KafkaError; GROUP_ID_NOT_FOUND where there is no such group, or the journal has no line of it."""
        if self._journal is not None:
            lines, _ = await journal_lines(self._group, self._client, self._journal)
            if not lines:
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"{self._journal} has no line of group {self._group}")
            return journal_explanation(lines, _now_ms())
        if self._observing is None:
            try:
                return await self._admin.explain_group(self._group)
            except KafkaError as error:
                if error.code != ErrorCode.UNSUPPORTED_VERSION:
                    raise
            await self._begin()
        return await self._seen()

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
