"""The states of a member of the consumer protocol (Kafka's MemberState) and the transitions between them; `replay` asserts
the table."""

from __future__ import annotations

from enum import Enum


class ConsumerStage(Enum):
    """Where a member stands between two target assignments."""

    UNSUBSCRIBED = "unsubscribed"  # no membership is wanted
    JOINING = "joining"  # the heartbeat with epoch 0 is due, or has no response yet
    RECONCILING = (
        "reconciling"  # the target differs from the assignment in use: callbacks run, or topic ids have no name yet
    )
    ACKNOWLEDGING = "acknowledging"  # a new assignment is in use; the next heartbeat reports it, without waiting
    STABLE = "stable"
    FENCED = "fenced"  # by the coordinator: the listener loses everything, then the member joins again
    PREPARE_LEAVING = "prepare_leaving"  # the user leaves: heartbeats continue while the listener's callback runs
    LEAVING = "leaving"  # the last heartbeat is due
    STALE = "stale"  # left for want of polls: the listener loses everything, and the next poll joins again
    FATAL = "fatal"  # by an error without a remedy, such as UNRELEASED_INSTANCE_ID

    __hash__ = object.__hash__  # Enum's own is Python, and every look at a member hashes its stage


_S = ConsumerStage
IN_GROUP = frozenset({_S.RECONCILING, _S.ACKNOWLEDGING, _S.STABLE})
TAKES_TARGETS = IN_GROUP | {_S.JOINING}
HEARTBEATS = TAKES_TARGETS | {_S.PREPARE_LEAVING}

# As Kafka's, and beside them STALE to UNSUBSCRIBED: a stale member whose user unsubscribes does not join again.
CONSUMER_SUCCESSORS: dict[ConsumerStage, frozenset[ConsumerStage]] = {
    _S.UNSUBSCRIBED: frozenset({_S.JOINING}),
    _S.JOINING: frozenset({_S.RECONCILING, _S.FENCED, _S.PREPARE_LEAVING, _S.FATAL}),
    _S.RECONCILING: frozenset({_S.ACKNOWLEDGING, _S.FENCED, _S.PREPARE_LEAVING, _S.FATAL}),
    _S.ACKNOWLEDGING: frozenset({_S.STABLE, _S.RECONCILING, _S.FENCED, _S.PREPARE_LEAVING, _S.FATAL}),
    _S.STABLE: frozenset({_S.RECONCILING, _S.FENCED, _S.PREPARE_LEAVING, _S.FATAL}),
    _S.FENCED: frozenset({_S.JOINING, _S.UNSUBSCRIBED}),
    _S.PREPARE_LEAVING: frozenset({_S.LEAVING, _S.FATAL}),
    _S.LEAVING: frozenset({_S.UNSUBSCRIBED, _S.STALE}),
    _S.STALE: frozenset({_S.JOINING, _S.UNSUBSCRIBED}),
    _S.FATAL: frozenset(),
}
