"""A group of the consumer protocol (KIP-848) as the heartbeats of its members show it.

The target assignment is the coordinator's alone: there are lines for what raised the group epoch and for what each member was
to revoke and was assigned. An epoch is seen with the first response that has it; its causes are the requests of members since
the epoch before: to join, to leave, or another subscription.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from coterie.coordinator.consumer.state import (
    JOIN_GROUP_EPOCH,
    LEAVE_GROUP_EPOCH,
    LEAVE_GROUP_STATIC_EPOCH,
    TopicIdPartition,
)
from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.journal.patterns import known_cause
from coterie.coordinator.state import Group
from coterie.machines.ownership import OwnerChange, PartitionOwners, count_moved
from coterie.proxy.observed.classic_group import NOT_SEEN, OBSERVED, SILENT, UNKNOWN, Evidence, SeenRequest, error_code
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.join_group import JoinGroupRequest
from coterie.wire.messages.groups.leave_group import LeaveGroupRequest

SILENT_AFTER_INTERVALS = 3  # the coordinator's session timeout is in no response
_GONE = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)
_LEAVES = (LEAVE_GROUP_EPOCH, LEAVE_GROUP_STATIC_EPOCH)


@dataclass(slots=True)
class _Consumer:
    client_id: str
    instance_id: str | None
    epoch: int = -1
    subscription: tuple[Any, ...] = ()
    assigned: frozenset[TopicIdPartition] = frozenset()
    heard_ms: int = 0
    interval_ms: int = 0
    is_classic: bool = False  # a member of the classic protocol, while the group moves from one to the other


@dataclass(slots=True)
class ObservedConsumers:
    """``topic_name`` of an id, or its hexadecimal digits."""

    group_id: str
    emit: Callable[[JournalLine], None]
    topic_name: Callable[[bytes], str]
    epoch: int = 0
    members: dict[str, _Consumer] = field(default_factory=dict)
    in_flight: list[SeenRequest] = field(default_factory=list)
    _causes: list[dict[str, str]] = field(default_factory=list)  # of the epoch to come
    _owners: PartitionOwners = field(default_factory=PartitionOwners)

    def responded(self, seen: SeenRequest, response: Any, now_ms: int) -> None:
        """A ConsumerGroupHeartbeat has its response; None where the connection ended before."""
        if seen in self.in_flight:
            self.in_flight.remove(seen)
        if response is None:
            return
        request = seen.request
        member_id = response.member_id or request.member_id
        if response.error_code in _GONE:
            self._removed(member_id, now_ms)
            return
        if response.error_code != ErrorCode.NONE:
            return
        if request.member_epoch in _LEAVES:
            self._left(seen, now_ms)
            return
        member = self.members.get(member_id) or self._joined(seen, member_id, now_ms)
        self._note_subscription(member, member_id, request)
        member.heard_ms, member.interval_ms = now_ms, response.heartbeat_interval_ms
        if response.member_epoch > self.epoch:
            self._raised(response.member_epoch, now_ms)
        self._reconciled(member, member_id, response, now_ms)

    @property
    def is_mixed(self) -> bool:
        """Whether a member is of the consumer protocol, so that the coordinator serves those of the classic one beside it."""
        return any(not member.is_classic for member in self.members.values())

    def converted(self, group: Group) -> None:
        """The group was one of the classic protocol until now, with these members."""
        for member in group.members.values():
            self.members[member.member_id] = _Consumer(
                member.client_id, member.group_instance_id, group.generation, is_classic=True
            )
        self.epoch = max(self.epoch, group.generation)

    def classic_responded(self, seen: SeenRequest, response: Any, now_ms: int) -> None:
        """A request of a classic member has its response: what it joins and leaves by."""
        request = seen.request
        if response is None or error_code(response) != ErrorCode.NONE:
            return
        if isinstance(request, LeaveGroupRequest):
            for member_id in [m.member_id for m in response.members if not m.error_code] or [request.member_id]:
                member = self.members.get(member_id)
                if member is not None:
                    self._remove(member_id, self._cause("member_left", member_id, member), now_ms)
        elif isinstance(request, JoinGroupRequest):
            if response.member_id not in self.members:
                member = self.members[response.member_id] = _Consumer(
                    seen.client_id, request.group_instance_id, is_classic=True
                )
                self._causes.append(self._cause("member_joined", response.member_id, member))
            self.members[response.member_id].epoch = response.generation_id
            if response.generation_id > self.epoch:
                self._raised(response.generation_id, now_ms)

    # -- members ------------------------------------------------------------------------------------------------------

    def _joined(self, seen: SeenRequest, member_id: str, now_ms: int) -> _Consumer:
        request = seen.request
        member = self.members[member_id] = _Consumer(seen.client_id, request.instance_id)
        member.subscription = _subscription(request)
        former = [i for i, m in self.members.items() if m is not member and m.instance_id == request.instance_id]
        if request.instance_id is not None and former:
            member.assigned = self.members.pop(former[0]).assigned
            self._line("member_replaced", now_ms, [self._cause("member_replaced", member_id, member)])
        elif request.member_epoch == JOIN_GROUP_EPOCH:
            self._causes.append(self._cause("member_joined", member_id, member))
        else:
            member.epoch = request.member_epoch  # it was in the group before anything was seen here
            self.epoch = max(self.epoch, request.member_epoch)
        self._owners.present((i, m.instance_id) for i, m in self.members.items())
        return member

    def _note_subscription(self, member: _Consumer, member_id: str, request: Any) -> None:
        subscription = _subscription(request)
        if any(part is not None for part in subscription) and subscription != member.subscription:
            member.subscription = subscription
            self._causes.append(self._cause("subscription_changed", member_id, member))

    def _left(self, seen: SeenRequest, now_ms: int) -> None:
        member = self.members.get(seen.request.member_id)
        if member is None or seen.request.member_epoch == LEAVE_GROUP_STATIC_EPOCH:
            return  # a static member that may return keeps its place
        self._remove(seen.request.member_id, self._cause("member_left", seen.request.member_id, member), now_ms)

    def _removed(self, member_id: str, now_ms: int) -> None:
        member = self.members.get(member_id)
        if member is not None:
            kind, evidence = (
                ("session_timeout", SILENT) if self._is_silent(member, now_ms) else ("member_gone", UNKNOWN)
            )
            self._remove(member_id, self._cause(kind, member_id, member, evidence), now_ms)

    def _remove(self, member_id: str, cause: dict[str, str], now_ms: int) -> None:
        member = self.members.pop(member_id)
        self._causes.append(cause)
        moved = self._owners.released(member_id, sorted(member.assigned))
        self._line("member_removed", now_ms, [cause], moved=moved)

    @staticmethod
    def _is_silent(member: _Consumer, now_ms: int) -> bool:
        return now_ms - member.heard_ms > SILENT_AFTER_INTERVALS * member.interval_ms > 0

    @staticmethod
    def _cause(kind: str, member_id: str, member: _Consumer, evidence: Evidence = OBSERVED) -> dict[str, str]:
        return known_cause(
            kind, *evidence, member_id=member_id, client_id=member.client_id, group_instance_id=member.instance_id
        )

    # -- the group ----------------------------------------------------------------------------------------------------

    def _raised(self, epoch: int, now_ms: int) -> None:
        """Without a cause that has its response: one whose response is under way, or members that are silent, or it is not
        known."""
        for other in [] if self._causes else list(self.in_flight):
            member_id = other.request.member_id
            if other.request.member_epoch in _LEAVES:
                self._left(other, now_ms)
            elif member_id and member_id not in self.members:
                self._joined(other, member_id, now_ms)
        if not self._causes:
            for member_id in [i for i, m in self.members.items() if self._is_silent(m, now_ms)]:
                self._removed(member_id, now_ms)
        self.epoch = epoch
        causes, self._causes = self._causes, []
        self._line("epoch_raised", now_ms, causes or [known_cause(NOT_SEEN, *UNKNOWN)])

    def _reconciled(self, member: _Consumer, member_id: str, response: Any, now_ms: int) -> None:
        before, epoch_before = member.assigned, member.epoch
        member.epoch = response.member_epoch
        if response.assignment is not None:
            member.assigned = frozenset(
                (t.topic_id, partition) for t in response.assignment.topic_partitions for partition in t.partitions
            )
        revoked, gained = before - member.assigned, member.assigned - before
        if revoked:
            changes = self._owners.released(member_id, sorted(revoked))
            self._line("member_revokes", now_ms, [], member_id, changes)
        if gained or (not revoked and member.epoch != epoch_before):
            self._line("member_reconciled", now_ms, [], member_id, self._owners.took(member_id, sorted(gained)))

    def _line(
        self,
        event: str,
        now_ms: int,
        causes: list[dict[str, str]],
        member_id: str | None = None,
        moved: list[OwnerChange] | None = None,
    ) -> None:
        state = self.state
        line = JournalLine(now_ms, self.group_id, self.epoch, event, state, state, causes, members=len(self.members))
        if member_id is not None:
            line.member, line.member_epoch = member_id, self.members[member_id].epoch
        if moved is not None:
            line.moved = [
                {"topic": self.topic_name(topic_id), "partition": partition, "from": before, "to": owner}
                for (topic_id, partition), before, owner in moved
            ]
            line.moved_count, line.unowned_count = count_moved(moved), sum(c.owner is None for c in moved)
        self.emit(line)

    @property
    def state(self) -> str:
        """By the epochs of the members."""
        if not self.members:
            return "Empty"
        return "Stable" if all(m.epoch == self.epoch for m in self.members.values()) else "Reconciling"


def _subscription(request: Any) -> tuple[Any, ...]:
    names = None if request.subscribed_topic_names is None else tuple(sorted(request.subscribed_topic_names))
    return names, request.subscribed_topic_regex
