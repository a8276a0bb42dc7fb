"""A round: the responses to JoinGroup and SyncGroup, and what they do to partitions; the leader's assignment, and its watch
over the topics and over partitions without an owner (scenarios: tests/spec/member/join.txt, rebalance.txt and leader.txt)."""

from __future__ import annotations

from coterie.assignors import AssignableTopics, Assignment, RebalanceProtocol, Subscriber
from coterie.assignors.assignor import handed_over
from coterie.assignors.blobs import decode_assignment, decode_subscription
from coterie.member import events as e
from coterie.member.decision import MemberDecision
from coterie.member.effects import Assigned, AssignGroup, Revoke, Send, WatchTopics
from coterie.member.remedies import apply_remedy, back_off, fail
from coterie.member.requests import PROTOCOL_TYPE, sync_request
from coterie.member.state import Stage
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.groups.join_group import JoinGroupResponse
from coterie.wire.messages.groups.sync_group import SyncGroupResponse
from coterie.wire.primitives import WireError


def decide_joined(decision: MemberDecision, request: Message, response: JoinGroupResponse, now_ms: int) -> None:
    """A follower syncs at once, a leader assigns first; errors have their remedies."""
    code = error_of(response.error_code)
    if code == ErrorCode.MEMBER_ID_REQUIRED:
        decision.record(e.MemberIdAssigned(response.member_id))
        return
    if not code and response.protocol_type not in (None, PROTOCOL_TYPE):
        code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if code:
        apply_remedy(decision, request, code, now_ms)
        return
    decision.record(
        e.GenerationJoined(
            response.member_id,
            response.generation_id,
            response.leader,
            response.protocol_name,
            withholds=bool(response.skip_assignment),
            heartbeat_due_ms=now_ms + decision.config.heartbeat_interval_ms,
        )
    )
    if decision.state.is_leader:
        _lead(decision, response)
    else:
        sync(decision, {})


def _lead(decision: MemberDecision, response: JoinGroupResponse) -> None:
    try:
        subscribers = tuple(decode_subscription(m.metadata, m.member_id, m.group_instance_id) for m in response.members)
    except WireError as error:
        fail(decision, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"a member's subscription cannot be read: {error}")
        return
    decision.record(e.SubscribersReceived(subscribers))
    topics = topics_of(subscribers)
    if response.skip_assignment:
        decision.request(WatchTopics(topics))
        sync(decision, {})
    elif response.protocol_name is None or response.protocol_name not in decision.config.assignor_specs:
        fail(decision, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"there is no assignor {response.protocol_name}")
    else:
        decision.record(e.AssignmentStarted())
        decision.request(AssignGroup(response.protocol_name, subscribers, topics))


def topics_of(subscribers: tuple[Subscriber, ...]) -> frozenset[str]:
    """The topics that any of them subscribes to."""
    return frozenset(topic for subscriber in subscribers for topic in subscriber.topics)


def sync(decision: MemberDecision, assignments: Assignment) -> None:
    """``assignments``: a leader's; a follower has none."""
    membership = decision.state.membership
    request = sync_request(
        decision.config, membership.member_id, membership.generation, membership.protocol, assignments
    )
    decision.record(e.SyncSent(request))
    decision.request(Send(request))


def decide_synced(decision: MemberDecision, request: Message, response: SyncGroupResponse, now_ms: int) -> None:
    """Takes the assignment, unless it calls for something else first: partitions to release (cooperative), another round,
    a remedy."""
    membership = decision.state.membership
    code = error_of(response.error_code)
    if not code and (
        response.protocol_type not in (None, PROTOCOL_TYPE) or response.protocol_name not in (None, membership.protocol)
    ):
        code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if code:
        apply_remedy(decision, request, code, now_ms)
        return
    try:
        partitions = tuple(decode_assignment(response.assignment))
    except WireError as error:
        fail(decision, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the assignment cannot be read: {error}")
        return
    if any(topic not in membership.topics for topic, _ in partitions):
        decision.record(e.RoundAbandoned("the assignment names a topic that is not subscribed to"))
        return
    decision.record(e.AssignmentReceived(partitions))
    if decision.state.round.withholds and decision.config.protocol == RebalanceProtocol.COOPERATIVE:
        decision.record(e.UnassignedCheckScheduled(now_ms + decision.config.session_timeout_ms))
    assigned = set(partitions)
    released = tuple(tp for tp in decision.state.ownership.owned if tp not in assigned)
    if released:
        decision.record(e.ReleaseStarted(released, "partitions were revoked for other members"))
        decision.request(Revoke(released, lost=False))
        return
    _take_assignment(decision)
    decision.record(e.RoundCompleted())


def _take_assignment(decision: MemberDecision) -> None:
    before = set(decision.state.ownership.owned)
    decision.record(e.AssignmentTaken())
    owned = decision.state.ownership.owned
    added = tuple(tp for tp in owned if tp not in before)
    decision.request(Assigned(owned, decision.state.membership.generation, added))


def decide_revoked(decision: MemberDecision) -> None:
    """The listener returned. A release ends the round: the rest of its assignment is taken, unless the generation was lost
    meanwhile. Ignored where the member has left since."""
    if not decision.state.ownership.revoking:
        return
    decision.record(e.PartitionsRevoked())
    if decision.state.stage == Stage.RELEASING:
        if decision.state.membership.generation >= 0:
            _take_assignment(decision)
        decision.record(e.RoundCompleted())


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
