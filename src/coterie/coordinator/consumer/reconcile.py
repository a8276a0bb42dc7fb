"""Reconciliation: one step of a member from its current assignment towards the target (Kafka's CurrentAssignmentBuilder).

| state | the step |
|---|---|
| STABLE | at the target's epoch: nothing, unless the subscription changed (drop unsubscribed topics); else *advance* |
| UNREVOKED_PARTITIONS | the member still has a partition pending revocation: as STABLE at the target's epoch; else *advance* |
| UNRELEASED_PARTITIONS | *advance* |
| UNKNOWN (a newer broker's) | fenced, unless the member owns nothing: *advance* in the target's epoch |

*Advance*: keep what the target has too. Partitions to give up that the member still has: stay in the epoch,
UNREVOKED_PARTITIONS. Else take the target's epoch and every free partition of the target: UNRELEASED_PARTITIONS where
another member still has one, else STABLE.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace

from coterie.coordinator.consumer.state import ConsumerMemberState, CurrentAssignment, TopicId, TopicIdPartition
from coterie.machines.values import value
from coterie.wire.errors import ErrorCode, Refusal


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
