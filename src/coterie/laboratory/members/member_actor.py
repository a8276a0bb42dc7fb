"""The laboratory's consumer of the classic protocol."""

from __future__ import annotations

from coterie.assignors import ASSIGNORS, AssignableTopics
from coterie.assignors.blobs import decode_assignment, decode_subscription
from coterie.laboratory.checking.member_checker import MemberChecker
from coterie.laboratory.members.group_member_actor import GROUP, SYNC_COMMIT_MS, ActorEffect, GroupMemberActor
from coterie.member.config import MemberConfig
from coterie.member.effects import AssignGroup, LookForUnassigned
from coterie.member.machine import MemberMachine
from coterie.member.state import NOT_TAKING_PART, Stage

__all__ = ["GROUP", "SYNC_COMMIT_MS", "MemberActor"]


class MemberActor(GroupMemberActor[MemberConfig, MemberMachine]):
    """A consumer process with a `MemberMachine`."""

    def _make_machine(self) -> None:
        self._checker = MemberChecker()
        self.machine = MemberMachine(self.config, self._checker.observe if self.checks else None)

    def _check_machine(self) -> None:
        self._checker.check(self.machine)

    def topics_seen(self, topics: AssignableTopics) -> None:
        """Renewed metadata shows these topics."""
        if self.alive:
            self.machine.topics_seen(topics)
            self.pump()

    def _takes_part(self) -> bool:
        return self.machine.stage not in NOT_TAKING_PART

    def _carry_out_own(self, effect: ActorEffect) -> None:
        match effect:
            case AssignGroup(protocol, subscribers, wanted):
                counts = {t: n for t, n in self.broker.partitions.items() if t in wanted}
                topics = AssignableTopics(counts)
                self.machine.group_assigned(ASSIGNORS[protocol].assign(topics, subscribers), topics)
            case LookForUnassigned(wanted):
                self._look_for_unassigned(wanted)

    def _look_for_unassigned(self, topics: frozenset[str]) -> None:
        group = self.broker.shard.groups.get(self.config.group_id)
        if group is not None and self.broker.up and not self.cut_off():
            given = {tp for m in group.members.values() for tp in decode_assignment(m.assignment)}
            everything = {(t, p) for t in topics for p in range(self.broker.partitions.get(t, 0))}
            self.machine.unassigned_seen(bool(everything - given))
        else:
            self.machine.unassigned_unknown(self.clock_ms())

    def _check_free(self, added: tuple[tuple[str, int], ...]) -> None:
        """No other member of the group still has what we are given."""
        group = self.broker.shard.groups.get(self.config.group_id)
        if group is None or self.machine.member_id not in group.members:
            return
        for other in self.ownership.actors:
            if other is self or not other.alive or other.machine.member_id not in group.members:
                continue
            # A static member that did not join again is kept, with what it claimed when it last did (KIP-345), and learns
            # only afterwards what it has lost.
            stored = decode_subscription(group.members[other.machine.member_id].protocols[0][1]).generation
            joining = other.machine.stage == Stage.JOINING and stored == other.machine.generation
            if other.machine.generation == group.generation or joining:
                both = other.owned & set(added)
                assert not both, f"{self.name} was given {sorted(both)} while {other.name} still has it"
