"""Subscriptions by a regular expression: their topics are found outside the coordinator (Kafka's TopicRegexResolver).

The coordinator requests it by `Outcome.resolve` and gets the topics back by the command `RegexesResolved`. Meanwhile a new
expression matches nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum, auto

from coterie.coordinator.commands import RegexesResolved
from coterie.coordinator.consumer import events as e
from coterie.coordinator.consumer.state import ConsumerGroup, ConsumerSubscription, ResolvedRegex
from coterie.coordinator.consumer.target import subscribed_with
from coterie.coordinator.outcome import Context, CoordinatorConfig, Outcome
from coterie.coordinator.state import Cause
from coterie.wire.errors import ErrorCode, Refusal

MIN_REFRESH_INTERVAL_MS = 10_000


class RegexChange(Enum):
    """What a heartbeat did to the member's expression: nothing; changed it; changed it to one whose topics are known."""

    NONE = auto()
    UPDATED = auto()
    UPDATED_AND_RESOLVED = auto()


@dataclass(slots=True)
class RegexOutcome:
    """The change, its events, and the expressions whose topics are wanted now."""

    change: RegexChange
    events: list[e.ConsumerEvent]
    resolve: frozenset[str] = frozenset()


def change_regex(
    group: ConsumerGroup,
    before: ConsumerSubscription,
    after: ConsumerSubscription,
    ctx: Context,
    config: CoordinatorConfig,
) -> RegexOutcome:
    """Kafka's maybeUpdateRegularExpressions. Raises Refusal INVALID_REGULAR_EXPRESSION for a new one that cannot be
    compiled."""
    old, new = before.topic_regex, after.topic_regex
    outcome, is_new = RegexOutcome(RegexChange.NONE, []), False
    if not group.regex_subscribers and old == new:
        return outcome
    subscribers = Counter(group.regex_subscribers)
    if old != new:
        outcome.change = RegexChange.UPDATED
        if old and subscribers[old] == 1:
            outcome.events.append(e.RegexRemoved(old))
        if not new or new in group.regexes:
            outcome.change = RegexChange.UPDATED_AND_RESOLVED
        elif not subscribers[new]:
            is_new = True
            problem = config.regex_problem(new)
            if problem is not None:
                raise Refusal(ErrorCode.INVALID_REGULAR_EXPRESSION, problem)
    subscribers[old] -= 1
    subscribers[new] += 1
    wanted = frozenset(regex for regex, count in subscribers.items() if regex and count > 0)
    if wanted and _is_due(group, wanted, is_new, ctx, config):
        outcome.resolve = wanted
        outcome.events.append(e.RegexResolutionStarted())
    return outcome


def _is_due(
    group: ConsumerGroup, wanted: frozenset[str], is_new: bool, ctx: Context, config: CoordinatorConfig
) -> bool:
    """At most one resolution at a time and one in 10 s; then for expressions without topics, for new topics, and when the
    last one is old."""
    last = next(iter(group.regexes.values()), None)
    if group.resolving:
        return False
    if last is None:
        return True
    # Less than 0 by the clock of another coordinator, whose version of the metadata may be ahead as well.
    age_ms = ctx.now_ms - last.timestamp_ms
    if abs(age_ms) <= MIN_REFRESH_INTERVAL_MS:
        return False
    stale = not 0 <= age_ms <= config.group_consumer_regex_refresh_interval_ms
    return is_new or stale or len(wanted) != len(group.regexes) or last.version < ctx.topics.created_version


def decide_regexes_resolved(group: ConsumerGroup, command: RegexesResolved, ctx: Context) -> Outcome:
    """Keeps the topics of the expressions that still have a subscriber; topics that changed raise the group epoch."""
    outcome = Outcome([e.RegexResolutionEnded()], on_append_error=lambda code: Outcome([e.RegexResolutionEnded()]))
    regexes, changed = dict(group.regexes), False
    for regex, topics in command.topics.items():
        if regex not in group.regex_subscribers:
            continue
        earlier = regexes.get(regex)
        changed |= topics != (earlier.topics if earlier is not None else frozenset())
        regexes[regex] = ResolvedRegex(topics, command.version, ctx.now_ms)
        outcome.events.append(e.RegexStored(regex, regexes[regex]))
    metadata_hash = ctx.topics.metadata_hash(subscribed_with(group, (), None, regexes))
    if changed or metadata_hash != group.metadata_hash:
        cause = Cause("regex_resolved")
        outcome.events.append(e.GroupEpochStored(group.group_epoch + 1, metadata_hash, cause))
    return outcome
