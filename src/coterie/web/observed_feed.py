"""The feed of a console that looks at a cluster from outside: an observer's groups, and the journal of a coterie broker where
there is one."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

from coterie.client import Admin, KafkaError
from coterie.client.admin.group_explanation import PartitionProgress
from coterie.coordinator.journal.group_ownership import owners_of
from coterie.coordinator.journal.line import TOPIC, JournalLine
from coterie.observer.describer import now_ms
from coterie.observer.explanations import seen_explanation
from coterie.observer.lags import GroupLags
from coterie.observer.machine.known import KnownGroup
from coterie.observer.machine.sights import Sight, TopicsSeen
from coterie.observer.observation import ClusterObservation
from coterie.web.group_course import STALLED_AFTER_MS, GroupCourse
from coterie.web.journal_memory import JournalMemory
from coterie.web.journal_tail import journal_tail
from coterie.web.live_rows import LiveRow, LiveRows
from coterie.web.marks import is_rebalance, marks
from coterie.wire.errors import ErrorCode

ROWS_EVERY_S, LAGS_EVERY_S, PULSE_EVERY_S = 0.25, 5.0, 1.0
PULSE_MS = "3000"
EXPLAINED_LINES = 50


class ObservedFeed:
    """A `GroupFeed` of any Kafka. ``earlier``: lines of the journal that an observer wrote before."""

    def __init__(
        self, client: dict[str, Any], notice: Callable[[str], None], earlier: Iterable[JournalLine] = ()
    ) -> None:
        self.client = client
        self.rows, self.journal, self.trouble = LiveRows(), JournalMemory(), ""
        self._observation = ClusterObservation(client, self._observed, notice)
        self._observation.listeners.append(self._see)
        self._lags = GroupLags(client)
        self._courses: defaultdict[str, GroupCourse] = defaultdict(GroupCourse)
        self._changed: set[str] = set()
        self._has_journal = asyncio.Event()  # the cluster has coterie's own
        self._explains_itself = True  # until a broker does not know the request
        self._pulse_admin = Admin({"default.api.timeout.ms": PULSE_MS} | client)
        self._began_ms = now_ms()
        for line in earlier:
            self._take(line)

    async def run(self, stop: asyncio.Event) -> None:
        """Until the event is set. Raises as `ClusterObservation.run`."""
        works = [self._observation.run(stop), self._update(), self._measure(), self._pulse(), self._tail()]
        tasks = [asyncio.create_task(work) for work in works]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._lags.close()
            self._pulse_admin.close()

    # -- what is seen -------------------------------------------------------------------------------------------------

    def _see(self, sight: Sight) -> None:
        self._lags.see(sight)
        group = getattr(sight, "group", None)
        if group is not None:
            self._changed.add(group)
        elif isinstance(sight, TopicsSeen) and TOPIC in sight.partitions:
            self._has_journal.set()

    def _observed(self, line: JournalLine) -> None:
        if not self._has_journal.is_set() or line.event == "pattern_seen":
            self._take(line)

    def _take(self, line: JournalLine) -> None:
        if is_rebalance(line):
            self._courses[line.group].rebalanced(line.time_ms, line.why())
        self.journal.add(line)
        self._changed.add(line.group)

    async def _tail(self) -> None:
        """The broker's own lines say more than those observed until its journal was seen, and take their position."""
        await self._has_journal.wait()
        while True:
            self.journal.clear()
            self._courses.clear()
            try:
                async for lines in journal_tail(self.client, TOPIC):
                    for line in lines:
                        self._take(line)
            except KafkaError:
                await asyncio.sleep(PULSE_EVERY_S)

    async def _pulse(self) -> None:
        while True:
            try:
                await self._pulse_admin.describe_cluster()
            except KafkaError as error:
                self.trouble = str(error)
            else:
                self.trouble = ""
            await asyncio.sleep(PULSE_EVERY_S)

    async def _measure(self) -> None:
        while True:
            try:
                await self._lags.refresh()
            except KafkaError:
                await asyncio.sleep(PULSE_EVERY_S)
                continue
            at_ms = now_ms()
            for group in list(self._observation.machine.groups):
                self._courses[group].measured(
                    (((lag.topic, lag.partition), lag.committed, lag.lag) for lag in self._lags.of(group)), at_ms
                )
                self._changed.add(group)
            await asyncio.sleep(LAGS_EVERY_S)

    # -- rows ---------------------------------------------------------------------------------------------------------

    async def _update(self) -> None:
        while True:
            groups = self._observation.machine.groups
            for name in [name for name in self._changed if name not in groups]:
                self.rows.remove(name)
                self._courses.pop(name, None)
            again = set[str]()
            for name in self._changed & groups.keys():
                row = self._row(groups[name])
                if row is not None:
                    self.rows.put(row)
                    again |= {name} if groups[name].is_hot else set()  # it may come to wait, with nothing more to see
            self._changed = again
            await asyncio.sleep(ROWS_EVERY_S)

    def _row(self, group: KnownGroup) -> LiveRow | None:
        """None of a group that was not described yet."""
        described, course = group.described, self._courses[group.group]
        if described is None:
            return None
        at_ms = now_ms()
        since_ms = group.course.since_ms or None
        in_state_ms = None if since_ms is None else at_ms - since_ms
        generation = group.generation if described.epoch is None else described.epoch
        lags = course.lags
        return {
            "group": group.group,
            "kind": _kind(group),
            "state": described.state,
            "members": len(described.members),
            "generation": generation if generation >= 0 else None,
            "lag": lags[-1] if lags else None,
            "course": lags,
            "since_ms": since_ms,
            "rebalance_ms": course.rebalances_ms[-1] if course.rebalances_ms else None,
            "why": course.why,
            "marks": marks(
                described.state,
                in_state_ms,
                course.rebalances_ms,
                at_ms,
                stalls=course.stalls(at_ms),
                is_lost=group.is_lost,
            ),
        }

    # -- one group ----------------------------------------------------------------------------------------------------

    async def explain(self, group: str) -> dict[str, Any] | None:
        """As a coterie broker explains it, or as it is seen from outside."""
        if self._explains_itself:
            try:
                return asdict(await self._pulse_admin.explain_group(group))
            except KafkaError as error:
                if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
                    return None
                if error.code != ErrorCode.UNSUPPORTED_VERSION:
                    raise
                self._explains_itself = False
        known = self._observation.machine.groups.get(group)
        if known is None or known.described is None:
            return None
        at_ms = now_ms()
        lines = self.journal.of(group)[-EXPLAINED_LINES:]
        return asdict(seen_explanation(known, lines, self._partitions(known, at_ms), at_ms, at_ms - self._began_ms))

    def _partitions(self, group: KnownGroup, at_ms: int) -> tuple[PartitionProgress, ...]:
        assert group.described is not None
        owners = owners_of((m.member_id, m.assignment) for m in group.described.members)
        lags = {(lag.topic, lag.partition): lag for lag in self._lags.of(group.group)}
        course = self._courses[group.group]
        rows = []
        for partition in sorted({*lags, *owners}):
            lag, unmoved_ms = lags.get(partition), course.unmoved_ms(partition, at_ms)
            is_stalled = lag is not None and lag.lag > 0 and (unmoved_ms or 0) >= STALLED_AFTER_MS
            committed, end, behind = (None, None, None) if lag is None else (lag.committed, lag.end, lag.lag)
            rows.append(
                PartitionProgress(*partition, owners.get(partition), committed, end, behind, unmoved_ms, is_stalled)
            )
        return tuple(rows)


def _kind(group: KnownGroup) -> str:
    """Of consumers by their protocol; of others, as Connect, by the protocol type."""
    assert group.described is not None
    if group.described.epoch is not None:
        return "consumer"
    named = {"consumer": "classic", "": "simple"}
    return named.get(group.described.protocol_type, group.described.protocol_type)
