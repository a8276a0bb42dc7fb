"""The invariants of a group after every step.

A violation is an AssertionError: a bug of the core, never of a scenario.
"""

from __future__ import annotations

from collections.abc import Set

from coterie.coordinator.events import OffsetStored
from coterie.coordinator.journal.generations import owners_of
from coterie.coordinator.shard import Decision, Shard, Step
from coterie.coordinator.state import LEGAL_PREDECESSORS, Group, Phase, Token


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
