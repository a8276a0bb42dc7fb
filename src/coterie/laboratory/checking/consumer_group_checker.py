"""The invariants of a group of the consumer protocol after every step (KIP-848)."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields

from coterie.coordinator.consumer import events as c
from coterie.coordinator.consumer.state import ConsumerGroup, ConsumerGroupState
from coterie.coordinator.events import GroupRemoved
from coterie.coordinator.shard import Shard, Step

# What lives in memory alone, and is empty, or made again, in a group that was loaded.
_SOFT = frozenset({"timers", "topics_version", "resolving", "pending_order", "pending_offsets"})


def check_consumer_group(group: ConsumerGroup) -> None:
    """A group's parts agree with each other, and every member has its deadlines."""
    owners: dict[tuple[bytes, int], str] = {}
    for member in group.members.values():
        current = member.current
        assert not current.assigned.keys() & current.pending_revocation.keys(), (
            f"{member.member_id} revokes what it has"
        )
        for partition in (*current.assigned, *current.pending_revocation):
            assert partition not in owners, f"{group.group_id}: {partition} belongs to two members"
            owners[partition] = member.member_id
        for epoch in current.assigned.values():
            assert epoch <= max(current.member_epoch, 0), f"{member.member_id} got a partition in a later epoch"
        assert current.member_epoch <= max(group.assignment_epoch, 0), f"{member.member_id} is ahead of the target"
        timers = group.timers[member.member_id]
        assert 0 <= timers.queued_ms <= timers.deadline_ms, f"{member.member_id}'s deadline would be missed"
    topics = Counter(name for m in group.members.values() for name in m.subscription.topic_names)
    regexes = Counter(m.subscription.topic_regex for m in group.members.values() if m.subscription.topic_regex)
    counted = (group.topic_subscribers, group.regex_subscribers)
    assert (topics, regexes) == counted, f"{group.group_id}: the subscribers are counted as {counted}"
    assert owners == group.owners, f"{group.group_id}: the owners are others than the members' partitions"
    targets = [partition for target in group.target.values() for partition in target]
    assert len(targets) == len(set(targets)), f"{group.group_id}: a partition has two targets"
    assert set(group.target) <= set(group.members), f"{group.group_id}: a target for a stranger"
    assert set(group.timers) == set(group.members), f"{group.group_id}: timers of strangers"
    assert group.assignment_epoch <= group.group_epoch, f"{group.group_id}: the target is ahead of the group"
    for instance_id, member_id in group.static_members.items():
        assert group.members[member_id].subscription.instance_id == instance_id
    reconciled = all(m.current.is_reconciled_to(group.assignment_epoch) for m in group.members.values())
    if group.phase == ConsumerGroupState.STABLE:
        assert reconciled, f"{group.group_id} is Stable and a member is not"
    if group.phase == ConsumerGroupState.RECONCILING:
        assert not reconciled, f"{group.group_id} is Reconciling and every member is"


class EpochChecker:
    """The epoch of a group never falls, and neither does a member's, but where it joins again or leaves for a while."""

    def __init__(self) -> None:
        self._groups: dict[str, int] = {}
        self._members: dict[tuple[str, str], int] = {}

    def check(self, step: Step) -> None:
        """Group epochs rise, no target is ahead of its group, and no member's epoch goes back."""
        event = step.event
        if isinstance(event, c.GroupEpochRemoved | GroupRemoved):
            self._groups.pop(step.group_id, None)
        highest = self._groups.get(step.group_id)  # None: nothing was seen of it, as after a failover
        if isinstance(event, c.GroupEpochStored):
            assert highest is None or event.epoch > highest, f"{step.group_id}: epoch {event.epoch} after {highest}"
            self._groups[step.group_id] = event.epoch
        elif isinstance(event, c.TargetEpochStored):
            late = highest is not None and event.epoch > highest
            assert not late, f"{step.group_id}: a target of epoch {event.epoch} in epoch {highest}"
        elif isinstance(event, c.CurrentRemoved):
            self._members.pop((step.group_id, event.member_id), None)
        elif isinstance(event, c.CurrentStored):
            key, epoch = (step.group_id, event.member_id), event.current.member_epoch
            before = self._members.get(key, 0)
            assert epoch <= 0 or epoch >= before, f"{event.member_id}: epoch {epoch} after {before}"
            self._members[key] = max(epoch, before)


def check_loaded(shard: Shard, again: Shard) -> None:
    """``again``, loaded from the log, has each group of the consumer protocol as it is."""
    for group_id, group in shard.of_kind(ConsumerGroup).items():
        if group.has_no_state():
            continue
        loaded = again.of_kind(ConsumerGroup).get(group_id)
        assert loaded is not None, f"{group_id} is not in the log"
        for field in fields(ConsumerGroup):
            if field.compare and field.name not in _SOFT:
                live, read = getattr(group, field.name), getattr(loaded, field.name)
                assert live == read, f"{group_id}: by the log {field.name} is {read}, by the group {live}"
    for group_id in again.of_kind(ConsumerGroup):
        assert group_id in shard.of_kind(ConsumerGroup), f"{group_id} is in the log, and gone"
