"""A member's settings, and where it can stand between two generations."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from coterie.assignors import RebalanceProtocol, protocol_of


@dataclass(slots=True)
class MemberConfig:
    """Kafka's consumer settings that membership needs; times in ms. ``assignors`` in order of preference."""

    group_id: str
    group_instance_id: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    retry_backoff_ms: int = 100
    assignors: tuple[str, ...] = ("range", "cooperative-sticky")
    rack: str | None = None
    retry_backoff_max_ms: int = 1_000

    @property
    def protocol(self) -> RebalanceProtocol:
        """The one in force. Raises ValueError where the assignors share none."""
        protocol = protocol_of(self.assignors)
        if protocol is None:
            raise ValueError(
                f"the assignors {', '.join(self.assignors)} share no rebalance protocol; list fewer of them"
            )
        return protocol


class Stage(Enum):
    """Where a member stands."""

    OUTSIDE = "outside"  # no membership wanted
    REJOIN = "rejoin"  # a rebalance is due; what must be given up before it has not been yet
    REVOKING = "revoking"  # the driver is telling the listener
    READY = "ready"  # JoinGroup can go out
    JOINING = "joining"
    ASSIGNING = "assigning"  # leader: the driver looks up the topics and assigns
    SYNCING = "syncing"
    RELEASING = "releasing"  # cooperative: the listener is being told what went to others; then the rest is taken
    STABLE = "stable"
    FAILED = "failed"


NOT_TAKING_PART = frozenset({Stage.OUTSIDE, Stage.FAILED})
BEATING = frozenset({Stage.REJOIN, Stage.REVOKING, Stage.ASSIGNING, Stage.SYNCING, Stage.RELEASING, Stage.STABLE})
IN_A_ROUND = frozenset({Stage.JOINING, Stage.ASSIGNING, Stage.SYNCING})

# Where a member can go from each stage; `MemberMachine.stage` checks it, and the documentation's diagram is drawn from it.
LEGAL_SUCCESSORS: dict[Stage, frozenset[Stage]] = {
    Stage.OUTSIDE: frozenset({Stage.REJOIN}),
    Stage.REJOIN: frozenset({Stage.REVOKING, Stage.READY}) | NOT_TAKING_PART,
    Stage.REVOKING: frozenset({Stage.REJOIN}) | NOT_TAKING_PART,
    Stage.READY: frozenset({Stage.JOINING, Stage.OUTSIDE}),
    Stage.JOINING: frozenset({Stage.READY, Stage.ASSIGNING, Stage.SYNCING, Stage.REJOIN}) | NOT_TAKING_PART,
    Stage.ASSIGNING: frozenset({Stage.SYNCING, Stage.REJOIN}) | NOT_TAKING_PART,
    Stage.SYNCING: frozenset({Stage.RELEASING, Stage.STABLE, Stage.REJOIN}) | NOT_TAKING_PART,
    Stage.RELEASING: frozenset({Stage.REJOIN}) | NOT_TAKING_PART,
    Stage.STABLE: frozenset({Stage.REJOIN}) | NOT_TAKING_PART,
    Stage.FAILED: frozenset({Stage.REJOIN, Stage.OUTSIDE}),
}
