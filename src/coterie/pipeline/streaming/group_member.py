"""A member of a group whose partitions change only at a trigger boundary, between two batches.

Heartbeats and rounds of the group run on a loop in a thread of their own (`client/consumer/membership`); what was revoked or
assigned waits until `settle` takes it up. No Spark here.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

from coterie.client.connection.cluster import Cluster
from coterie.client.consumer.committer import Committer
from coterie.client.consumer.consumer_membership import make_membership
from coterie.client.consumer.membership import Membership
from coterie.client.errors import CommitFailedError, RebalanceInProgressError
from coterie.client.settings.settings import ClientSettings
from coterie.client.types import OffsetAndMetadata
from coterie.consuming.commits.verdicts import CommitPurpose
from coterie.consuming.committed_offsets import OwnedOffsets
from coterie.member.effects import Assigned, Revoke, TopicPartition

R = TypeVar("R")
LEAVE_S = 5.0
COMMIT_AGAIN_S = 0.05  # after a commit that a rebalance refused

Starting = Callable[[list[TopicPartition]], dict[TopicPartition, int]]


class GroupMember:
    """Joins with the first `settle`. ``starting`` gives the first offset of partitions without a committed one."""

    def __init__(self, settings: ClientSettings, starting: Starting) -> None:
        self._offsets = OwnedOffsets()
        self.positions = self._offsets.positions  # what is owned, and where its next batch begins
        self.epochs = self._offsets.epochs  # of the leaders up to those positions, -1 where it is unknown
        self._generation = -1  # the last whose assignment was taken up
        self._settings, self._starting = settings, starting
        self._poll_again_s = settings.max_poll_interval_ms / 2000  # or the member leaves while it waits
        self._changed = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._membership: Membership | None = None
        self._committer: Committer | None = None
        self._cluster: Cluster | None = None

    @property
    def identity(self) -> tuple[str, int]:
        """Member id and generation."""
        machine = self._member.machine
        return machine.member_id, machine.generation

    @property
    def _member(self) -> Membership:
        assert self._membership is not None, "settle joins first"
        return self._membership

    def join(self, topics: Iterable[str], pattern: str | None) -> None:
        """Only requests it; `settle` waits."""
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="coterie-group-member", daemon=True).start()
        self._run(self._start(list(topics), pattern))

    async def _start(self, topics: list[str], pattern: str | None) -> None:
        group_id = self._settings.group_id
        assert group_id is not None, "mode=group is refused without kafka.group.id"
        self._cluster = Cluster(self._settings)
        self._committer = Committer(self._cluster, group_id, [])
        self._membership = make_membership(self._cluster, group_id, self._changed.set)
        self._committer.membership = self._membership
        if pattern is None:
            self._membership.subscribe(topics)
        else:
            self._membership.subscribe_pattern(_anywhere(pattern))

    def _run(self, work: Awaitable[R]) -> R:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(_awaited(work), self._loop).result()

    def settle(self, processed: Mapping[TopicPartition, int], patience_s: float) -> bool:
        """At a trigger boundary: commits ``processed`` and applies revocations and assignments. True when the member is part
        of a stable generation; False when it was not within ``patience_s``: call again, nothing is lost. Raises
        KafkaError when the membership failed for good."""
        deadline_s = time.monotonic() + patience_s
        while True:
            self._changed.clear()
            self._run(self._polled())
            membership = self._member
            failure = membership.failure or membership.complaint
            if failure is not None:
                membership.complaint = None
                raise failure
            done = self._commit(self._offsets.to_commit(processed, self._lost()))
            if done and membership.for_poll:
                self._take_up()
            if done and membership.is_stable() and membership.keeps_assignment_of(self._generation):
                done = self._commit(self._offsets.starts())  # so that another start at the latest offset skips nothing
                if done:
                    return True
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return False
            self._changed.wait(min(left_s, self._poll_again_s if done else COMMIT_AGAIN_S))

    async def _polled(self) -> None:
        self._member.polled()

    def _lost(self) -> set[TopicPartition]:
        membership, waiting = self._member, self._member.for_poll
        revoked = [e for e in waiting if isinstance(e, Revoke) and (e.lost or membership.machine.lost)]
        return {tp for e in revoked for tp in e.partitions}

    def _commit(self, new: Mapping[TopicPartition, int]) -> bool:
        """False while the round of a rebalance forbids it."""
        if not new:
            return True
        assert self._committer is not None
        try:
            timeout_s = self._settings.default_api_timeout_ms / 1000
            offsets = {tp: OffsetAndMetadata(offset, self.epochs[tp]) for tp, offset in new.items()}
            self._run(self._committer.commit(offsets, timeout_s, CommitPurpose.BATCH))
        except RebalanceInProgressError:
            return False
        except CommitFailedError:
            return True  # the group has moved on; the new owners read it again from the last commit
        self._offsets.commit_made(new)
        return True

    def _take_up(self) -> None:
        queue = self._member.for_poll
        while queue:
            match queue[0]:
                case Revoke(partitions):
                    self._offsets.revoked(partitions)
                case Assigned(partitions, generation):
                    self._own(partitions)
                    self._generation = generation
                    # At once, also where a rebalance has begun already: the next owner may be a query that begins otherwise.
                    self._commit(self._offsets.starts())
            self._run(self._taken_up(queue[0]))
            queue.pop(0)

    async def _taken_up(self, effect: Revoke | Assigned) -> None:
        self._member.listener_returned(effect, failed=False)

    def _own(self, partitions: tuple[TopicPartition, ...]) -> None:
        self._offsets.assigned(partitions)
        added = self._offsets.unknown()
        if not added:
            return
        assert self._committer is not None
        committed = self._run(self._committer.committed(added))
        new: list[TopicPartition] = [tp for tp, at in committed.items() if at.offset < 0]
        self._offsets.looked_up(committed, self._starting(new) if new else {})

    def cut(self, partition: TopicPartition, offset: int, epoch: int) -> None:
        """The partition's log lost what was at that offset and behind it; ``epoch``: its leader's."""
        self._offsets.cut(partition, offset, epoch)

    def replaced(self, beginnings: Mapping[TopicPartition, int]) -> None:
        """The topics were deleted and created again: they are read from there, which is committed at once, as in `_take_up`."""
        for partition, offset in beginnings.items():
            self._offsets.replaced(partition, offset)
        self._commit(self._offsets.starts())

    def leave(self, reason: str) -> None:
        """Leaves the group and ends the thread; waits at most some seconds."""
        loop, self._loop = self._loop, None
        if loop is None:
            return
        try:
            asyncio.run_coroutine_threadsafe(self._end(reason), loop).result(LEAVE_S + 1)
        except TimeoutError:
            pass  # no response; the session timeout removes the member
        finally:
            loop.call_soon_threadsafe(loop.stop)

    async def _end(self, reason: str) -> None:
        await self._member.leave(reason, LEAVE_S)
        assert self._cluster is not None
        self._cluster.close()


def _anywhere(pattern: str) -> re.Pattern[str]:
    """The pattern of a whole name that a name with a match anywhere has: a consumer's patterns are of whole names, those of
    subscribePattern are not."""
    flags = re.match(r"(\(\?[aiLmsux]+\))?", pattern)
    first = flags.end() if flags else 0
    return re.compile(f"{pattern[:first]}.*(?:{pattern[first:]}).*")


async def _awaited(work: Awaitable[R]) -> R:
    return await work
