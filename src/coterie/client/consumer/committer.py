"""Commits and committed offsets, at the group's coordinator. `consuming.commits` decides what is sent, repeated and raised;
this carries it out on the event loop."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from coterie.client.connection.cluster import COORDINATOR, Cluster, Coordinator
from coterie.client.consumer.membership import Membership
from coterie.client.errors import ClientBugError, ConfigError, KafkaError, client_error
from coterie.client.offsets.lookup_steps import commit_error
from coterie.client.offsets.offsets import committed_offsets
from coterie.client.pauses.clock import jitter, now_ms
from coterie.client.pauses.retrying import backoff_of
from coterie.client.types import ByPartition, ConsumerInterceptor, OffsetAndMetadata, PartitionLike, TopicPartition
from coterie.consuming.commits.commits import CommitEnded, Commits, SendCommit
from coterie.consuming.commits.offset_commit import CommitOffsets, Verdict, first_error
from coterie.consuming.commits.verdicts import CommitPurpose
from coterie.consuming.committed_offsets import PendingOffsets
from coterie.consuming.effects import LookUpCoordinator
from coterie.member.consumer.machine import ConsumerMemberMachine
from coterie.wire import topic_names
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.offset_commit import OffsetCommitResponse

Offsets = ByPartition["int | OffsetAndMetadata"]
Callback = Callable[[dict[TopicPartition, int], "Exception | None"], object]

logger = logging.getLogger(__name__)


class Committer:
    """Commits for a group, as its member while ``membership`` is set. ``on_ended`` is called with every result."""

    def __init__(self, cluster: Cluster, group_id: str | None, interceptors: list[ConsumerInterceptor]) -> None:
        self.commits = 0
        self.machine = Commits(cluster.known, group_id or "", backoff_of(cluster.settings))
        self.on_ended: Callable[[CommitEnded], None] | None = None
        self._cluster, self._group_id, self._interceptors = cluster, group_id, interceptors
        self._coordinator = Coordinator(cluster, group_id or "")
        self._membership: Membership | None = None
        self._results: dict[int, asyncio.Future[CommitEnded]] = {}
        self._errors: dict[int, KafkaError] = {}  # what a commit's last attempt raised
        self._tasks: set[asyncio.Task[None]] = set()
        self._async_commits: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_ms = float("inf")
        self._closed = False

    @property
    def membership(self) -> Membership | None:
        """Whose commits they are; None: those of a consumer without membership."""
        return self._membership

    @membership.setter
    def membership(self, membership: Membership | None) -> None:
        """Commits are made in its name; None: of a consumer that is not a member."""
        self._membership = membership
        self.machine.member = None if membership is None else membership.machine

    def group_id(self) -> str:
        """Raises ConfigError where there is none."""
        if self._group_id is None:
            raise ConfigError("committed offsets need a group.id")
        return self._group_id

    async def committed(self, partitions: Iterable[PartitionLike]) -> dict[TopicPartition, OffsetAndMetadata]:
        """With each isolation.level it waits for pending offsets, where the broker can say which are (Kafka 2.5; on an older
        one it goes on without, as Apache Kafka's consumer). Raises KafkaError."""
        self.group_id()
        machine = self.machine.member
        member = machine if isinstance(machine, ConsumerMemberMachine) and machine.is_in_group else None
        offsets = await committed_offsets(
            self._coordinator, list(partitions), pending=PendingOffsets.AWAITED, member=member
        )
        self._cluster.known.epochs_seen(offsets)
        return offsets

    async def commit(self, offsets: Offsets, timeout_s: float, purpose: CommitPurpose = CommitPurpose.CALL) -> None:
        """Returns once the commit is made. Raises CommitFailedError, RebalanceInProgressError or another KafkaError."""
        self.group_id()
        await self.follow(self.machine.commit(offsets, now_ms(), timeout_s * 1000, purpose), timeout_s)

    def commit_async(self, offsets: Offsets, callback: Callback | None) -> asyncio.Task[None]:
        """Tried once. The task raises what `commit` would; with a callback that is called with the error instead."""
        return self.follow_async(self.machine.commit_async(offsets), offsets, callback)

    async def follow(self, token: int, timeout_s: float) -> None:
        """Waits for a synchronous commit that was begun with the machine, and raises its error."""
        result, send = self._begin(token)
        try:
            if send is not None:
                await self._send_within(send, timeout_s)
            await self._ended(token, result)
        except asyncio.CancelledError:
            self._cancel(token)
            raise

    async def _send_within(self, effect: SendCommit, timeout_s: float) -> None:
        """Returns at the commit's timeout. On an open connection the request's own is mostly the sooner one, and enough."""
        connection = self._cluster.open_connection(effect.node_id, COORDINATOR)
        if connection is not None and self._cluster.timeout_s <= timeout_s:
            await self._send(effect)
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._send(effect)
        except TimeoutError:
            self._pump()

    def follow_async(self, token: int, offsets: Offsets, callback: Callback | None) -> asyncio.Task[None]:
        """As `commit_async`, for a commit that was begun with the machine."""
        task = asyncio.create_task(self._report(token, *self._begin(token), offsets, callback))
        self._async_commits.add(task)
        task.add_done_callback(functools.partial(self._reported, token))
        return task

    def _reported(self, token: int, task: asyncio.Task[None]) -> None:
        self._async_commits.discard(task)
        if task.cancelled():
            self._cancel(token)
        else:
            task.exception()  # the caller may not look at it

    async def async_commits_done(self) -> None:
        """Returns once no asynchronous commit is under way."""
        if self._async_commits:
            await asyncio.wait(self._async_commits)

    async def _report(
        self,
        token: int,
        result: asyncio.Future[CommitEnded],
        send: SendCommit | None,
        offsets: Offsets,
        callback: Callback | None,
    ) -> None:
        error: KafkaError | None = None
        try:
            self.group_id()
            if send is not None:
                await self._send(send)
            await self._ended(token, result)
        except KafkaError as failed:
            if callback is None:
                raise
            error = failed
        if callback is not None:
            try:
                callback(_plain(offsets), error)
            except Exception:
                logger.exception("the callback of a commit raised")

    # -- driving the machine ------------------------------------------------------------------------------------------

    def _begin(self, token: int) -> tuple[asyncio.Future[CommitEnded], SendCommit | None]:
        """The result to be, and the commit's first request, if that may go out at once: it is sent by the task that waits for
        the result, which spares a task."""
        result = self._results[token] = asyncio.get_running_loop().create_future()
        return result, self._pump(token)

    async def _ended(self, token: int, result: asyncio.Future[CommitEnded]) -> None:
        """Raises the error with which the commit ended."""
        ended = await result
        self._results.pop(token, None)
        cause = self._errors.pop(token, None)
        match ended.verdict:
            case Verdict.DONE:
                self.commits += 1
                for interceptor in self._interceptors:
                    interceptor.on_commit(_plain(ended.offsets))
            case Verdict.GIVE_UP if cause is not None:
                raise cause
            case what:
                raise commit_error(what, ended.code, ended.message or None) from cause

    def _cancel(self, token: int) -> None:
        self._results.pop(token, None)
        self._errors.pop(token, None)
        self.machine.cancel(token)
        self._pump()

    def _pump(self, own: int | None = None) -> SendCommit | None:
        """Carries the machine's effects out, and comes back at its deadline. The request of the commit ``own`` is returned,
        unless the commit has ended with it."""
        send: SendCommit | None = None
        if self._closed or self._group_id is None:
            return None
        try:
            effects = self.machine.next(now_ms())
        except Exception as bug:  # else what waits for a result would wait for ever
            self._fail(ClientBugError(bug))
            return None
        for effect in effects:
            match effect:
                case SendCommit() if effect.token == own and own in self.machine:
                    send = effect
                case SendCommit():
                    self._task(self._send(effect))
                case LookUpCoordinator():
                    self._task(self._look_up())
                case CommitEnded():
                    if self.on_ended is not None:
                        self.on_ended(effect)
                    result = self._results.get(effect.token)
                    if result is not None and not result.done():
                        result.set_result(effect)
        due_ms = self.machine.next_deadline_ms()
        if due_ms is not None and due_ms < self._timer_due_ms:
            self._arm(due_ms)
        return send

    def _arm(self, due_ms: float) -> None:
        """A timer that is set for earlier stays, and looks again then: most commits end long before their deadline."""
        if self._timer is not None:
            self._timer.cancel()
        wait_s = max(due_ms - now_ms(), 0) / 1000
        self._timer_due_ms = due_ms
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._fire)

    def _fire(self) -> None:
        self._timer_due_ms = float("inf")
        self._pump()

    def _task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look_up(self) -> None:
        code, is_final = ErrorCode.NONE, False
        try:
            await self._coordinator.node()
        except Exception as raised:
            error = client_error(raised)
            code, is_final = error.code, not error.retriable
            self._errors.update(dict.fromkeys(self._results, error))
        self.machine.coordinator_looked_up(code, now_ms(), jitter(), is_final=is_final)
        self._pump()

    async def _send(self, effect: SendCommit) -> None:
        token, cluster = effect.token, self._cluster
        self._errors.pop(token, None)
        try:
            connection = cluster.open_connection(effect.node_id, COORDINATOR)
            if connection is None:
                connection = await cluster.coordinator_connection(effect.node_id)
            response = await connection.request(
                effect.request, OffsetCommitResponse, cluster.timeout_s, highest=topic_names.OFFSET_COMMIT
            )
        except asyncio.CancelledError:
            self.machine.request_abandoned(token)
            raise
        except Exception as raised:
            error = client_error(raised)
            if token in self._results:
                self._errors[token] = error
            # Another attempt would fail as well, e.g. for an untrusted certificate, whose code is NETWORK_EXCEPTION.
            is_final = not error.retriable
            what = self.machine.request_failed(token, error.code, now_ms(), jitter(), is_final=is_final)
        else:
            try:
                what = self.machine.responded(token, response, now_ms(), jitter())
            except Exception as bug:
                self.machine.request_abandoned(token)
                self._fail(ClientBugError(bug))
                return
            cluster.waits.responded(f"a commit of group {self._group_id}", first_error(response)[0])
        if what != Verdict.DONE and self._membership is not None:
            self._membership.wake()
        self._pump()

    def close(self) -> None:
        """Ends the commits under way: those awaited raise KafkaError NETWORK_EXCEPTION."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks | self._async_commits:
            task.cancel()
        self._fail(commit_error(Verdict.GIVE_UP, ErrorCode.NETWORK_EXCEPTION, "the consumer was closed"))

    def _fail(self, error: KafkaError) -> None:
        """Ends every commit under way with that error."""
        for token, result in self._results.items():
            if not result.done():
                self.machine.cancel(token)
                self._errors[token] = error
                result.set_result(CommitEnded(token, {}, Verdict.GIVE_UP, error.code, str(error)))


def _plain(offsets: CommitOffsets) -> dict[TopicPartition, int]:
    return {TopicPartition(*tp): o if isinstance(o, int) else o[0] for tp, o in offsets.items()}
