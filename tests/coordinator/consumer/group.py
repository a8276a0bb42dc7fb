"""A group of the consumer protocol made of events, as `replay` gets them from the log."""

from __future__ import annotations

from typing import Any

from coterie.coordinator.consumer import events as e
from coterie.coordinator.consumer.replay import replay_consumer
from coterie.coordinator.consumer.state import (
    ConsumerGroup,
    ConsumerMember,
    ConsumerMemberState,
    ConsumerSubscription,
    CurrentAssignment,
    ResolvedRegex,
)
from tests.coordinator.consumer.test_reconcile import current, partitions


def apply(group: ConsumerGroup, *events: e.ConsumerEvent) -> ConsumerGroup:
    for event in events:
        replay_consumer(group, event, 0)
    return group


def subscribe(group: ConsumerGroup, member_id: str, *names: str, **more: Any) -> ConsumerMember:
    """The member's subscription to these topics; ``more`` as in ConsumerSubscription."""
    apply(group, e.SubscriptionStored(member_id, ConsumerSubscription(frozenset(names), **more)))
    return group.members[member_id]


def put(
    group: ConsumerGroup,
    member_id: str,
    epochs: str,
    assigned: str = "",
    pending: str = "",
    state: ConsumerMemberState = ConsumerMemberState.STABLE,
) -> CurrentAssignment:
    """The member's current assignment, as texts of `partitions`; a member that is new subscribes to nothing."""
    if member_id not in group.members:
        subscribe(group, member_id)
    stored = current(epochs, state, assigned, pending)
    apply(group, e.CurrentStored(member_id, stored))
    return stored


def target(group: ConsumerGroup, member_id: str, text: str) -> None:
    apply(group, e.TargetStored(member_id, frozenset(partitions(text))))


def resolve(group: ConsumerGroup, regex: str, *topics: str) -> None:
    apply(group, e.RegexStored(regex, ResolvedRegex(frozenset(topics), 10, 12_345)))


def remove(group: ConsumerGroup, member_id: str) -> None:
    """The three tombstones of a member."""
    apply(group, e.CurrentRemoved(member_id), e.TargetRemoved(member_id), e.SubscriptionRemoved(member_id))
