"""The target assignment: what each member is to have in the end (Kafka's TargetAssignmentBuilder); and reconciliation, one step
of a member from its current assignment towards it (CurrentAssignmentBuilder).

| state | the step |
|---|---|
| STABLE | at the target's epoch: nothing, unless the subscription changed (drop unsubscribed topics); else *advance* |
| UNREVOKED_PARTITIONS | the member still has a partition pending revocation: as STABLE at the target's epoch; else *advance* |
| UNRELEASED_PARTITIONS | *advance* |
| UNKNOWN (a newer broker's) | fenced, unless the member owns nothing: *advance* in the target's epoch |

*Advance*: keep what the target has too. Partitions to give up that the member still has: stay in the epoch,
UNREVOKED_PARTITIONS. Else take the target's epoch and every free partition of the target: UNRELEASED_PARTITIONS where another
member still has one, else STABLE.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace

from coterie.assignors.server_side import ServerAssignor
from coterie.coordinator.consumer import events as e
from coterie.coordinator.consumer.image import TopicsImage
from coterie.coordinator.consumer.state import (
    ConsumerGroup,
    ConsumerMember,
    ConsumerMemberState,
    ConsumerSubscription,
    CurrentAssignment,
    ResolvedRegex,
    TopicId,
    TopicIdPartition,
)
from coterie.machines.values import value
from coterie.wire.errors import ErrorCode, Refusal

Target = frozenset[TopicIdPartition]
NO_PARTITIONS: Target = frozenset()


@dataclass(frozen=True, slots=True)
class _AssignedMember:
    """A member as a server-side assignor sees it: the ids of the topics that it subscribes to, as far as they exist, and its
    part of the last target assignment."""

    member_id: str
    topics: frozenset[TopicId]
    target: Target = NO_PARTITIONS
    instance_id: str | None = None
    rack_id: str | None = None


def subscribed_names(subscription: ConsumerSubscription, regexes: Mapping[str, ResolvedRegex]) -> frozenset[str]:
    """The topics that a member subscribes to; a regular expression that is not resolved yet matches none."""
    resolved = regexes.get(subscription.topic_regex) if subscription.topic_regex else None
    return subscription.topic_names if resolved is None else subscription.topic_names | resolved.topics


def subscribed_with(
    group: ConsumerGroup,
    without: Iterable[str],
    after: ConsumerSubscription | None,
    regexes: Mapping[str, ResolvedRegex],
) -> set[str]:
    """The topics that the group subscribes to once the members ``without`` are gone and one with ``after`` is there; in time of
    the topics, not of the members."""
    topics, expressions = Counter(group.topic_subscribers), Counter(group.regex_subscribers)
    for member_id in without:
        member = group.members.get(member_id)
        if member is not None:
            topics.subtract(member.subscription.topic_names)
            expressions[member.subscription.topic_regex] -= 1
    names = {name for name, count in topics.items() if count > 0}
    for regex, count in expressions.items():
        if count > 0 and regex in regexes:
            names |= regexes[regex].topics
    return names if after is None else names | subscribed_names(after, regexes)


def assignor_wishes(members: Iterable[ConsumerMember]) -> Counter[str | None]:
    """How many members request each assignor; None: for none."""
    return Counter(m.subscription.server_assignor for m in members)


def preferred_assignor(wishes: Counter[str | None], names: list[str]) -> str:
    """The assignor that most members request; of equals the first in the order of the broker's setting, which is also that
    of members that request none."""
    known = [name for name in names if wishes[name]]
    return max(known, key=lambda name: wishes[name]) if known else names[0]


def time_to_target_ms(computed_ms: int, interval_ms: int, now_ms: int) -> int:
    """How long until the next target assignment may be computed, the interval after the last one (KIP-1263); 0 where nothing
    is waited for: before the first one, and where the last one is more than the interval ahead, of a coordinator with another
    clock, which Kafka waits for."""
    return computed_ms + interval_ms - now_ms if computed_ms and abs(now_ms - computed_ms) < interval_ms else 0


def compute_target(
    group: ConsumerGroup,
    members: Mapping[str, ConsumerMember],
    epoch: int,
    topics: TopicsImage,
    assignors: Mapping[str, ServerAssignor],
    now_ms: int,
) -> tuple[dict[str, Target], list[e.ConsumerEvent]]:
    """The target of every member, and the events that store what differs from the present one. ``members`` are those of the
    group as they are after this heartbeat; a static member that takes another's instance id inherits its target."""
    assignor = assignors[preferred_assignor(assignor_wishes(members.values()), list(assignors))]
    by_id = {topic.topic_id: topic for topic in topics.topics.values()}
    assigned = assignor([_assigned(group, m, topics) for m in members.values()], by_id)
    target = {member_id: frozenset(assigned.get(member_id, NO_PARTITIONS)) for member_id in members}
    events: list[e.ConsumerEvent] = [
        e.TargetStored(member_id, partitions)
        for member_id, partitions in target.items()
        if group.target.get(member_id) != partitions
    ]
    events.append(e.TargetEpochStored(epoch, now_ms))
    return target, events


def target_of(group: ConsumerGroup, member_id: str, instance_id: str | None) -> Target:
    """A member's part of the last target assignment; of a static member's by its instance id."""
    owner = member_id if instance_id is None else group.static_members.get(instance_id, "")
    return group.target.get(owner, NO_PARTITIONS)


def _assigned(group: ConsumerGroup, member: ConsumerMember, topics: TopicsImage) -> _AssignedMember:
    subscription = member.subscription
    topic_ids = topics.topic_ids(subscribed_names(subscription, group.regexes))
    target = group.target.get(member.member_id)
    if target is None:
        target = target_of(group, member.member_id, subscription.instance_id)
    return _AssignedMember(member.member_id, topic_ids, target, subscription.instance_id, subscription.rack_id)


@value
class Reconciliation:
    """What a member's step depends on beside its current assignment: the target and its epoch, the ids of the topics that
    the member subscribes to, the owner of each partition, and the partitions that the member reports as its own (None: it
    reports nothing)."""

    target_epoch: int
    target: Set[TopicIdPartition]
    subscribed: Set[TopicId]
    owners: Mapping[TopicIdPartition, str]
    owned: Set[TopicIdPartition] | None = None
    subscription_changed: bool = False


def reconcile(current: CurrentAssignment, given: Reconciliation) -> CurrentAssignment:
    """The member's next current assignment; ``current`` itself where there is no step. Raises Refusal
    FENCED_MEMBER_EPOCH."""
    match current.state:
        case ConsumerMemberState.STABLE if current.member_epoch == given.target_epoch:
            return _without_unsubscribed(current, given)
        case ConsumerMemberState.UNREVOKED_PARTITIONS if _still_has(current.pending_revocation, given):
            return _without_unsubscribed(current, given)
        case ConsumerMemberState.UNKNOWN:
            if given.owned is None or given.owned:
                raise Refusal(ErrorCode.FENCED_MEMBER_EPOCH)
            return _advance(replace(current, member_epoch=given.target_epoch), given, current.member_epoch)
        case _:
            return _advance(current, given, current.member_epoch)


def _still_has(revoked: Mapping[TopicIdPartition, int], given: Reconciliation) -> bool:
    """Whether the member may still use one of these; absence of a report is not an acknowledgement."""
    return given.owned is None or any(partition in revoked for partition in given.owned)


def _without_unsubscribed(current: CurrentAssignment, given: Reconciliation) -> CurrentAssignment:
    """Revokes the partitions of topics that the member no longer subscribes to, in its epoch."""
    if not given.subscription_changed:
        return current
    kept = {p: epoch for p, epoch in current.assigned.items() if p[0] in given.subscribed}
    if len(kept) == len(current.assigned):
        return current
    dropped = {p: epoch for p, epoch in current.assigned.items() if p not in kept}
    pending = {**current.pending_revocation, **dropped}
    epoch = current.member_epoch
    if _still_has(pending, given):
        return CurrentAssignment(epoch, epoch, ConsumerMemberState.UNREVOKED_PARTITIONS, kept, pending)
    return replace(current, previous_member_epoch=epoch, assigned=kept)


def _advance(current: CurrentAssignment, given: Reconciliation, previous_epoch: int) -> CurrentAssignment:
    target = {p for p in given.target if p[0] in given.subscribed}
    if current.assigned.keys() == target:  # that of most members, when another one joins
        return CurrentAssignment(given.target_epoch, previous_epoch, ConsumerMemberState.STABLE, current.assigned)
    kept = {p: epoch for p, epoch in current.assigned.items() if p in target}
    revoked = {p: epoch for p, epoch in current.assigned.items() if p not in target}
    if revoked and _still_has(revoked, given):
        state = ConsumerMemberState.UNREVOKED_PARTITIONS
        return CurrentAssignment(current.member_epoch, previous_epoch, state, kept, revoked)
    missing = target - kept.keys()
    unreleased = {p for p in missing if p in given.owners and p not in current.pending_revocation}
    assigned = {**kept, **dict.fromkeys(sorted(missing - unreleased), given.target_epoch)}
    state = ConsumerMemberState.UNRELEASED_PARTITIONS if unreleased else ConsumerMemberState.STABLE
    return CurrentAssignment(given.target_epoch, previous_epoch, state, assigned)
