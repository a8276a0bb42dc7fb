"""A classic group from one generation to the next: the ownership of its partitions, as its coordinator knows it (what moved,
what is unowned and for how long, by the definitions of `coterie.machines.ownership`); and who came, went, returned under
another member id, or subscribes to other topics, by its stored states.

The coordinator sees neither a revocation nor a death. Members of an eager protocol revoke everything when a rebalance starts,
those of a cooperative one what their new assignment lacks; a member whose session timed out died with its last heartbeat.  Used
by the journal, by the observer, and by `pipeline/history` for groups without a journal.

A member's subscription also holds what it owned in the generation before (KIP-429), which changes with each rebalance of a
cooperative group: topics are compared, and bytes only where they are no consumer's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from coterie.assignors import is_cooperative
from coterie.assignors.blobs import decode_assignment, decode_subscribed_topics
from coterie.coordinator.state import CONSUMER, Group, TopicPartition
from coterie.machines.ownership import OwnerChange, PartitionOwners, UnownedTimes, count_moved
from coterie.wire.messages.stored.consumer_offsets import GroupMetadataValue, MemberMetadata
from coterie.wire.primitives import WireError


class GenerationChange(NamedTuple):
    """What a generation changed. ``moved`` and ``unowned``: how many partitions moved, and how many had an owner before and
    have none now. Times in ms, summed over the partitions whose unowned time ended with this generation; ``undetected_ms``
    is the part in which the owner's death was not noticed."""

    changes: list[OwnerChange]
    moved: int
    unowned: int
    unowned_ms: int
    undetected_ms: int


@dataclass(slots=True)
class GroupOwnership:
    """One group's. Times in ms."""

    partitions: PartitionOwners = field(default_factory=PartitionOwners)
    times: UnownedTimes = field(default_factory=UnownedTimes)
    _owned: dict[str, list[TopicPartition]] | None = None  # the partitions by owner, once that is needed
    _sessions_ms: dict[str, int] = field(default_factory=dict)
    _is_cooperative: bool = False
    _started_ms: int | None = None
    _last_end_ms: int | None = None  # of the members that were removed since the last generation

    def loaded(self, group: Group) -> None:
        """Takes the owners from a group that was loaded from the log."""
        members = group.members.values()
        self.partitions.present((m.member_id, m.group_instance_id) for m in members)
        self.partitions.assigned(owners_of((m.member_id, m.assignment) for m in members))
        self._sessions_ms = {m.member_id: m.session_timeout_ms for m in members}
        self._is_cooperative = is_cooperative(group.protocol)

    def started(self, now_ms: int) -> None:
        """A rebalance has started: each eager member revokes what it owns. In a group without members its first one has
        joined. A start that follows before a generation is stored is of the same rebalance."""
        if self._started_ms is not None:
            return
        self._started_ms = now_ms
        if not self._sessions_ms:
            self.times.came(self.partitions.last_owners, now_ms)
        elif not self._is_cooperative:
            for partition in self.partitions.owners:
                self.times.lost(partition, now_ms)

    def returned(self, members: Iterable[tuple[str, str | None]]) -> None:
        """Static members may have returned under other ids. ``members``: id and group.instance.id."""
        for member_id, new_member_id in self.partitions.present(members).items():
            self._owned = None
            if member_id in self._sessions_ms:
                self._sessions_ms[new_member_id] = self._sessions_ms.pop(member_id)

    def removed(self, member_id: str, now_ms: int, *, is_silent: bool) -> None:
        """A member was removed; ``is_silent``: because its session timed out."""
        end_ms = now_ms - (self._sessions_ms.get(member_id, 0) if is_silent else 0)
        self._last_end_ms = end_ms if self._last_end_ms is None else max(self._last_end_ms, end_ms)
        if self._owned is None:
            self._owned = {}
            for partition, owner in self.partitions.owners.items():
                self._owned.setdefault(owner, []).append(partition)
        for partition in self._owned.get(member_id, ()):
            self.times.lost(partition, end_ms, now_ms if is_silent else None)

    def stored(self, value: GroupMetadataValue, now_ms: int) -> GenerationChange:
        """A generation's assignment is stored, or that no member is left."""
        self.returned((m.member_id, m.group_instance_id) for m in value.members)
        shares = value.members if value.protocol_type == CONSUMER else []
        owners = owners_of((m.member_id, m.assignment) for m in shares)
        unowned_ms, undetected_ms = self._ended_ms(owners, now_ms, is_empty=not value.members)
        changes = self.partitions.assigned(owners)
        unowned = [change.partition for change in changes if change.owner is None]
        self._owned, self._started_ms, self._last_end_ms = None, None, None
        self._sessions_ms = {m.member_id: m.session_timeout for m in value.members}
        self._is_cooperative = is_cooperative(value.protocol)
        # What a cooperative generation revokes the next one assigns. To what else has no owner nobody is subscribed.
        is_waiting = self._is_cooperative and value.members
        self.times.wait_for(unowned if is_waiting else (), now_ms)
        return GenerationChange(changes, count_moved(changes), len(unowned), unowned_ms, undetected_ms)

    def _ended_ms(self, owners: dict[TopicPartition, str], now_ms: int, *, is_empty: bool) -> tuple[int, int]:
        """The sums of the unowned times that end now, and of their undetected parts. A partition that never had an owner has
        waited since the rebalance started."""
        times = self.times
        times.unowned_ms, times.undetected_ms = {}, 0
        for partition in owners:
            if partition not in self.partitions.owners and partition not in times.unowned_since_ms:
                times.lost(partition, now_ms if self._started_ms is None else self._started_ms)
            times.regained(partition, now_ms)
        if is_empty:
            times.emptied(now_ms if self._last_end_ms is None else self._last_end_ms)
        return sum(times.unowned_ms.values()), times.undetected_ms


def owners_of(assignments: Iterable[tuple[str, bytes]]) -> dict[TopicPartition, str]:
    """Owner of each partition, from members' ids and assignment bytes."""
    owners: dict[TopicPartition, str] = {}
    for member_id, data in assignments:
        try:
            owners.update((topic_partition, member_id) for topic_partition in decode_assignment(data))
        except WireError:
            continue  # another kind of client's own format: the group then has no owners
    return owners


class StoredChange(NamedTuple):
    """Members by their change. Of static members that ``returned``, and of members that ``resubscribed``, the state before and
    the one now."""

    joined: list[MemberMetadata]
    departed: list[MemberMetadata]
    returned: list[tuple[MemberMetadata, MemberMetadata]]
    resubscribed: list[tuple[MemberMetadata, MemberMetadata]]


def stored_change(before: GroupMetadataValue | None, now: GroupMetadataValue) -> StoredChange:
    """Members are the same by group.instance.id, or else by member id; ``before`` None: there was no group."""
    old = {member_name(m): m for m in (before.members if before is not None else ())}
    new = {member_name(m): m for m in now.members}
    both = [(old[name], m) for name, m in new.items() if name in old]
    is_consumer = now.protocol_type == CONSUMER
    return StoredChange(
        [m for name, m in new.items() if name not in old],
        [m for name, m in old.items() if name not in new],
        [(earlier, m) for earlier, m in both if earlier.member_id != m.member_id],
        [(earlier, m) for earlier, m in both if _subscription(earlier, is_consumer) != _subscription(m, is_consumer)],
    )


def member_name(member: MemberMetadata) -> str:
    """What a member keeps over a restart if it is static, and else its member id."""
    return member.group_instance_id or member.member_id


def subscribed_topics(member: MemberMetadata) -> frozenset[str] | None:
    """None for bytes that are no consumer's subscription."""
    try:
        return decode_subscribed_topics(member.subscription)
    except WireError:
        return None


def _subscription(member: MemberMetadata, is_consumer: bool) -> object:
    topics = subscribed_topics(member) if is_consumer else None
    return member.subscription if topics is None else topics
