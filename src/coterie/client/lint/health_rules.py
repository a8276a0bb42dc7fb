"""What will hurt a group as it is: `HEALTH_RULES`. A rule without the facts that it needs has no finding, and `facts_unknown`
names what could not be read.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from coterie.assignors import is_cooperative
from coterie.client.admin_types import ConsumerGroupDescription, GroupType
from coterie.client.lint.rule import (
    GROUP_HEARTBEAT_INTERVAL,
    GROUP_SESSION_TIMEOUT,
    HEARTBEAT_INTERVAL,
    SESSION_TIMEOUT,
    LintRule,
    MemberFacts,
    Observation,
    ProtocolSupport,
    group_or_broker_setting,
    member_names,
)
from coterie.text.quantity import listed, quantity, span

HEARTBEATS_IN_SESSION = 3  # Kafka's advice: heartbeat.interval.ms at most a third of session.timeout.ms
DEFAULT_HEARTBEAT_MS = 3_000
MANY_PARTITIONS = 100
NEAR_LIMIT = 0.5  # of max.poll.interval.ms
COLLISIONS = 2  # of one group.instance.id within a minute: a restart is one
SHOWN = 3


def _short_session(group: ConsumerGroupDescription, support: ProtocolSupport) -> Observation | None:
    """By heartbeats that are known."""
    if group.type is GroupType.CONSUMER:
        session_ms = group_or_broker_setting(support, GROUP_SESSION_TIMEOUT, SESSION_TIMEOUT)
        heartbeat_ms = group_or_broker_setting(support, GROUP_HEARTBEAT_INTERVAL, HEARTBEAT_INTERVAL)
        if session_ms is None or heartbeat_ms is None or session_ms >= HEARTBEATS_IN_SESSION * heartbeat_ms:
            return None
        text = f"the session timeout of {session_ms} ms is below three heartbeats, which come every {heartbeat_ms} ms"
        return Observation(text, f"Lower the group's {GROUP_HEARTBEAT_INTERVAL} to {session_ms // 3}.")
    return _short_sessions_of_members(group, support, lambda facts: facts.heartbeat_interval_ms, "come")


def _short_session_by_default(group: ConsumerGroupDescription, support: ProtocolSupport) -> Observation | None:
    """By the default of heartbeats, where they are not known."""
    if group.type is GroupType.CONSUMER:
        return None

    def interval_ms(facts: MemberFacts) -> int | None:
        return DEFAULT_HEARTBEAT_MS if facts.heartbeat_interval_ms is None else None

    return _short_sessions_of_members(group, support, interval_ms, "by default come")


def _short_sessions_of_members(
    group: ConsumerGroupDescription,
    support: ProtocolSupport,
    interval_ms: Callable[[MemberFacts], int | None],
    verb: str,
) -> Observation | None:
    """The measured interval of a member may be a little late."""
    short, intervals_ms = [], dict[int, list[int]]()  # by session timeout
    for member in group.members:
        facts = support.facts.members.get(member.member_id, MemberFacts())
        heartbeat_ms, session_ms = interval_ms(facts), facts.session_timeout_ms
        if heartbeat_ms is None or session_ms is None:
            continue
        if session_ms < HEARTBEATS_IN_SESSION * heartbeat_ms * 0.95:
            short.append(member)
            intervals_ms.setdefault(session_ms, []).append(heartbeat_ms)
    if not short:
        return None
    texts = [
        f"{session_ms} ms, and heartbeats {verb} every {' to '.join(map(str, sorted({min(known), max(known)})))} ms"
        for session_ms, known in sorted(intervals_ms.items())
    ]
    text = f"the session timeout of these members is below three heartbeats ({listed(texts, 1)})"
    return Observation(text, "Set heartbeat.interval.ms to a third of session.timeout.ms or less.", member_names(short))


def _slow_polls(
    measure: Callable[[MemberFacts], int | None], what: str, group: ConsumerGroupDescription, support: ProtocolSupport
) -> Observation | None:
    """Beside max.poll.interval.ms."""
    slow, texts = [], list[str]()
    for member in group.members:
        facts = support.facts.members.get(member.member_id, MemberFacts())
        took_ms, most_ms = measure(facts), facts.max_poll_interval_ms
        if took_ms is not None and most_ms is not None and took_ms >= NEAR_LIMIT * most_ms:
            slow.append(member)
            texts.append(f"{span(took_ms)} of {span(most_ms)}")
    if not slow:
        return None
    text = f"{what} of these members come near max.poll.interval.ms ({listed(texts, SHOWN)}): beyond it they leave the group"
    return Observation(text, "Lower max.poll.records, or raise max.poll.interval.ms.", member_names(slow))


def _polled_slowly(facts: MemberFacts) -> int | None:
    return facts.longest_poll_ms


def _committed_rarely(facts: MemberFacts) -> int | None:
    """A sign of slow polls where the client pushes no measure of them."""
    return facts.longest_commit_ms if facts.longest_poll_ms is None else None


def _eager_and_large(group: ConsumerGroupDescription, support: ProtocolSupport) -> Observation | None:
    partitions, name = len(group.owners), group.partition_assignor
    if group.type is GroupType.CONSUMER or group.protocol_type != "consumer" or is_cooperative(name):
        return None
    if partitions < MANY_PARTITIONS or len(group.members) < 2:
        return None
    text = f"the assignor {name} is eager: each rebalance takes all of {quantity(partitions, 'partition')} from their members"
    return Observation(
        text, "Move to cooperative-sticky (`groups lint --change cooperative`), or to group.protocol=consumer."
    )


def _colliding_instances(group: ConsumerGroupDescription, support: ProtocolSupport) -> Observation | None:
    colliding = {i: times for i, times in support.facts.replaced.items() if times >= COLLISIONS}
    if not colliding:
        return None
    worst = max(colliding.values())
    text = (
        f"each of these group.instance.ids came back under a new member id {worst} times within a minute, or less often"
    )
    return Observation(
        text + ": two processes with one id fence each other",
        "Give each process a group.instance.id of its own.",
        tuple(sorted(colliding)),
    )


def _no_shared_assignor(group: ConsumerGroupDescription, support: ProtocolSupport) -> Observation | None:
    lists = [set(names) for names in _lists(group, support)]
    if len(lists) < 2 or set.intersection(*lists):
        return None
    return Observation(
        "no assignor is listed by all members, so that one of them cannot join (INCONSISTENT_GROUP_PROTOCOL)",
        f"List one of {', '.join(sorted(set.union(*lists)))} on every member.",
    )


def _one_shared_assignor(group: ConsumerGroupDescription, support: ProtocolSupport) -> Observation | None:
    lists = [set(names) for names in _lists(group, support)]
    if len(lists) < 2 or len(set.union(*lists)) < 2:
        return None
    shared = set.intersection(*lists)
    if len(shared) != 1 or all(names == lists[0] for names in lists):
        return None
    text = f"the members list different assignors and share {shared.pop()} alone: a member without it would be refused"
    return Observation(text, "List the same assignors on every member.")


def _lists(group: ConsumerGroupDescription, support: ProtocolSupport) -> list[tuple[str, ...]]:
    if group.type is GroupType.CONSUMER:
        return []
    return [names for m in group.members if (names := support.assignors.get(m.member_id))]


def _different_sessions(group: ConsumerGroupDescription, support: ProtocolSupport) -> Observation | None:
    if group.type is GroupType.CONSUMER:
        return None
    known = {m.session_timeout_ms for m in support.facts.members.values() if m.session_timeout_ms is not None}
    if len(known) < 2:
        return None
    text = f"the members have different session timeouts: {', '.join(f'{ms} ms' for ms in sorted(known))}"
    return Observation(text, "Use one session.timeout.ms: a crash is noticed after that of the crashed member.")


def _facts_unknown(group: ConsumerGroupDescription, support: ProtocolSupport) -> Observation | None:
    if support.facts.unread is not None:
        text, _, step = support.facts.unread.partition(": ")
        return Observation(f"{text}: session timeouts and commits are not known", f"{step[:1].upper()}{step[1:]}.")
    if group.type is GroupType.CONSUMER or not group.members:
        return None
    unknown = [
        m for m in group.members if support.facts.members.get(m.member_id, MemberFacts()).session_timeout_ms is None
    ]
    if not unknown:
        return None
    text = "the log has no record of these members any more, or not yet: their session timeouts are not known"
    return Observation(text, "Look at the consumers' settings.", member_names(unknown))


HEALTH_RULES = (
    LintRule("short_session", True, "The session timeout is below three heartbeats.", _short_session),
    LintRule(
        "short_session_by_default",
        False,
        f"The session timeout is below three heartbeats of the default, {DEFAULT_HEARTBEAT_MS} ms; heartbeats are not known.",
        _short_session_by_default,
    ),
    LintRule(
        "slow_polls",
        True,
        "The longest time between two polls, which the clients push (KIP-714), is over half of `max.poll.interval.ms`.",
        partial(_slow_polls, _polled_slowly, "the pauses between polls"),
    ),
    LintRule(
        "rare_commits",
        False,
        "The time between two commits, the only sign of polls, is over half of `max.poll.interval.ms`.",
        partial(_slow_polls, _committed_rarely, "the pauses between commits, and maybe polls,"),
    ),
    LintRule(
        "eager_and_large",
        False,
        f"An eager assignor, and {MANY_PARTITIONS} partitions or more.",
        _eager_and_large,
    ),
    LintRule(
        "colliding_instances",
        True,
        "One `group.instance.id` got new member ids twice or more within a minute.",
        _colliding_instances,
    ),
    LintRule("no_shared_assignor", True, "No assignor is listed by all members.", _no_shared_assignor),
    LintRule(
        "one_shared_assignor", False, "Members list different assignors, and share one alone.", _one_shared_assignor
    ),
    LintRule("different_sessions", False, "Members have different session timeouts.", _different_sessions),
    LintRule("facts_unknown", False, "Session timeouts and commits that could not be read.", _facts_unknown),
)
