"""The feed of a console that looks at a cluster from outside: an observer's groups, and the journal of a coterie broker where
there is one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

from coterie.client import Admin, KafkaError
from coterie.client.admin.group_explanation import PartitionProgress
from coterie.coordinator.journal.generations import owners_of
from coterie.coordinator.journal.line import TOPIC, JournalLine
from coterie.observer.explanations import seen_explanation
from coterie.observer.group_descriptions import SHARE_TYPE, now_ms
from coterie.observer.lags import GroupLags
from coterie.observer.machine.known import KnownGroup
from coterie.observer.machine.sights import Sight, TopicsSeen
from coterie.observer.observation import ClusterObservation
from coterie.text.phrase import Phrase
from coterie.text.quantity import STALLED_AFTER_MS
from coterie.web.feeds.feed import of_kafka, with_share_progress
from coterie.web.group_memory import GroupFacts, GroupMemory, Partition, kind_of
from coterie.web.journal_tail import journal_tail
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.stored.consumer_offsets import MemberMetadata

ROWS_EVERY_S, PULSE_EVERY_S = 0.25, 1.0
LAGS_EVERY_S, UNREAD_LAGS_EVERY_S = 1.0, 5.0  # while a page is open, and while none is
PULSE_MS = "3000"
EXPLAINED_LINES = 50


class ObservedFeed:
    """A `GroupFeed` of any Kafka. ``earlier``: lines of the journal that an observer wrote before."""

    def __init__(
        self, client: dict[str, Any], notice: Callable[[str], None], earlier: Iterable[JournalLine] = ()
    ) -> None:
        self.client = client
        self.memory = GroupMemory()
        self.trouble: Phrase | None = None
        self._observation = ClusterObservation(client, self._observed, notice)
        self._observation.listeners.append(self._see)
        self._lags = GroupLags(client, self._observation.rate)
        self._has_journal = asyncio.Event()  # the cluster has coterie's own
        self._explains_itself = True  # until a broker does not know the request
        self._pulse_admin = Admin({"default.api.timeout.ms": PULSE_MS} | client)
        self._began_ms = now_ms()
        for line in earlier:
            self.memory.take(line)

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
            self.memory.changed.add(group)
        elif isinstance(sight, TopicsSeen) and TOPIC in sight.partitions:
            self._has_journal.set()

    def _observed(self, line: JournalLine) -> None:
        if not self._has_journal.is_set() or line.event == "pattern_seen":
            self.memory.take(line)

    async def _tail(self) -> None:
        """The broker's own lines say more than those observed until its journal was seen, and take their position."""
        await self._has_journal.wait()
        while True:
            self.memory.forget_lines()
            try:
                async for lines in journal_tail(self.client, TOPIC):
                    for line in lines:
                        self.memory.take(line)
            except KafkaError:
                await asyncio.sleep(PULSE_EVERY_S)

    async def _pulse(self) -> None:
        while True:
            try:
                await self._pulse_admin.describe_cluster()
            except KafkaError as error:
                self.trouble = of_kafka(error)
            else:
                self.trouble = None
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
                self.memory.courses[group].measured(
                    (((lag.topic, lag.partition), lag.committed, lag.lag) for lag in self._lags.of(group)), at_ms
                )
                self.memory.changed.add(group)
            await asyncio.sleep(LAGS_EVERY_S if self.memory.readers else UNREAD_LAGS_EVERY_S)

    # -- rows ---------------------------------------------------------------------------------------------------------

    async def _update(self) -> None:
        while True:
            groups, changed, again = self._observation.machine.groups, self.memory.changed, set[str]()
            for name in changed:
                group = groups.get(name)
                if group is None:
                    self.memory.forget(name)
                elif group.described is not None:
                    self.memory.show(name, _facts(group), now_ms())
                    again |= {name} if group.is_hot else set()  # it may come to wait, with nothing more to see
            self.memory.changed = again
            await asyncio.sleep(ROWS_EVERY_S)

    # -- one group ----------------------------------------------------------------------------------------------------

    async def explain(self, group: str) -> dict[str, Any] | None:
        """As a coterie broker explains it, or as it is seen from outside."""
        if self._explains_itself:
            try:
                own = asdict(await self._pulse_admin.explain_group(group))
                return await with_share_progress(self._pulse_admin, own)
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
        lines = self.memory.journal.of(group)[-EXPLAINED_LINES:]
        return asdict(seen_explanation(known, lines, self._partitions(known, at_ms), at_ms, at_ms - self._began_ms))

    def figures(self) -> dict[str, Any] | None:
        """None: no response of a broker has them."""
        return None

    def _partitions(self, group: KnownGroup, at_ms: int) -> tuple[PartitionProgress, ...]:
        assert group.described is not None
        owners = _owners(group.described.members)
        lags = {(lag.topic, lag.partition): lag for lag in self._lags.of(group.group)}
        course = self.memory.courses[group.group]
        rows = []
        for partition in sorted({*lags, *owners}):
            lag, unmoved_ms = lags.get(partition), course.unmoved_ms(partition, at_ms)
            is_stalled = lag is not None and lag.lag > 0 and (unmoved_ms or 0) >= STALLED_AFTER_MS
            committed, end, behind = (None, None, None) if lag is None else (lag.committed, lag.end, lag.lag)
            of = owners.get(partition, ())
            is_shared = group.described.protocol_type == SHARE_TYPE
            rows.append(
                PartitionProgress(
                    *partition,
                    of[0] if of and not is_shared else None,
                    committed,
                    end,
                    behind,
                    unmoved_ms,
                    is_stalled,
                    None if lag is None else lag.lag_ms,
                    of if is_shared else (),
                )
            )
        return tuple(rows)


def _owners(members: Iterable[MemberMetadata]) -> dict[Partition, tuple[str, ...]]:
    """The members of each partition; of a share group several."""
    owners: dict[Partition, tuple[str, ...]] = {}
    for member in members:
        for partition in owners_of([(member.member_id, member.assignment)]):
            owners[partition] = (*owners.get(partition, ()), member.member_id)
    return owners


def _facts(group: KnownGroup) -> GroupFacts:
    described = group.described
    assert described is not None
    return GroupFacts(
        kind_of(described.protocol_type, is_consumer_protocol=described.epoch is not None),
        described.state,
        len(described.members),
        group.generation if described.epoch is None else described.epoch,
        group.course.since_ms or None,
        group.is_lost,
    )
