"""A member's settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from coterie.assignors import ASSIGNORS, AssignorSpec, RebalanceProtocol, protocol_of


@dataclass(slots=True)
class MemberConfig:
    """Kafka's consumer settings that membership needs; times in ms. ``assignors`` in order of preference, by their names in
    ``assignor_specs``."""

    group_id: str
    group_instance_id: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    retry_backoff_ms: int = 100
    assignors: tuple[str, ...] = ("range", "cooperative-sticky")
    rack: str | None = None
    retry_backoff_max_ms: int = 1_000
    assignor_specs: Mapping[str, AssignorSpec] = field(default_factory=lambda: ASSIGNORS)

    @property
    def protocol(self) -> RebalanceProtocol:
        """The one in force. Raises ValueError where the assignors share none."""
        protocol = protocol_of(self.assignors, self.assignor_specs)
        if protocol is None:
            raise ValueError(
                f"the assignors {', '.join(self.assignors)} share no rebalance protocol; list fewer of them"
            )
        return protocol
