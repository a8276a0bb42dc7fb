"""What a rule of `groups lint` reads and returns: what is known of a group beside its description (from its records, its
coordinator, and what its clients pushed), for the change between the classic and the consumer protocol (KIP-848) also what a
broker reports; and the values that `Admin.lint_group` returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from coterie.client.admin_types import ConsumerGroupDescription, MemberDescription

POLICY = "group.consumer.migration.policy"
MAX_SIZE = "group.consumer.max.size"
CLASSIC_MAX_SIZE = "group.max.size"
PROTOCOLS = "group.coordinator.rebalance.protocols"
SERVER_ASSIGNORS = "group.consumer.assignors"
SESSION_TIMEOUT = "group.consumer.session.timeout.ms"
HEARTBEAT_INTERVAL = "group.consumer.heartbeat.interval.ms"
INITIAL_DELAY = "group.initial.rebalance.delay.ms"
BROKER_SETTINGS = (
    POLICY,
    MAX_SIZE,
    CLASSIC_MAX_SIZE,
    PROTOCOLS,
    SERVER_ASSIGNORS,
    SESSION_TIMEOUT,
    HEARTBEAT_INTERVAL,
    INITIAL_DELAY,
)
GROUP_SESSION_TIMEOUT = "consumer.session.timeout.ms"
GROUP_HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"
GROUP_SETTINGS = (GROUP_SESSION_TIMEOUT, GROUP_HEARTBEAT_INTERVAL)


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


@dataclass(frozen=True, slots=True)
class ProtocolSupport:
    """What a broker reports beside the group: whether it serves ConsumerGroupHeartbeat, the finalized level of group.version
    (None: no features are reported), its settings and the group's as far as they may be read, and by member id the client's
    software ("NAME VERSION"), session timeout in ms and assignors, which only coterie reports; ``facts``: what is known
    besides."""

    serves: bool = True
    group_version: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    group_settings: Mapping[str, str] = field(default_factory=dict)
    software: Mapping[str, str] = field(default_factory=dict)
    session_timeouts_ms: Mapping[str, int] = field(default_factory=dict)
    assignors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    facts: ObservedFacts = field(default_factory=ObservedFacts)


@dataclass(frozen=True, slots=True)
class LintRule:
    """A rule of a change: its name, whether a finding of it blocks the change, and ``meaning``, for the documentation."""

    name: str
    blocks: bool
    meaning: str
    check: Callable[[ConsumerGroupDescription, ProtocolSupport], Observation | None]


@dataclass(frozen=True, slots=True)
class Observation:
    """What a rule observed, and what to do about it."""

    text: str
    next_step: str
    members: tuple[str, ...] = ()


def member_name(member: MemberDescription) -> str:
    """How an advice names a member: by its group.instance.id, or its member id."""
    return member.group_instance_id or member.member_id


def member_names(members: Sequence[MemberDescription]) -> tuple[str, ...]:
    """The names of several, in the order given."""
    return tuple(member_name(m) for m in members)


def group_or_broker_setting(support: ProtocolSupport, of_group: str, of_broker: str) -> int | None:
    """A number that the group may have of its own; None where neither is reported."""
    for settings, name in ((support.group_settings, of_group), (support.settings, of_broker)):
        if settings.get(name, "").isdecimal():
            return int(settings[name])
    return None


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One observation of a rule about a change: ``blocks`` where the change cannot be made while it holds, ``next_step`` in one
    sentence, and the members that it concerns, by group.instance.id or member id (none: the group as a whole)."""

    rule: str
    blocks: bool
    text: str
    next_step: str
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Advice:
    """A change of how a group rebalances: whether it is safe now, why (or why not), the members that block it, by
    group.instance.id or member id, and, of a change between the classic and the consumer protocol (KIP-848), the findings of
    its rules."""

    change: str
    safe: bool
    why: str
    blocked_by: tuple[str, ...] = ()
    findings: tuple[LintFinding, ...] = ()
