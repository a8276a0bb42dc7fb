"""What is known of a group beside its description: from its records, its coordinator, and what its clients pushed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class MemberFacts:
    """A member; times in ms, None for what is not known. ``max_poll_interval_ms``: its rebalance timeout, which consumers set
    to it. ``commit_every_ms``: the usual time between its commits, and ``longest_commit_ms`` the longest of late.
    As its client measured (KIP-714): ``longest_poll_ms``, between two polls, and ``poll_ms``, what its code takes between
    two in the mean."""

    session_timeout_ms: int | None = None
    heartbeat_interval_ms: int | None = None
    max_poll_interval_ms: int | None = None
    commit_every_ms: int | None = None
    longest_commit_ms: int | None = None
    longest_poll_ms: int | None = None
    poll_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ObservedFacts:
    """A group: its members by id, how many records a second it commits of a partition (None: unknown), how often a
    group.instance.id came back under a new member id by the records, and why its records could not be read (None: they
    were). ``stable_ms``: since its last generation."""

    members: Mapping[str, MemberFacts] = field(default_factory=dict)
    records_per_s: float | None = None
    replaced: Mapping[str, int] = field(default_factory=dict)
    unread: str | None = None
    stable_ms: int | None = None
