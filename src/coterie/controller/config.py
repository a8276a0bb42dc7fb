"""The settings of a broker's part in the cluster."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """``registration``: what the broker's node holds. unclean.leader.election.enable and min.insync.replicas are the cluster's
    defaults for topics. ``lost_power``: the broker's folder has no clean-shutdown mark, and its machine was started since
    (another boot id): after the death of a process alone the system still has what it wrote. Or damage has left a gap in a
    log."""

    broker_id: int
    registration: str
    unclean_leader_election_enable: bool = False
    min_insync_replicas: int = 1
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_per_broker_percentage: int = 10
    leader_imbalance_check_interval_seconds: int = 300
    lost_power: bool = False
