"""The member machine's driver: carries its effects out over a connection of its own, so that heartbeats never queue
behind fetches, from a task of its own, so that they go out while the consumer's user awaits something else; and a thread
(`heartbeat_thread`) sends the heartbeats for which the loop, held by user code, would be late."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from coterie.assignors import ASSIGNORS, AssignableTopics, Assignor
from coterie.assignors.blobs import decode_assignment
from coterie.client.cluster import Cluster, TopicInfo
from coterie.client.connection import answer_type
from coterie.client.errors import ConfigError, KafkaError, unexpected
from coterie.client.heartbeat_thread import HeartbeatThread, Pulse
from coterie.client.lint import STATIC_FROM
from coterie.client.settings import ClientSettings
from coterie.member.config import MemberConfig
from coterie.member.effects import (
    Assigned,
    AssignGroup,
    Effect,
    Failed,
    FindCoordinator,
    LookForUnassigned,
    Revoke,
    Send,
    WatchTopics,
)
from coterie.member.errors import leave_refusal
from coterie.member.machine import MemberMachine
from coterie.member.requests import by_topic, heartbeat_request
from coterie.member.stages import Stage
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.describe_groups import DescribeGroupsRequest
from coterie.wire.messages.heartbeat import HeartbeatResponse
from coterie.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from coterie.wire.messages.leave_group import LeaveGroupResponse
from coterie.wire.messages.sync_group import SyncGroupResponse
from coterie.wire.primitives import WireError

logger = logging.getLogger(__name__)

METADATA_CHECK_S = 1.0
JOIN_GRACE_S = 5.0  # beyond the rebalance timeout, in which a JoinGroup may wait for the whole group
LONGEST_S = 2**31 / 1000
END_S = 0.5  # in which cancelled tasks must end
_REFUSED_TOPIC = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION})
_COUNTED = {JoinGroupResponse: "joins", SyncGroupResponse: "syncs", HeartbeatResponse: "heartbeats"}


def member_config(settings: ClientSettings, group_id: str) -> MemberConfig:
    """Raises ConfigError for settings that no member can work with."""
    if settings.heartbeat_interval_ms >= settings.session_timeout_ms:
        raise ConfigError("heartbeat.interval.ms must be lower than session.timeout.ms")
    listed = settings.partition_assignment_strategy
    specs = ASSIGNORS | {assignor.name: assignor.spec() for assignor in listed if isinstance(assignor, Assignor)}
    config = MemberConfig(
        group_id,
        settings.group_instance_id,
        settings.session_timeout_ms,
        settings.heartbeat_interval_ms,
        settings.max_poll_interval_ms,
        settings.retry_backoff_ms,
        tuple(assignor if isinstance(assignor, str) else assignor.name for assignor in listed),
        settings.client_rack,
        settings.retry_backoff_max_ms,
        specs,
    )
    try:
        _ = config.protocol
    except ValueError as error:
        raise ConfigError(f"partition.assignment.strategy: {error}") from error
    return config


class Membership:
    """A consumer's place in its group. What the polling task must do is put into ``for_poll``, in order."""

    def __init__(self, cluster: Cluster, group_id: str, tell_poll: Callable[[], None]) -> None:
        self.machine = MemberMachine(member_config(cluster.settings, group_id))
        self.for_poll: list[Revoke | Assigned] = []
        self.failure: KafkaError | None = None  # ends the membership
        self.complaint: KafkaError | None = None  # told once; a changed subscription may mend it
        self.counts = {"joins": 0, "syncs": 0, "heartbeats": 0, "rebalances": 0, "failed_rebalances": 0}
        self._cluster, self._tell_poll = cluster, tell_poll
        self._coordinator: int | None = None
        self._watched: frozenset[str] = frozenset()
        self._by_rack = False
        self._pattern: re.Pattern[str] | None = None
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._driver: asyncio.Task[None] | None = None
        self._thread = HeartbeatThread(cluster.settings.client_id, cluster.settings.security())

    # -- what the consumer says -----------------------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str]) -> None:
        self._pattern = None
        self._subscribe(frozenset(topics))

    def subscribe_pattern(self, pattern: re.Pattern[str]) -> None:
        """Topics that match, now and later; internal ones only with exclude.internal.topics=false."""
        self._pattern = pattern
        self._start()
        self._task(self._match_topics())

    def _subscribe(self, topics: frozenset[str]) -> None:
        self.complaint = None
        self.machine.subscribe(topics, _now_ms())
        self._start()
        self._wake.set()

    def _start(self) -> None:
        if self._driver is None:
            self._driver = asyncio.create_task(self._drive())
            self._driver.add_done_callback(self._finished)
            self._thread.start()
            self._task(self._watch_metadata())

    def polled(self) -> None:
        self.machine.polled(_now_ms())
        self._wake.set()

    def on_assignment(self, assigned: Assigned) -> None:
        """Calls the assignor in force, which may be a user's."""
        spec = self.machine.config.assignor_specs.get(self.machine.state.membership.protocol or "")
        if spec is not None:
            spec.on_assignment(by_topic(assigned.partitions), assigned.generation)

    def revoked(self) -> None:
        self.machine.revoked()
        self._wake.set()

    def wake(self) -> None:
        """The machine was told something: see what follows."""
        self._wake.set()

    def is_stable(self) -> bool:
        return self.machine.stage == Stage.STABLE

    async def leave(self, reason: str, timeout_s: float) -> None:
        """Ends the membership, telling the coordinator if it has to be told; waits no longer than that."""
        self._thread.stop()
        ended = self._tasks | ({self._driver} if self._driver is not None else set())
        for task in ended:
            task.cancel()
        try:
            self.machine.leave(reason)
            for effect in self.machine.next(_now_ms()):
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
        machine = self.machine
        while True:
            while effects := machine.next(_now_ms()):
                for effect in effects:
                    self._carry_out(effect)
            due_ms = machine.next_deadline_ms()
            self._thread.expect(self._pulse(due_ms))
            wait_s = None if due_ms is None else max(due_ms - _now_ms(), 0) / 1000
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()
            self._wake.clear()

    def _pulse(self, due_ms: int | None) -> Pulse | None:
        """The next heartbeat, for the thread to send if this loop does not."""
        machine, config = self.machine, self.machine.config
        address = self._cluster.address(self._coordinator)
        if due_ms is None or address is None or not machine.owes_heartbeats() or not machine.coordinator_known:
            return None
        interval_s = config.heartbeat_interval_ms / 1000
        poll_deadline_s = machine.poll_deadline_ms / 1000
        heartbeat = heartbeat_request(config, machine.member_id, machine.generation)
        due_s = time.monotonic() + interval_s if due_ms > _now_ms() + interval_s * 1000 else due_ms / 1000
        return Pulse(address, heartbeat, due_s, interval_s, poll_deadline_s)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case FindCoordinator():
                self._task(self._find())
            case Send(request):
                self._task(self._request(request))
            case AssignGroup():
                self._by_rack = any(s.rack for s in effect.subscribers)
                self._watched = effect.topics
                self._task(self._assign_group(effect))
            case WatchTopics(topics):
                self._watched = topics
            case LookForUnassigned(topics):
                self._task(self._look_for_unassigned(topics))
            case Revoke() | Assigned():
                self.counts["rebalances"] += isinstance(effect, Assigned)
                self.for_poll.append(effect)
                self._tell_poll()
            case Failed(code, message):
                self.counts["failed_rebalances"] += 1
                self._fail(KafkaError(code, message))

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
        """An error that nobody foresaw surfaces in the next poll (testUncaughtExceptionInHeartbeatThread)."""
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._fail(unexpected(error))

    async def _find(self) -> None:
        try:
            self._coordinator = await self._cluster.find_coordinator(self.machine.config.group_id)
            await self._cluster.coordinator_connection(self._coordinator)
            self.machine.coordinator_found()
        except KafkaError as error:
            if not error.retriable:
                self._complain(error)
            self.machine.lookup_failed(_now_ms())
        self._wake.set()

    async def _request(self, request: Message) -> None:
        timeout_s = self._cluster.timeout_s
        if isinstance(request, JoinGroupRequest):
            timeout_s = min(max(timeout_s, request.rebalance_timeout_ms / 1000 + JOIN_GRACE_S), LONGEST_S)
        assert self._coordinator is not None, "the machine sends only once the coordinator is found"
        try:
            connection = await self._cluster.coordinator_connection(self._coordinator)
            if isinstance(request, JoinGroupRequest):
                _check_static(request, connection.version_of(JoinGroupRequest))
            response = await connection.request(request, answer_type(request), timeout_s)
            if isinstance(response, LeaveGroupResponse):
                code = leave_refusal(response)
                if code:
                    logger.warning("leaving group %s was refused: %s", self.machine.config.group_id, code.name)
                return
            self.counts[_COUNTED.get(type(response), "heartbeats")] += 1
            self.machine.answered(request, response, _now_ms())
        except KafkaError as error:
            if error.code == ErrorCode.UNSUPPORTED_VERSION:
                self._fail(error)
            self.machine.lost_connection(request, _now_ms())
        self._wake.set()

    # -- topics -----------------------------------------------------------------------------------------------------------

    async def _assign_group(self, effect: AssignGroup) -> None:
        create = self._cluster.settings.allow_auto_create_topics
        try:
            infos = await self._cluster.refresh(effect.topics, create=create)
            for name in effect.topics & self.machine.topics:
                if name in infos and infos[name].error in _REFUSED_TOPIC:
                    self._complain(KafkaError(infos[name].error, f"topic {name}"))
        except KafkaError as error:
            if not error.retriable:
                self._fail(error)
            self.machine.assignment_failed("the topics could not be looked up", _now_ms())
            self._wake.set()
            return
        topics = self._topics(infos)
        self.machine.group_assigned(
            self.machine.config.assignor_specs[effect.protocol].assign(topics, effect.subscribers), topics
        )
        self._wake.set()

    async def _look_for_unassigned(self, topics: frozenset[str]) -> None:
        group_id = self.machine.config.group_id
        assert self._coordinator is not None
        try:
            infos = await self._cluster.topics(topics)
            response = await self._cluster.request(DescribeGroupsRequest([group_id]), self._coordinator)
            given = {tp for m in response.groups[0].members for tp in decode_assignment(m.member_assignment)}
        except (KafkaError, WireError):
            self.machine.unassigned_unknown(_now_ms())
        else:
            everything = {(t, p) for t, info in infos.items() for p in info.leaders}
            if response.groups[0].group_state == "Stable":
                self.machine.unassigned_seen(bool(everything - given))
        self._wake.set()

    def _topics(self, infos: dict[str, TopicInfo]) -> AssignableTopics:
        """What there is to assign; racks only where a member has one, so that nobody else rebalances for them."""
        infos_with_leaders = {n: infos[n] for n in self._watched if n in infos and infos[n].leaders}
        racks = {n: info.racks for n, info in infos_with_leaders.items()} if self._by_rack else {}
        return AssignableTopics({n: len(info.leaders) for n, info in infos_with_leaders.items()}, racks)

    async def _watch_metadata(self) -> None:
        """New topics for a pattern; and a leader looks out for what became of the whole group's topics. The
        cluster asks the broker once every metadata.max.age.ms."""
        pause_s = min(METADATA_CHECK_S, self._cluster.settings.metadata_max_age_ms / 1000)
        while True:
            await asyncio.sleep(max(pause_s, 0.01))
            if self._pattern is not None:
                await self._match_topics()
            if self._watched and self.is_stable() and self.machine.is_leader:
                with contextlib.suppress(KafkaError):
                    self.machine.topics_seen(self._topics(await self._cluster.topics(self._watched)))
                    self._wake.set()

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
            matching = (n for n, info in infos.items() if pattern.fullmatch(n) and (with_internal or not info.internal))
            self._subscribe(frozenset(matching))


def _check_static(request: JoinGroupRequest, version: int) -> None:
    """A broker that does not know static members would take it for a dynamic one. Raises KafkaError."""
    if request.group_instance_id is not None and version < STATIC_FROM:
        text = "group.instance.id needs JoinGroup version 5, which Apache Kafka has from 2.3 on"
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)


def _now_ms() -> int:
    return int(time.monotonic() * 1000)
