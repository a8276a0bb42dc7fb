"""The stages of a member and the transitions between them; `replay` asserts the table, and the documentation draws it."""

from __future__ import annotations

from enum import Enum


class Stage(Enum):
    """Where a member stands between two generations."""

    UNJOINED = "unjoined"  # no membership is wanted
    REJOIN_NEEDED = "rejoin_needed"  # a rebalance is due; what must be revoked before it has not been yet
    REVOKING = "revoking"  # the listener's callback runs, before the rebalance
    READY = "ready"  # JoinGroup can be sent
    JOINING = "joining"
    ASSIGNING = "assigning"  # leader: the driver looks the topics up and runs the assignor
    SYNCING = "syncing"
    RELEASING = "releasing"  # cooperative: the listener's callback runs, after the rebalance; then the rest is assigned
    STABLE = "stable"
    FAILED = "failed"  # by an error without a remedy, such as FENCED_INSTANCE_ID

    __hash__ = object.__hash__  # Enum's own is Python, and every look at a member hashes its stage


NOT_TAKING_PART = frozenset({Stage.UNJOINED, Stage.FAILED})
IN_A_ROUND = frozenset({Stage.JOINING, Stage.ASSIGNING, Stage.SYNCING})
AWAITS_RESPONSE = frozenset({Stage.JOINING, Stage.SYNCING})
SETTLED = NOT_TAKING_PART | {Stage.STABLE}  # no round is under way, and none is due
# The heartbeat thread of AbstractCoordinator is disabled while a JoinGroup waits, since its response may take long.
HEARTBEATING = frozenset(Stage) - NOT_TAKING_PART - {Stage.READY, Stage.JOINING}

LEGAL_SUCCESSORS: dict[Stage, frozenset[Stage]] = {
    Stage.UNJOINED: frozenset({Stage.REJOIN_NEEDED}),
    Stage.REJOIN_NEEDED: frozenset({Stage.REVOKING, Stage.READY}) | NOT_TAKING_PART,
    Stage.REVOKING: frozenset({Stage.REJOIN_NEEDED}) | NOT_TAKING_PART,
    Stage.READY: frozenset({Stage.JOINING, Stage.UNJOINED}),
    Stage.JOINING: frozenset({Stage.READY, Stage.ASSIGNING, Stage.SYNCING, Stage.REJOIN_NEEDED}) | NOT_TAKING_PART,
    Stage.ASSIGNING: frozenset({Stage.SYNCING, Stage.REJOIN_NEEDED}) | NOT_TAKING_PART,
    Stage.SYNCING: frozenset({Stage.RELEASING, Stage.STABLE, Stage.REJOIN_NEEDED}) | NOT_TAKING_PART,
    Stage.RELEASING: frozenset({Stage.REJOIN_NEEDED}) | NOT_TAKING_PART,
    Stage.STABLE: frozenset({Stage.REJOIN_NEEDED}) | NOT_TAKING_PART,
    Stage.FAILED: frozenset({Stage.REJOIN_NEEDED, Stage.UNJOINED}),
}

# The states of AbstractCoordinator.MemberState that a stage corresponds to. Kafka keeps "rejoin needed" as a flag beside
# the state, and runs the callbacks of a listener in either of two.
KAFKA_STATES: dict[Stage, tuple[str, ...]] = {
    Stage.UNJOINED: ("UNJOINED",),
    Stage.REJOIN_NEEDED: ("STABLE", "UNJOINED"),
    Stage.REVOKING: ("STABLE", "UNJOINED"),
    Stage.READY: ("STABLE", "UNJOINED"),
    Stage.JOINING: ("PREPARING_REBALANCE",),
    Stage.ASSIGNING: ("COMPLETING_REBALANCE",),
    Stage.SYNCING: ("COMPLETING_REBALANCE",),
    Stage.RELEASING: ("STABLE",),
    Stage.STABLE: ("STABLE",),
    Stage.FAILED: ("UNJOINED",),
}
