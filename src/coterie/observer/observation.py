"""An observer at work: the sights of a cluster into the machine, its lines to a sink."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any

from coterie.client.errors import AuthenticationError, KafkaError
from coterie.client.types import TopicPartition
from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.share_state.state import SHARE_STATE_TOPIC
from coterie.observer.describer import GROUPS_AT_ONCE, REQUESTS_PER_S, Describer, RequestRate
from coterie.observer.group_descriptions import now_ms
from coterie.observer.internal_topics import (
    MOST_RECORDS,
    OFFSETS_TOPIC,
    ReadRefused,
    ShareStates,
    group_past,
    offsets_tail,
    stored_before,
)
from coterie.observer.logs.server_log import LogFollower
from coterie.observer.machine.observer import REMOVAL_WAIT_MS, GroupObserver
from coterie.observer.machine.sights import Logged, Sight, Tick, TopicsSeen
from coterie.wire.errors import ErrorCode

ROUND_S = 1.0  # between two looks at the groups, where the rate of requests allows it
LIST_EVERY_S, TOPICS_EVERY_S, LOGS_EVERY_S, TICK_S = 30.0, 10.0, 0.5, 0.5
AGAIN_S = 1.0  # after a failure
REFUSALS = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
)


class ClusterObservation:
    """Of a cluster, or of some of its ``groups``. ``write`` takes each line, ``notice`` sentences about what cannot be seen."""

    def __init__(
        self,
        client: dict[str, Any],
        write: Callable[[JournalLine], None],
        notice: Callable[[str], None],
        *,
        groups: Iterable[str] = (),
        server_logs: Iterable[Path] = (),
        from_beginning: bool = False,
        requests_per_s: float = REQUESTS_PER_S,
    ) -> None:
        self._client, self._write, self._notice = client, write, notice
        self._groups, self._logs = frozenset(groups), list(server_logs)
        self._from_beginning, self._requests_per_s = from_beginning, requests_per_s
        self.rate = RequestRate(requests_per_s)  # of all requests to the cluster
        self.machine = GroupObserver(reads_logs=bool(self._logs))
        self.listeners: list[Callable[[Sight], None]] = []  # of each sight
        self.is_tailing = False  # what is written to `__consumer_offsets` from now on is seen
        self._noticed: set[str] = set()
        self._share_states, self._has_share_states = ShareStates(), asyncio.Event()
        self.positions: dict[TopicPartition, int] = {}  # what is read of `__consumer_offsets`

    async def run(self, stop: asyncio.Event) -> None:
        """Until the event is set. Raises KafkaError where no broker is reached at the start, and for settings and credentials
        that no broker takes."""
        describer = Describer(self._client, self.rate)
        try:
            self._see(await describer.topics())
            works = [
                self._forever(self._tail),
                self._forever(lambda: self._describe(describer)),
                self._forever(self._tick),
            ]
            works += [self._forever(self._follow_logs)] if self._logs else []
            works += [self._forever(self._tail_states)]
            works += [] if self._from_beginning else [self._forever(self._look_back)]
            tasks = [asyncio.create_task(work) for work in (*works, stop.wait())]
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            describer.close()

    async def _forever(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Again after what passes; work that ends is done for good."""
        while True:
            try:
                await work()
            except AuthenticationError:
                raise
            except KafkaError as error:
                if not error.retriable and error.code not in REFUSALS:
                    raise
                self._say(f"{error}; trying again")
                await asyncio.sleep(AGAIN_S)
            else:
                await asyncio.Event().wait()

    def _see(self, sight: Sight) -> None:
        if isinstance(sight, TopicsSeen) and SHARE_STATE_TOPIC in sight.partitions:
            self._has_share_states.set()
        for listener in self.listeners:
            listener(sight)
        for line in self.machine.see(sight):
            self._write(line)

    def _say(self, sentence: str) -> None:
        if sentence not in self._noticed:
            self._noticed.add(sentence)
            self._notice(sentence)

    def _is_wanted(self, group: str) -> bool:
        return not self._groups or group in self._groups

    async def _tail(self) -> None:
        try:
            positions, begins = self.positions, self._from_beginning
            async for sights in offsets_tail(self._client, positions, self._groups, from_beginning=begins):
                self.is_tailing = True
                for sight in sights:
                    if self._is_wanted(sight.group):
                        self._see(sight)
        except ReadRefused:
            self.machine.reads_records = False
            self._say(
                f"{OFFSETS_TOPIC} cannot be read: grant READ on the topic; until then generations are known by their "
                "descriptions alone, and neither commits nor session timeouts are"
            )

    async def _tail_states(self) -> None:
        """From when the cluster has states of share groups."""
        await self._has_share_states.wait()
        try:
            async for sights in self._share_states.tail(self._client):
                for sight in sights:
                    if self._is_wanted(sight.group):
                        self._see(sight)
        except ReadRefused:
            self._say(
                f"{SHARE_STATE_TOPIC} cannot be read: grant READ on the topic; until then lags of share groups are not known"
            )

    async def _look_back(self) -> None:
        """Generations from before: the session timeouts of members that are there, which no description has."""
        with contextlib.suppress(ReadRefused):  # of which the tail gives notice
            async for sights in stored_before(self._client, self._groups):
                for sight in sights:
                    if self._is_wanted(sight.group):
                        self._see(sight)

    async def _describe(self, describer: Describer) -> None:
        loop = asyncio.get_running_loop()
        listed_s = topics_s = float("-inf")
        while True:
            began_s = loop.time()
            if began_s - topics_s >= TOPICS_EVERY_S:
                topics_s = began_s
                self._see(await describer.topics())
            if self._groups:
                self.machine.listed(self._groups)
            elif began_s - listed_s >= LIST_EVERY_S:
                listed_s = began_s
                self.machine.listed(await describer.group_names())
            most = max(int(self._requests_per_s * ROUND_S), 1) * GROUPS_AT_ONCE
            for sight in await describer.described(self.machine.worth_describing(now_ms(), most)):
                self._see(sight)
            await asyncio.sleep(max(began_s + ROUND_S - loop.time(), 0))

    async def _tick(self) -> None:
        while True:
            self._see(Tick(now_ms()))
            await asyncio.sleep(TICK_S)

    async def _follow_logs(self) -> None:
        follower = LogFollower(self._logs, from_beginning=self._from_beginning)
        while True:
            for row in await asyncio.to_thread(follower.read):
                if self._is_wanted(row["group"]):
                    self._see(Logged(now_ms(), row))
            for sentence in follower.unreadable:
                self._say(sentence)
            await asyncio.sleep(LOGS_EVERY_S)


async def past_lines(client: dict[str, Any], group: str) -> list[JournalLine]:
    """The lines of an observer that reads the group's partition from its start, or its last million offsets. Raises
    ReadRefused, KafkaError."""
    describer = Describer(client, RequestRate(REQUESTS_PER_S))
    try:
        ids = (await describer.topics()).ids
    finally:
        describer.close()
    sights = await group_past(client, group, MOST_RECORDS)
    machine = GroupObserver()
    lines = machine.see(TopicsSeen(0, {}, ids))  # how many partitions a topic had then, its assignments tell
    for sight in sights:
        lines += machine.see(Tick(sight.time_ms)) + machine.see(sight)
    return lines + machine.see(Tick(sights[-1].time_ms + REMOVAL_WAIT_MS + 1)) if sights else lines
