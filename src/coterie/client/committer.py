"""Commits and committed offsets: at the group's coordinator, looked up again when it moves; async ones in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from coterie.client.cluster import Cluster
from coterie.client.coordinator import Coordinator
from coterie.client.errors import CommitFailedError, ConfigError, KafkaError, RebalanceInProgressError
from coterie.client.listener import ConsumerInterceptor
from coterie.client.membership import Membership
from coterie.client.offsets import commit_offsets, committed_offsets
from coterie.client.retrying import Retrying
from coterie.client.types import ByPartition, OffsetAndMetadata, PartitionLike, TopicPartition
from coterie.member.commits import Verdict, may_commit, verdict
from coterie.wire.errors import ErrorCode

Offsets = ByPartition["int | OffsetAndMetadata"]
Callback = Callable[[dict[TopicPartition, int], "Exception | None"], object]

logger = logging.getLogger(__name__)


class Committer:
    """Commits for a group, as its member while ``membership`` is set."""

    def __init__(self, cluster: Cluster, group_id: str | None, interceptors: list[ConsumerInterceptor]) -> None:
        self.membership: Membership | None = None
        self.commits = 0
        self._cluster, self._group_id, self._interceptors = cluster, group_id, interceptors
        self._coordinator = Coordinator(cluster, group_id or "")
        self._pending: set[asyncio.Task[None]] = set()
        self._fenced: KafkaError | None = None
        self._stable_only = cluster.settings.committed_only

    def group_id(self) -> str:
        if self._group_id is None:
            raise ConfigError("committed offsets need a group.id")
        return self._group_id

    async def committed(self, partitions: Iterable[PartitionLike]) -> dict[TopicPartition, OffsetAndMetadata]:
        """With isolation.level=read_committed it waits for pending offsets, where the broker can say which are (Kafka 2.5;
        on an older one it goes on without, as Apache Kafka's consumer). Raises KafkaError."""
        wanted, group_id = list(partitions), self.group_id()

        async def ask(node: int) -> dict[TopicPartition, OffsetAndMetadata]:
            return await committed_offsets(self._cluster, node, group_id, wanted, require_stable=self._stable_only)

        try:
            return await self._coordinator.until_done(ask)
        except KafkaError as error:
            if not self._stable_only or error.code != ErrorCode.UNSUPPORTED_VERSION:
                raise
            logger.warning("group %s: %s; offsets of open transactions are not waited for", group_id, error)
            self._stable_only = False
            return await self._coordinator.until_done(ask)

    async def commit(self, offsets: Offsets, timeout_s: float) -> None:
        """Retried until it is made or the time is over; async commits made before are waited for first. Raises
        CommitFailedError, RebalanceInProgressError or another KafkaError."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._until_made(offsets)
        except TimeoutError as error:
            text = f"the commit was not made within {timeout_s:g} s"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text) from error

    async def _until_made(self, offsets: Offsets) -> None:
        await self.async_commits_done()
        retrying = Retrying(self._cluster.settings)
        while True:
            found = await self._once(offsets)
            if found is None:
                return
            what, error = found
            if what not in (Verdict.RETRY, Verdict.FIND_COORDINATOR):
                raise error
            await retrying.pause()

    async def async_commits_done(self) -> None:
        if self._pending:
            await asyncio.wait(self._pending)

    def close(self) -> None:
        """Cancels the commits under way."""
        for task in self._pending:
            task.cancel()

    def commit_async(self, offsets: Offsets, callback: Callback | None) -> asyncio.Task[None]:
        """Tried once; commits made one after the other arrive in that order. The task raises what `commit` would; with a
        callback it is told instead."""
        task = asyncio.create_task(self._tell(offsets, callback))
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)
        task.add_done_callback(lambda t: t.cancelled() or t.exception())
        return task

    async def _tell(self, offsets: Offsets, callback: Callback | None) -> None:
        found = (Verdict.GIVE_UP, self._fenced) if self._fenced is not None else await self._once(offsets)
        error = None if found is None else found[1]
        if callback is not None:
            try:
                callback(_plain(offsets), error)
            except Exception:
                logger.exception("the callback of a commit raised")
        elif error is not None:
            raise error

    async def _once(self, offsets: Offsets) -> tuple[Verdict, KafkaError] | None:
        """One try; None when it is made."""
        machine = None if self.membership is None else self.membership.machine
        if machine is not None:
            may = may_commit(machine)
            if may != Verdict.DONE:
                return may, _error(may, ErrorCode.REBALANCE_IN_PROGRESS, machine.generation)
        sent = ("", -1) if machine is None else (machine.member_id, machine.generation)
        instance_id = machine.config.group_instance_id if machine is not None and machine.member_id else None
        try:
            group_id = self.group_id()
            node = await self._coordinator.node()
            await commit_offsets(self._cluster, node, group_id, offsets, sent[1], sent[0], instance_id)
        except KafkaError as error:
            what = verdict(machine, error.code, sent)
            if self.membership is not None:
                self.membership.wake()
            if what == Verdict.FIND_COORDINATOR:
                self._coordinator.forget()
            failed = (
                _error(what, error.code, sent[1]) if what in (Verdict.REBALANCING, Verdict.COMMIT_FAILED) else error
            )
            if error.code == ErrorCode.FENCED_INSTANCE_ID and what == Verdict.GIVE_UP:
                self._fenced = failed
            return what, failed
        self.commits += 1
        for interceptor in self._interceptors:
            interceptor.on_commit(_plain(offsets))
        return None


def _plain(offsets: Offsets) -> dict[TopicPartition, int]:
    return {TopicPartition(*tp): o if isinstance(o, int) else o.offset for tp, o in offsets.items()}


def _error(what: Verdict, code: ErrorCode, generation: int) -> KafkaError:
    if what == Verdict.REBALANCING:
        return RebalanceInProgressError()
    return CommitFailedError(ErrorCode.UNKNOWN_MEMBER_ID if generation < 0 else code)
