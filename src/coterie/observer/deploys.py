"""A group as the laboratory predicts its deploys: what is known of it, and a phrase for each value that had to be assumed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from coterie.assignors import ASSIGNORS
from coterie.client.admin_types import ConsumerGroupDescription, GroupType
from coterie.client.lint.rule import (
    GROUP_HEARTBEAT_INTERVAL,
    GROUP_SESSION_TIMEOUT,
    HEARTBEAT_INTERVAL,
    INITIAL_DELAY,
    SESSION_TIMEOUT,
    group_or_broker_setting,
)
from coterie.laboratory.prediction import (
    CONSUMER_HEARTBEAT_MS,
    CONSUMER_SESSION_MS,
    NETWORK_MS,
    DeployedGroup,
    clock_drift,
    named,
    protocol_of,
)
from coterie.laboratory.study.group import StudySetting
from coterie.observer.group_facts import UNREAD, KnownGroupNow
from coterie.text.phrase import Phrase, PhrasedError, PhraseValue

SESSION_MS, HEARTBEAT_MS, MAX_POLL_MS = 45_000, 3_000, 300_000  # the defaults of Kafka's consumers
COMMIT_MS, INITIAL_DELAY_MS = 5_000, 3_000
RECORDS_PER_S = 100.0
JAVA = "apache-kafka-java"  # a client's name in ApiVersions


class UnpredictableGroup(PhrasedError):
    """A group whose deploys cannot be predicted."""


class PredictableGroup(NamedTuple):
    """``assumed``: a phrase for each value that is not known; ``serves_consumer``: whether its broker has the consumer
    protocol."""

    deployed: DeployedGroup
    assumed: list[Phrase]
    serves_consumer: bool


class _Assuming:
    """Takes what is known, and notes what is not."""

    def __init__(self) -> None:
        self.phrases: list[Phrase] = []

    def value(self, name: str, known: Iterable[int | None], assumed: int, why: str = "assumed_default") -> int:
        """The largest of the known values, or the assumed one."""
        values = sorted({value for value in known if value is not None})
        if not values:
            self.add(why, name=name, value=assumed)
            return assumed
        if len(values) > 1:
            self.add("assumed_largest", name=name, value=values[-1], others=", ".join(map(str, values[:-1])))
        return values[-1]

    def add(self, name: str, /, **values: PhraseValue) -> None:
        self.phrases.append(Phrase(name, values))


def predictable(
    known: KnownGroupNow, poll_ms: int | None = None, joins_in_polls: bool | None = None
) -> PredictableGroup:
    """``poll_ms``: what the members' code takes for the records of a poll, None: as measured. ``joins_in_polls``: whether their
    clients take part in a rebalance in their polls alone, None: as their software does. Raises UnpredictableGroup."""
    description, support, facts = known
    _refuse_unpredictable(description)
    assuming = _Assuming()
    if facts.unread is not None:
        assuming.phrases.append(UNREAD)
    members = [facts.members[m.member_id] for m in description.members if m.member_id in facts.members]
    is_consumer = description.type is GroupType.CONSUMER
    protocol = protocol_of(description.partition_assignor, is_consumer=is_consumer)
    session_ms, heartbeat_ms = (_of_broker if is_consumer else _of_members)(assuming, known)
    commit_ms = assuming.value("auto.commit.interval.ms", [_longest(m.commit_every_ms for m in members)], COMMIT_MS)
    polls_ms = [m.poll_ms for m in members if m.poll_ms is not None] if poll_ms is None else [poll_ms]
    if not polls_ms:
        assuming.add("assumed_short_polls")
    if facts.records_per_s is None:
        assuming.add("assumed_rate", rate=f"{RECORDS_PER_S:g}")
    slowest_ms = max(polls_ms, default=0)
    setting = StudySetting(
        "",
        protocol,
        static=_is_static(assuming, description),
        assignor="" if is_consumer else _assignor(assuming, description.partition_assignor),
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=heartbeat_ms,
        initial_delay_ms=_number(support.settings, INITIAL_DELAY) or INITIAL_DELAY_MS,
        max_poll_interval_ms=_longest(m.max_poll_interval_ms for m in members) or MAX_POLL_MS,
        auto_commit_interval_ms=commit_ms,
        poll_ms=slowest_ms,
        joins_in_polls=_joins_in_polls(assuming, known, slowest_ms) if joins_in_polls is None else joins_in_polls,
        listener_ms=0,
        network_ms=NETWORK_MS,
        clock_drift=clock_drift(facts.stable_ms, heartbeat_ms),
    )
    rate = RECORDS_PER_S if facts.records_per_s is None else facts.records_per_s
    deployed = DeployedGroup(len(description.members), len(description.owners), rate, named(setting))
    return PredictableGroup(deployed, assuming.phrases, support.serves)


def _refuse_unpredictable(description: ConsumerGroupDescription) -> None:
    of_kind = {GroupType.SHARE: "no_deploy_of_share", GroupType.STREAMS: "no_deploy_of_streams"}.get(description.type)
    if of_kind is not None or not description.members:
        raise UnpredictableGroup(of_kind or "no_deploy_of_empty", group=description.group_id)


def _longest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _of_members(assuming: _Assuming, known: KnownGroupNow) -> tuple[int, int]:
    """Session timeout and heartbeat interval of classic members."""
    members = known.facts.members.values()
    session_ms = assuming.value("session.timeout.ms", (m.session_timeout_ms for m in members), SESSION_MS)
    usual_ms = min(HEARTBEAT_MS, session_ms // 3)
    # Measured ones are a little longer, and never all alike.
    heartbeat_ms = _longest(m.heartbeat_interval_ms for m in members)
    if heartbeat_ms is None or heartbeat_ms >= session_ms:
        why = "assumed_default" if usual_ms == HEARTBEAT_MS else "assumed_third"
        heartbeat_ms = assuming.value("heartbeat.interval.ms", [], usual_ms, why)
    return session_ms, heartbeat_ms


def _of_broker(assuming: _Assuming, known: KnownGroupNow) -> tuple[int, int]:
    """Of the consumer protocol, where the broker decides."""
    support = known.support
    session_ms = group_or_broker_setting(support, GROUP_SESSION_TIMEOUT, SESSION_TIMEOUT)
    heartbeat_ms = group_or_broker_setting(support, GROUP_HEARTBEAT_INTERVAL, HEARTBEAT_INTERVAL)
    return (
        assuming.value(SESSION_TIMEOUT, [session_ms], CONSUMER_SESSION_MS),
        assuming.value(HEARTBEAT_INTERVAL, [heartbeat_ms], CONSUMER_HEARTBEAT_MS),
    )


def _joins_in_polls(assuming: _Assuming, known: KnownGroupNow, poll_ms: int) -> bool:
    """Java's consumer of the classic protocol takes part in a rebalance in its polls alone."""
    if known.description.type is GroupType.CONSUMER or not poll_ms:
        return False
    software = known.support.software
    if not software:
        assuming.add("assumed_java")
    return not software or any(name.startswith(JAVA) for name in software.values())


def _number(settings: Mapping[str, str], name: str) -> int | None:
    text = settings.get(name, "")
    return int(text) if text.isdecimal() else None


def _is_static(assuming: _Assuming, description: ConsumerGroupDescription) -> bool:
    static = sum(m.group_instance_id is not None for m in description.members)
    if 0 < static < len(description.members):
        assuming.add("assumed_dynamic", static=static, members=len(description.members))
    return static == len(description.members) > 0


def _assignor(assuming: _Assuming, name: str) -> str:
    if name in ASSIGNORS:
        return name
    assuming.add("assumed_range", name=name)
    return "range"
