"""The settings of a member of the consumer protocol."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConsumerMemberConfig:
    """Kafka's consumer settings that membership needs; times in ms. ``member_id``: chosen by the client and kept for its life
    (KIP-1082). The session timeout and the interval of heartbeats are the broker's. ``shares``: a member of a share group
    (KIP-932), which is neither static nor reports what is assigned to it."""

    group_id: str
    member_id: str
    group_instance_id: str | None = None
    max_poll_interval_ms: int = 300_000  # also the rebalance timeout
    remote_assignor: str | None = None
    rack: str | None = None
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    shares: bool = False
