"""The leader of a group: its assignment, and its watch over the topics and over partitions without an owner (scenarios:
tests/spec/member/leader.txt)."""

from __future__ import annotations

from coterie.assignors import AssignableTopics, Assignment, RebalanceProtocol
from coterie.assignors.cooperation import handed_over
from coterie.member import events as e
from coterie.member.decision import MemberDecision
from coterie.member.decisions.remedies import back_off, fail
from coterie.member.decisions.rounds import sync
from coterie.member.stages import Stage
from coterie.wire.errors import ErrorCode


def decide_group_assigned(decision: MemberDecision, assignments: Assignment, topics: AssignableTopics) -> None:
    """Ignored where the round was abandoned while the assignor ran."""
    if decision.state.stage != Stage.ASSIGNING:
        return
    name = decision.state.membership.protocol
    assert name is not None, "a leader assigns by the assignor that the group chose"
    assigned = sum(len(partitions) for share in assignments.values() for partitions in share.values())
    decision.record(e.GroupAssigned(topics, withholds=assigned < sum(topics.counts.values())))
    cooperative = decision.config.protocol == RebalanceProtocol.COOPERATIVE
    if cooperative and not decision.config.assignor_specs[name].withholds_claimed:
        moved = handed_over(decision.state.round.subscribers, assignments)
        if moved:
            text = f"assignor {name} hands {moved[0]}-{moved[1]} over in one step; a cooperative one may not"
            fail(decision, ErrorCode.UNKNOWN_SERVER_ERROR, text)
            return
    sync(decision, assignments)


def decide_assignment_failed(decision: MemberDecision, reason: str, now_ms: int) -> None:
    """The leader joins again, and so begins a new round."""
    if decision.state.stage == Stage.ASSIGNING:
        back_off(decision, now_ms)
        decision.record(e.RoundAbandoned(reason))


def decide_topics_seen(decision: MemberDecision, topics: AssignableTopics) -> None:
    """As by ConsumerCoordinator's metadata snapshot: where the topics of the whole group differ from those of the last
    assignment, the leader joins again."""
    before = decision.state.round.metadata_snapshot
    if before is None:
        decision.record(e.MetadataSnapshotTaken(topics))
    elif decision.state.is_leader and topics != before:
        decision.record(e.MetadataSnapshotTaken(topics))
        decision.record(e.RejoinRequested("partitions or racks of the group's topics changed"))


def decide_unassigned_seen(decision: MemberDecision, unassigned: bool) -> None:
    """A static member that released partitions and died before it joined again comes back without a rebalance (KIP-345), and
    no other member would ever have them assigned."""
    if unassigned and decision.state.is_leader:
        decision.record(e.RejoinRequested("partitions have no owner"))


def decide_unassigned_unknown(decision: MemberDecision, now_ms: int) -> None:
    """The check failed; one more follows."""
    if decision.state.is_leader:
        decision.record(e.UnassignedCheckScheduled(now_ms + decision.config.session_timeout_ms))
