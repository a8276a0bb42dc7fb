"""The rebalance callbacks of a consumer: they run in the task that polls, in the order of the member's effects."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

from coterie.client.consumer.auto_commit import AutoCommit
from coterie.client.consumer.fetcher import Fetcher
from coterie.client.consumer.membership import Membership
from coterie.client.types import PartitionLike, RebalanceListener, TopicPartition, call
from coterie.member.config import GroupMembershipOperation
from coterie.member.consumer.machine import ConsumerMemberMachine
from coterie.member.effects import Assigned, Revoke

LAST_S = 0.1  # for a LeaveGroup whose time is over already


class Callbacks:
    """``revoke_timeout_s`` bounds the automatic commit before partitions are revoked."""

    def __init__(self, fetcher: Fetcher, auto_commit: AutoCommit, revoke_timeout_s: float) -> None:
        self.listener = RebalanceListener()
        self.is_last = False  # the callback before the membership ends is under way
        self.lost: set[TopicPartition] = set()  # since the last `take_lost`
        self.rebalanced_s: float | None = None  # when the last assignment arrived, by the monotonic clock
        self._fetcher, self._auto_commit, self._revoke_timeout_s = fetcher, auto_commit, revoke_timeout_s

    async def run(self, membership: Membership) -> None:
        """All that are due, in order; raises the first error once all have run."""
        first: Exception | None = None
        while membership.for_poll:
            effect = membership.for_poll[0]
            try:
                if isinstance(effect, Revoke):
                    await self._revoke(effect, membership)
                else:
                    await self._assigned(effect, membership)
            except Exception as error:
                first = first or error
            # Cancelled in the middle (testWakeupFromAssignmentCallback): the same callback runs again with the next poll.
            membership.for_poll.pop(0)
        if first is not None:
            raise first

    async def _revoke(self, effect: Revoke, membership: Membership) -> None:
        """Reported to the member once, when the callback has ended: not where it is cancelled and runs again."""
        partitions, failure = _named(effect.partitions), None
        self._fetcher.machine.in_callback(partitions, begins=True)
        lost = effect.lost or membership.machine.lost  # the membership may have ended since
        try:
            if not lost:
                await self._auto_commit.now(self._revoke_timeout_s)
                # As Kafka's ConsumerMembershipManager; its ConsumerCoordinator goes by the generation before the commit.
                lost = isinstance(membership.machine, ConsumerMemberMachine) and membership.machine.lost
            if lost:
                self.lost.update(partitions)
            await self.notify(partitions, lost=lost)
        except Exception as error:
            failure = error
        self._fetcher.drop(partitions)
        membership.listener_returned(effect, failed=failure is not None)
        if failure is not None:
            raise failure

    def take_lost(self) -> set[TopicPartition]:
        """The partitions that were lost since the last call."""
        lost, self.lost = self.lost, set()
        return lost

    async def notify(self, partitions: list[TopicPartition], *, lost: bool) -> None:
        """Calls the listener for partitions that are revoked or lost."""
        method = self.listener.on_partitions_lost if lost else self.listener.on_partitions_revoked
        await call(method(partitions))

    async def leave(
        self, membership: Membership, reason: str, operation: GroupMembershipOperation, timeout_s: float
    ) -> None:
        """The last automatic commit and the last callback, then the membership ends; raises what the listener raised. It ends
        too where the caller is cancelled, who then waits no more than LAST_S for the coordinator."""
        partitions, deadline_s = list(self._fetcher.positions), time.monotonic() + timeout_s
        is_member = membership.machine.generation >= 0
        membership.prepare_leave()
        try:
            if is_member:
                await self._auto_commit.now(timeout_s)
            self.is_last = True
            if partitions:
                await self.notify(partitions, lost=not is_member)
        except asyncio.CancelledError:
            deadline_s = 0
            raise
        finally:
            self.is_last = False
            await membership.leave(reason, max(deadline_s - time.monotonic(), LAST_S), operation)

    async def _assigned(self, effect: Assigned, membership: Membership) -> None:
        self.rebalanced_s = time.monotonic()
        self._fetcher.assign(effect.partitions)
        added = _named(effect.added)
        self._fetcher.machine.in_callback(added, begins=True)
        try:
            membership.on_assignment(effect)
            await call(self.listener.on_partitions_assigned(added))
        except Exception:
            membership.listener_returned(effect, failed=True)
            raise
        finally:
            self._fetcher.machine.in_callback(added, begins=False)
            self._fetcher.wake()
        membership.listener_returned(effect, failed=False)


def _named(partitions: Iterable[PartitionLike]) -> list[TopicPartition]:
    return [TopicPartition(*partition) for partition in partitions]
