"""Assignments and committed offsets until all replicas in sync have the group's records: members do not get the assignments
before, and readers get the offsets of before (Kafka's pendingOffsetCommits).

Kafka's group becomes stable once its record is replicated. Here decisions are in force before, and a member may repeat a
SyncGroup whose response was lost, or an error. To the next coordinator, which lacks the record, the generation is a new one: it
assigns the same partitions to others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from coterie.broker.process.scheduling import Scheduler, Timer
from coterie.broker.storage.topic import Partition
from coterie.coordinator import events as e
from coterie.coordinator.outcome import Reply
from coterie.coordinator.refusals import refuse
from coterie.coordinator.shard import Decision
from coterie.coordinator.state import CommittedOffset, TopicPartition
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from coterie.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupResponse

Before = dict[TopicPartition, CommittedOffset | None]


class _Waiting(NamedTuple):
    """A response until the high watermark is at ``end_offset``."""

    end_offset: int
    reply: Reply
    timer: Timer


class UnreplicatedAssignments:
    """The assignments of the shard of one partition. ``response`` sends responses, with an error where one has waited for
    ``timeout_ms``."""

    def __init__(
        self, partition: Partition, scheduler: Scheduler, timeout_ms: int, response: Callable[[Sequence[Reply]], None]
    ) -> None:
        self._partition, self._scheduler, self._timeout_ms, self._respond = partition, scheduler, timeout_ms, response
        self._end_offset = 0
        self._waiting: deque[_Waiting] = deque()

    def written(self) -> None:
        """The log has another record of a group than offsets, or was loaded."""
        self._end_offset = self._partition.log.end_offset

    @property
    def _replicated_offset(self) -> int:
        return self._partition.log.replicas_high_watermark or 0

    def awaiting_response(self, replies: list[Reply]) -> list[Reply]:
        """The replies that may be sent now, of a partition with replicas; assignments are sent once they are replicated."""
        if self._replicated_offset >= self._end_offset:
            return replies
        held = [reply for reply in replies if _has_assignment(reply.response)]
        for reply in held:
            timer = self._scheduler.call_later(self._timeout_ms / 1000, self._time_out)
            self._waiting.append(_Waiting(self._end_offset, reply, timer))
            self._partition.watchers[self._look] = None
        return [reply for reply in replies if reply not in held] if held else replies

    def _look(self) -> None:
        """The high watermark may have moved."""
        replies = []
        while self._waiting and self._waiting[0].end_offset <= self._replicated_offset:
            replies.append(self._next())
        self._respond(replies)

    def _time_out(self) -> None:
        """All wait equally long, so it is the first."""
        self._respond([_refused(self._next(), ErrorCode.COORDINATOR_NOT_AVAILABLE)])

    def resign(self) -> None:
        """Another broker coordinates the groups: responses that wait become NOT_COORDINATOR."""
        self._respond([_refused(self._next(), ErrorCode.NOT_COORDINATOR) for _ in range(len(self._waiting))])

    def _next(self) -> Reply:
        first = self._waiting.popleft()
        first.timer.cancel()
        if not self._waiting:
            del self._partition.watchers[self._look]
        return first.reply


def _has_assignment(response: Message) -> bool:
    return isinstance(response, SyncGroupResponse | ConsumerGroupHeartbeatResponse) and not response.error_code


def _refused(reply: Reply, code: ErrorCode) -> Reply:
    is_sync = isinstance(reply.response, SyncGroupResponse)
    return Reply(reply.token, refuse(SyncGroupRequest() if is_sync else ConsumerGroupHeartbeatRequest(), code))


class UnreplicatedOffsets:
    """The unreplicated offsets of one shard. An append is any object that stands for one."""

    def __init__(self) -> None:
        self._appends: dict[object, dict[str, Before]] = {}  # in their order; by group

    def began(self, append: object, decisions: Iterable[Decision]) -> None:
        """The decisions are written, and not in force yet."""
        of_groups: dict[str, Before] = {}
        for decision in decisions:
            for event in decision.outcome.events:
                if isinstance(event, e.OffsetStored | e.OffsetRemoved):
                    partition = event.topic, event.partition
                    before = of_groups.setdefault(decision.group.group_id, {})
                    before.setdefault(partition, decision.group.offsets.get(partition))
        if of_groups:
            self._appends[append] = of_groups

    def ended(self, append: object) -> None:
        """The append is decided."""
        self._appends.pop(append, None)

    def of_group(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset | None]:
        """The partitions whose committed offset not all replicas in sync have, with the one that they all have."""
        before: Before = {}
        for of_groups in self._appends.values():
            for partition, committed in of_groups.get(group_id, {}).items():
                before.setdefault(partition, committed)
        return before
