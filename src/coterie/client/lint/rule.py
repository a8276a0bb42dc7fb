"""What a rule of `groups lint` reads and returns, for the change between the classic and the consumer protocol (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from coterie.client.admin_types import ConsumerGroupDescription, MemberDescription
from coterie.client.lint.facts import ObservedFacts

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
