"""The invariants of a group after every step, of the classic protocol and of the consumer protocol (KIP-848).

A violation is an AssertionError: a bug of the core, never of a scenario.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from dataclasses import fields

from coterie.coordinator.consumer import events as c
from coterie.coordinator.consumer.state import ConsumerGroup, ConsumerGroupState
from coterie.coordinator.events import GroupRemoved, OffsetStored
from coterie.coordinator.journal.generations import owners_of
from coterie.coordinator.shard import Decision, Shard, Step
from coterie.coordinator.state import LEGAL_PREDECESSORS, Group, Phase, Token

# What lives in memory alone, and is empty, or made again, in a group that was loaded.
_SOFT = frozenset({"timers", "topics_version", "resolving", "pending_order", "pending_offsets"})


class Ledger:
    """The tokens of requests: each has exactly one response."""

    def __init__(self) -> None:
        self.open: set[Token] = set()
        self.responded: set[Token] = set()

    def requested(self, token: Token) -> None:
        assert token not in self.open, f"token {token} was submitted twice"
        assert token not in self.responded, f"token {token} was used before"
        self.open.add(token)

    def respond(self, token: Token) -> None:
        """The token has its response. Raises AssertionError where it was not open."""
        assert token not in self.responded, f"token {token} had two responses"
        assert token in self.open, f"token {token} was never submitted"
        self.open.discard(token)
        self.responded.add(token)

    def forgotten(self, tokens: set[Token]) -> None:
        """The connections of these requests broke, so their responses are no longer due."""
        self.open -= tokens

    def check_parked(self, shard: Shard, writing: Set[Token] = frozenset()) -> None:
        """Everything unanswered waits somewhere in a group, or, of ``writing``, for its records to be written; and nothing
        waits twice."""
        parked = [t for g in shard.groups.values() for t in (*g.waiting_joins.values(), *g.waiting_syncs.values())]
        assert len(parked) == len(set(parked)), "a token waits in two places"
        lost = self.open - set(parked) - writing
        assert not lost, f"no response will come for {sorted(map(str, lost))}"


class GenerationChecker:
    """Generations never go back; phases change only along the table; one owner per partition and generation."""

    def __init__(self) -> None:
        self._highest: dict[str, int] = {}

    def forget(self, group_id: str) -> None:
        """The group's generations begin again."""
        self._highest.pop(group_id, None)

    def check(self, step: Step, group: Group) -> None:
        """Phases follow each other as they may, generations only rise, and no partition of a stable group has two owners."""
        before, after = step.phase_before, step.phase_after
        if before != after and isinstance(before, Phase) and isinstance(after, Phase):
            legal = before in LEGAL_PREDECESSORS[after] or before == Phase.DEAD
            assert legal, f"{step.group_id}: {before} to {after}"
        if step.phase_after == Phase.DEAD:
            self._highest.pop(step.group_id, None)
            return
        highest = self._highest.get(step.group_id, 0)
        assert step.generation >= highest, f"{step.group_id}: generation {step.generation} after {highest}"
        self._highest[step.group_id] = step.generation
        if step.phase_after == Phase.STABLE and step.phase_before != Phase.STABLE:
            owned = [tp for m in group.members.values() for tp in owners_of([(m.member_id, m.assignment)])]
            assert len(owned) == len(set(owned)), f"{step.group_id}: a partition has two owners"


def check_group(group: Group) -> None:
    """A group's parts agree with each other, and every member has a deadline."""
    for name, count in group.protocol_counts.items():
        held = sum(1 for m in group.members.values() if any(p == name for p, _ in m.protocols))
        assert count == held, f"{group.group_id}: {count} members counted for {name}, {held} have it"
    assert group.leader is None or group.leader in group.members, f"{group.group_id}: the leader is not a member"
    assert set(group.waiting_joins) <= set(group.members), f"{group.group_id}: a stranger waits to join"
    assert set(group.waiting_syncs) <= set(group.members), f"{group.group_id}: a stranger waits to sync"
    assert not set(group.reservations) & set(group.members), f"{group.group_id}: an id is both pending and a member"
    for static, member_id in group.static_members.items():
        own = group.members[member_id].group_instance_id
        assert own == static, f"{group.group_id}: {static} stands for {member_id}, whose instance id is {own}"
    for member in group.members.values():
        assert member.queued_ms >= 0, f"{group.group_id}: {member.member_id} has no deadline"
        assert member.queued_ms <= member.deadline_ms, (
            f"{group.group_id}: {member.member_id}'s deadline would be missed"
        )
    for member_id, reservation in group.reservations.items():
        assert reservation.queued_ms >= 0, f"{group.group_id}: {member_id} is reserved for ever"
    if group.phase == Phase.PREPARING:
        assert group.join_deadline_ms is not None, f"{group.group_id}: the join phase has no end"
    if group.phase in (Phase.EMPTY, Phase.DEAD):
        assert not group.members, f"{group.group_id} is {group.phase} and has members"
    if group.phase != Phase.PREPARING:
        assert not group.waiting_joins, f"{group.group_id}: a join waits in {group.phase}"
    if group.phase != Phase.COMPLETING:
        assert not group.waiting_syncs, f"{group.group_id}: a sync waits in {group.phase}"


def persisted(shard: Shard) -> dict[str, tuple[object, object]]:
    """The state that a shard must recover from its log: groups with their generation and members, and offsets."""
    kept: dict[str, tuple[object, object]] = {}
    for group in shard.groups.values():
        settled = group.phase in (Phase.STABLE, Phase.EMPTY) and (group.members or group.generation)
        members = {m.member_id: (m.group_instance_id, m.assignment) for m in group.members.values()}
        if settled or group.offsets:
            kept[group.group_id] = (
                (group.generation, group.protocol, group.leader, members) if settled else None,
                dict(group.offsets),
            )
    return kept


def check_replay(shard: Shard, again: Shard) -> None:
    """``again``, loaded from the log, has the state: settled groups whole, of the others their offsets."""
    lived, loaded = persisted(shard), persisted(again)
    for group_id, (described, offsets) in lived.items():
        assert group_id in loaded, f"{group_id} is not in the log"
        other, other_offsets = loaded[group_id]
        assert other_offsets == offsets, f"{group_id}: the log gives other offsets"
        assert described is None or other == described, f"{group_id}: by the log {other}, by the group {described}"


class OffsetChecker:
    """A committed offset, once acknowledged, survives any crash."""

    def __init__(self) -> None:
        self.acknowledged: dict[tuple[str, str, int], int] = {}

    def responded(self, decision: Decision) -> None:
        for event in decision.outcome.events:
            if isinstance(event, OffsetStored):
                self.acknowledged[decision.group.group_id, event.topic, event.partition] = event.committed.offset

    def check(self, shard: Shard) -> None:
        """Each acknowledged offset is there, or a later one."""
        for (group_id, topic, partition), offset in self.acknowledged.items():
            group = shard.group(group_id)
            held = group.offsets.get((topic, partition)) if group is not None else None
            assert held is not None, f"{group_id} lost its offset of {topic}-{partition}"
            assert held.offset >= offset, f"{group_id}: {topic}-{partition} went back from {offset} to {held.offset}"


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
