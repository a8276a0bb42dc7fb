"""A round: the responses to JoinGroup and SyncGroup, and what they do to partitions (scenarios: tests/spec/member/join.txt,
tests/spec/member/rebalance.txt)."""

from __future__ import annotations

from coterie.assignors import Assignment, RebalanceProtocol, Subscriber
from coterie.assignors.blobs import decode_assignment, decode_subscription
from coterie.member import events as e
from coterie.member.decision import MemberDecision
from coterie.member.decisions.remedies import apply_remedy, fail
from coterie.member.effects import Assigned, AssignGroup, Revoke, Send, WatchTopics
from coterie.member.requests import PROTOCOL_TYPE, sync_request
from coterie.member.stages import Stage
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
