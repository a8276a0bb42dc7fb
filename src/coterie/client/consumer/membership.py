"""A consumer's membership, whatever the protocol: drives the member's machine over a connection of its own, so that heartbeats
never queue behind fetches, from a task of its own, so that they go out while the consumer's user awaits something else;
and a thread (`heartbeat_thread`) sends the heartbeats for which the loop, held by user code, would be late.
`classic_membership` and `consumer_membership` add what their machine requests beside."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from coterie.client.connection.cluster import Cluster
from coterie.client.connection.handshake import response_type
from coterie.client.consumer.heartbeat_thread import HeartbeatThread, Pulse
from coterie.client.errors import ClientBugError, KafkaError
from coterie.client.pauses import clock
from coterie.client.pauses.loop_clock import pause, until_woken
from coterie.client.types import SubscriptionPattern
from coterie.consuming.commits.verdicts import GroupMachine
from coterie.member.config import GroupMembershipOperation
from coterie.member.consumer.decision import ConsumerEffect
from coterie.member.effects import Assigned, Effect, Failed, FindCoordinator, Revoke, Send
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode

logger = logging.getLogger(__name__)

METADATA_CHECK_S = 1.0
REBALANCE_S = 10.0  # in which a rebalance is over, unless a member is missing
REFUSED_TOPIC = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION})
END_S = 0.5  # in which cancelled tasks must end


class Membership(ABC):
    """A consumer's membership. What the polling task must do is put into ``for_poll``, in order."""

    machine: GroupMachine

    def __init__(self, cluster: Cluster, group_id: str, tell_poll: Callable[[], None]) -> None:
        self.for_poll: list[Revoke | Assigned] = []
        self.failure: KafkaError | None = None  # ends the membership
        self.complaint: KafkaError | None = None  # reported once; a changed subscription may mend it
        self.counts = {"joins": 0, "syncs": 0, "heartbeats": 0, "rebalances": 0, "failed_rebalances": 0}
        self._cluster, self._group_id, self._tell_poll = cluster, group_id, tell_poll
        self._is_overdue = False
        self._unstable_since_ms: int | None = None
        self._coordinator: int | None = None
        self._pattern: re.Pattern[str] | None = None
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._driver: asyncio.Task[None] | None = None
        self._thread = HeartbeatThread(cluster.settings.client_id, self._complain, cluster.settings.security())

    # -- calls of the consumer -----------------------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str]) -> None:
        """These topics, in place of whatever was subscribed to before."""
        self._pattern = None
        self._subscribe(frozenset(topics))

    def subscribe_pattern(self, pattern: re.Pattern[str]) -> None:
        """Topics that match, now and later; internal ones only with exclude.internal.topics=false."""
        self._pattern = pattern
        self._start()
        self._task(self._match_topics())

    @abstractmethod
    def subscribe_regex(self, pattern: SubscriptionPattern) -> None:
        """Topics that match by the broker's judgement. Raises ConfigError where the protocol has no such thing."""

    def _subscribe(self, topics: frozenset[str]) -> None:
        self.complaint = None
        self.machine.subscribe(topics, now_ms())
        self._start()
        self._wake.set()

    def _start(self) -> None:
        if self._driver is None:
            self._driver = asyncio.create_task(self._drive())
            self._driver.add_done_callback(self._finished)
            self._thread.start()
            self._task(self._watch_metadata())

    def polled(self) -> None:
        """A sign of life of the user. One that comes too late is preceded by the departure that it is too late for."""
        if now_ms() > self.machine.poll_deadline_ms:
            self._pump()
        self.machine.polled(now_ms())
        self._thread.poll_deadline_s = self.machine.poll_deadline_ms / 1000
        self._is_overdue = False
        self._wake.set()

    def on_assignment(self, assigned: Assigned) -> None:  # noqa: B027 -- most protocols have nobody else to call
        """Called before the listener's callback."""

    @abstractmethod
    def listener_returned(self, effect: Revoke | Assigned, *, failed: bool) -> None:
        """From the callback of the first of ``for_poll``; ``failed``: it raised."""

    def prepare_leave(self) -> None:  # noqa: B027 -- the classic protocol has no such state
        """The callbacks before `leave` begin."""

    def wake(self) -> None:
        """The machine has had an input; its effects are carried out."""
        self._wake.set()

    def keeps_assignment_of(self, generation: int) -> bool:
        """Whether the assignment of that generation, or member epoch, is the present one."""
        return self.machine.generation == generation

    @abstractmethod
    def is_stable(self) -> bool:
        """Whether the newest assignment is in use, and nothing is under way."""

    @abstractmethod
    def enforce_rebalance(self, reason: str) -> None:
        """Asks the coordinator for a rebalance, where the protocol has such a request."""

    def abandon(self) -> None:
        """Without the event loop, which is closed: the coordinator waits for the session timeout."""
        self._thread.stop()

    async def leave(
        self, reason: str, timeout_s: float, operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT
    ) -> None:
        """Ends the membership, and notifies the coordinator if ``operation`` requests it; waits no longer than that."""
        self._thread.stop()
        ended = self._tasks | ({self._driver} if self._driver is not None else set())
        for task in ended:
            task.cancel()
        try:
            self.machine.leave(reason, operation)
            for effect in self.machine.next(now_ms()):
                if isinstance(effect, Send):
                    leaving = asyncio.create_task(self._request(effect.request))
                    ended.add(leaving)
                    leaving.add_done_callback(lambda t: t.cancelled() or t.exception())
                    await asyncio.wait({leaving}, timeout=timeout_s)
        finally:
            for task in ended:
                task.cancel()
            if ended:
                await asyncio.wait(ended, timeout=END_S)

    # -- driving the machine --------------------------------------------------------------------------------------------

    async def _drive(self) -> None:
        was_stable = False
        while True:
            self._pump()
            is_stable = self.is_stable()
            if is_stable and not was_stable:
                self._tell_poll()  # a caller may wait for the end of a rebalance
            was_stable = is_stable
            due_ms = self.machine.next_deadline_ms()
            self._thread.expect(self._pulse(due_ms))
            wait_s = None if due_ms is None else max(due_ms - now_ms(), 0) / 1000
            await until_woken(self._wake, wait_s)

    def _pump(self) -> None:
        self._warn_if_overdue()
        while effects := self.machine.next(now_ms()):
            for effect in effects:
                self._carry_out(effect)

    def _warn_if_overdue(self) -> None:
        if self._is_overdue or self.machine.generation < 0 or now_ms() <= self.machine.poll_deadline_ms:
            return
        self._is_overdue = True
        interval_ms, group = self._cluster.settings.max_poll_interval_ms, self._group_id
        text = "a member leaves group %s, and its partitions go to others: poll was not called for max.poll.interval.ms (%d)"
        logger.warning(text + "; raise that, or lower max.poll.records", group, interval_ms)

    @abstractmethod
    def _stand_in(self) -> tuple[Message, Message | None, float]:
        """The heartbeat that the thread may send, the request by which it leaves once the user's poll is overdue, if it has
        to, and the interval in seconds."""

    def _pulse(self, due_ms: int | None) -> Pulse | None:
        """The next heartbeat, for the thread to send if this loop does not."""
        machine = self.machine
        address = self._cluster.address(self._coordinator)
        if due_ms is None or address is None or not machine.owes_heartbeats() or not machine.coordinator_known:
            return None
        heartbeat, leave, interval_s = self._stand_in()
        due_s = time.monotonic() + interval_s if due_ms > now_ms() + interval_s * 1000 else due_ms / 1000
        return Pulse(address, heartbeat, due_s, interval_s, leave)

    def _carry_out(self, effect: Effect | ConsumerEffect) -> None:
        match effect:
            case FindCoordinator():
                self._task(self._find())
            case Send(request):
                self._task(self._request(request))
            case Revoke() | Assigned():
                self.counts["rebalances"] += isinstance(effect, Assigned)
                self.for_poll.append(effect)
                self._tell_poll()
            case Failed(code, message):
                self.counts["failed_rebalances"] += 1
                self._fail(KafkaError(code, message))
            case _:
                self._carry_out_own(effect)

    @abstractmethod
    def _carry_out_own(self, effect: Effect | ConsumerEffect) -> None:
        """One that only this protocol's machine has."""

    def _fail(self, error: KafkaError) -> None:
        self.failure = error
        self._tell_poll()

    def _complain(self, error: KafkaError) -> None:
        self.complaint = error
        self._tell_poll()

    def _task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        """An unexpected error surfaces in the next poll (testUncaughtExceptionInHeartbeatThread)."""
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._fail(ClientBugError(error))

    async def _find(self) -> None:
        try:
            self._coordinator = await self._cluster.find_coordinator(self._group_id)
            await self._cluster.coordinator_connection(self._coordinator)
            self.machine.coordinator_found()
        except KafkaError as error:
            if not error.retriable:
                self._complain(error)
            self.machine.lookup_failed(now_ms())
        self._wake.set()

    async def _request(self, request: Message) -> None:
        assert self._coordinator is not None, "the machine sends only once the coordinator is known"
        try:
            connection = await self._cluster.coordinator_connection(self._coordinator)
            self._check_version(request, connection.version_of(type(request)))
            response = await connection.request(request, response_type(request), self._timeout_s(request))
            code = getattr(response, "error_code", ErrorCode.NONE)
            self._cluster.waits.responded(f"the response to {type(request).__name__.removesuffix('Request')}", code)
            self._responded(request, response)
        except KafkaError as error:
            if error.code == ErrorCode.UNSUPPORTED_VERSION:
                self._unsupported(error)
            self.machine.lost_connection(request, now_ms())
        self._wake.set()

    def _timeout_s(self, request: Message) -> float:
        return self._cluster.timeout_s

    def _check_version(self, request: Message, version: int) -> None:  # noqa: B027 -- most requests may go out in any
        """Raises KafkaError UNSUPPORTED_VERSION for a request that would mean something else to an older broker."""

    def _unsupported(self, error: KafkaError) -> None:
        self._fail(error)

    @abstractmethod
    def _responded(self, request: Message, response: Message) -> None:
        """The response, counted, to the machine."""

    # -- topics -----------------------------------------------------------------------------------------------------------

    async def _watch_metadata(self) -> None:
        """New topics for a pattern, and what else the protocol wants to know of topics. The cluster sends the broker one
        request every metadata.max.age.ms."""
        pause_s = min(METADATA_CHECK_S, self._cluster.settings.metadata_max_age_ms / 1000)
        while True:
            await pause(max(pause_s, 0.01))
            if self._pattern is not None:
                await self._match_topics()
            await self._look_at_topics()
            await self._look_at_own_topics()
            self._look_at_rebalance()

    def _look_at_rebalance(self) -> None:
        """Of a member that is polled: whether it has been without a stable assignment for long."""
        what, now = f"a stable assignment in group {self._group_id}", now_ms()
        if self.is_stable() or self._is_overdue or not self.machine.coordinator_known:
            self._unstable_since_ms = None
            self._cluster.waits.succeeded(what)
            return
        self._unstable_since_ms = self._unstable_since_ms or now
        if now - self._unstable_since_ms > REBALANCE_S * 1000:
            why = "this member's next poll" if self.for_poll else "members that have not joined again"
            self._cluster.waits.failed(what, f"the rebalance waits for {why}", self._unstable_since_ms)

    async def _look_at_own_topics(self) -> None:
        """Of a member that has nothing to read: a lookup warns of topics that do not exist."""
        if self.is_stable() and not self.machine.owned:
            with contextlib.suppress(KafkaError):
                await self._cluster.topics(self.machine.topics)

    async def _look_at_topics(self) -> None:  # noqa: B027 -- only leaders of the classic protocol do
        """Called every METADATA_CHECK_S."""

    async def _match_topics(self) -> None:
        with_internal = not self._cluster.settings.exclude_internal_topics
        try:
            infos = await self._cluster.all_topics()
        except KafkaError as error:
            if not error.retriable:
                self._fail(error)
            return
        pattern = self._pattern
        if pattern is not None:
            matching = [n for n, info in infos.items() if pattern.fullmatch(n) and (with_internal or not info.internal)]
            code = ErrorCode.NONE if matching else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            self._cluster.waits.responded(f"a topic that matches {pattern.pattern}", code)
            self._subscribe(frozenset(matching))


def now_ms() -> int:
    """The clock of a member's machine, in whole milliseconds."""
    return int(clock.now_ms())
