"""The member machine's driver: carries its effects out over a connection of its own, so that heartbeats never queue
behind fetches, from a task of its own, so that they go out while the consumer's user does something else."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from typing import Any

from coterie.assignors import ASSIGNORS
from coterie.client.cluster import Cluster
from coterie.client.connection import answer_type
from coterie.client.errors import ConfigError, KafkaError
from coterie.client.settings import ClientSettings
from coterie.member.machine import (
    Assigned,
    AssignGroup,
    Effect,
    Failed,
    FindCoordinator,
    MemberConfig,
    MemberMachine,
    Revoke,
    Send,
    Stage,
)
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.join_group import JoinGroupRequest

LEAVE_TIMEOUT_S = 5.0
METADATA_CHECK_S = 1.0


def member_config(settings: ClientSettings, group_id: str) -> MemberConfig:
    """Raises ConfigError for settings that no member can work with."""
    names = tuple(n.strip() for n in settings["partition.assignment.strategy"].split(","))
    unknown = [n for n in names if n not in ASSIGNORS]
    if unknown:
        raise ConfigError(f"there is no assignor {unknown[0]}; there are {', '.join(ASSIGNORS)}")
    if settings["heartbeat.interval.ms"] >= settings["session.timeout.ms"]:
        raise ConfigError("heartbeat.interval.ms must be lower than session.timeout.ms")
    return MemberConfig(
        group_id,
        settings["group.instance.id"],
        settings["session.timeout.ms"],
        settings["heartbeat.interval.ms"],
        settings["max.poll.interval.ms"],
        settings["retry.backoff.ms"],
        names,
        settings["client.rack"],
    )


class Membership:
    """A consumer's place in its group. What the polling task must do is put into ``for_poll``, in order."""

    def __init__(self, cluster: Cluster, group_id: str, tell_poll: Callable[[], None]) -> None:
        self.machine = MemberMachine(member_config(cluster.settings, group_id))
        self.for_poll: list[Revoke | Assigned] = []
        self.failure: KafkaError | None = None
        self._cluster, self._tell_poll = cluster, tell_poll
        self._coordinator: int | None = None
        self._counts: dict[str, int] | None = None
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._driver: asyncio.Task[None] | None = None

    # -- what the consumer says -----------------------------------------------------------------------------------------

    def subscribe(self, topics: frozenset[str]) -> None:
        self.machine.subscribe(topics, _now_ms())
        if self._driver is None:
            self._driver = asyncio.create_task(self._drive())
            self._task(self._watch_metadata())
        self._wake.set()

    def polled(self) -> None:
        self.machine.polled(_now_ms())
        self._wake.set()

    def revoked(self) -> None:
        self.machine.revoked()
        self._wake.set()

    def is_stable(self) -> bool:
        return self.machine.stage == Stage.STABLE

    async def leave(self) -> None:
        """Ends the membership, telling the coordinator if it has to be told."""
        if self._driver is not None:
            self._driver.cancel()
        for task in list(self._tasks):
            task.cancel()
        self.machine.leave("the consumer is being closed")
        for effect in self.machine.next(_now_ms()):
            if isinstance(effect, Send):
                await asyncio.wait({asyncio.create_task(self._request(effect.request))}, timeout=LEAVE_TIMEOUT_S)

    # -- driving the machine --------------------------------------------------------------------------------------------

    async def _drive(self) -> None:
        machine = self.machine
        while True:
            while effects := machine.next(_now_ms()):
                for effect in effects:
                    self._carry_out(effect)
            due_ms = machine.next_deadline_ms()
            wait_s = None if due_ms is None else max(due_ms - _now_ms(), 0) / 1000
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), wait_s)
            self._wake.clear()

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case FindCoordinator():
                self._task(self._find())
            case Send(request):
                self._task(self._request(request))
            case AssignGroup():
                self._task(self._assign_group(effect))
            case Revoke() | Assigned():
                self.for_poll.append(effect)
                self._tell_poll()
            case Failed(code, message):
                self._fail(KafkaError(code, message))

    def _fail(self, error: KafkaError) -> None:
        self.failure = error
        self._tell_poll()

    def _task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _find(self) -> None:
        try:
            self._coordinator = await self._cluster.find_coordinator(self.machine.config.group_id)
            await self._cluster.coordinator_connection(self._coordinator)
            self.machine.coordinator_found()
        except KafkaError:
            self.machine.lookup_failed(_now_ms())
        self._wake.set()

    async def _request(self, request: Message) -> None:
        timeout_s = self._cluster.timeout_s
        if isinstance(request, JoinGroupRequest):
            # It is answered when the whole group has joined.
            timeout_s = max(timeout_s, request.rebalance_timeout_ms / 1000 + 5)
        assert self._coordinator is not None, "the machine sends only once the coordinator is found"
        try:
            connection = await self._cluster.coordinator_connection(self._coordinator)
            response = await connection.request(request, answer_type(request), timeout_s)
            self.machine.answered(request, response, _now_ms())
        except KafkaError as error:
            if error.code == ErrorCode.UNSUPPORTED_VERSION:
                self._fail(error)
            self.machine.lost_connection(request, _now_ms())
        self._wake.set()

    async def _assign_group(self, effect: AssignGroup) -> None:
        create = self._cluster.settings["allow.auto.create.topics"]
        try:
            infos = await self._cluster.refresh(effect.topics, create=create)
        except KafkaError as error:
            if not error.code.retriable:
                self._fail(error)
            self.machine.assignment_failed("the topics could not be looked up", _now_ms())
            self._wake.set()
            return
        self._counts = {name: len(infos[name].leaders) if name in infos else 0 for name in effect.topics}
        existing = {name: count for name, count in self._counts.items() if count}
        self.machine.group_assigned(ASSIGNORS[effect.protocol](existing, effect.subscribers))
        self._wake.set()

    async def _watch_metadata(self) -> None:
        """A leader looks out for topics that grew since it assigned (spec: consumer.md 3.1). The cluster asks the
        broker once every metadata.max.age.ms."""
        while True:
            await asyncio.sleep(METADATA_CHECK_S)
            if self._counts is None or not self.is_stable() or self.machine.leader != self.machine.member_id:
                continue
            with contextlib.suppress(KafkaError):
                infos = await self._cluster.topics(self._counts)
                now = {topic: len(infos[topic].leaders) if topic in infos else 0 for topic in self._counts}
                if now != self._counts:
                    self._counts = now
                    self.machine.rejoin("a topic's number of partitions changed")
                    self._wake.set()


def _now_ms() -> int:
    return int(time.monotonic() * 1000)
