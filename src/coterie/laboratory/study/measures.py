"""The costs of a run, measured alike for every protocol: readers of partitions over time, and traffic."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Measures:
    """One run's. Times in seconds.

    ``moved``, ``unowned_s`` (per partition; a stalled owner is as good as none) and ``pause_s`` (per member) are as
    `coterie.machines.ownership` defines them; ``paused_members``: how many paused. ``doubled_s``: per partition, in which two
    members read it. ``agree_s``: from a change until the last partition had found its owner, mean over the changes.
    ``idle_per_s``: messages in a second of the group at rest; ``busiest_per_s``: in the busiest second at the
    coordinator, at ZooKeeper, or at all RocketMQ brokers.
    ``false_alarms``: members taken for dead that were not; ``gave_up``: that stopped trying; ``formed``: whether the
    group had come to rest before the first change.
    """

    changes: int = 0
    rebalances: int = 0
    unowned_s: float = 0.0
    longest_unowned_s: float = 0.0
    doubled_s: float = 0.0
    pause_s: float = 0.0
    paused_members: int = 0
    moved: int = 0
    duplicates: int = 0
    agree_s: float = 0.0
    longest_agree_s: float = 0.0
    messages: int = 0
    kilobytes: float = 0.0
    idle_per_s: float = 0.0
    busiest_per_s: int = 0
    detection_s: float = 0.0
    false_alarms: int = 0
    gave_up: int = 0
    formed: int = 1
    duration_s: float = 0.0
