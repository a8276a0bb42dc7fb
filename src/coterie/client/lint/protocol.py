"""Whether a live group may change between the classic and the consumer protocol (KIP-848), as rules over what a broker reports:
`UPGRADE_RULES` for a classic group, and here the rules of a consumer group (GroupMetadataManager.validateOnlineDowngrade).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from coterie.client.admin_types import ConsumerGroupDescription, GroupType
from coterie.client.lint.rule import (
    CLASSIC_MAX_SIZE,
    POLICY,
    Advice,
    LintFinding,
    LintRule,
    Observation,
    ProtocolSupport,
    member_names,
)
from coterie.client.lint.upgrade_rules import UPGRADE_RULES, policy_refuses, too_large
from coterie.text.quantity import quantity

UPGRADE = "start its members with group.protocol=consumer (classic to consumer protocol, KIP-848)"
DOWNGRADE = "start its members with group.protocol=classic (consumer to classic protocol)"


def protocol_advice(group: ConsumerGroupDescription, support: ProtocolSupport) -> list[Advice]:
    """For a classic group the way to the consumer protocol; for a consumer group how far it is, and the way back."""
    if group.type is not GroupType.CONSUMER:
        safe = "safe now: the group is empty" if not group.members else "safe now, one member after the other"
        return [advice_by_rules(UPGRADE, UPGRADE_RULES, group, support, safe)]
    return [
        advice_by_rules(UPGRADE, UNDER_WAY_RULES, group, support, _progress(group)),
        advice_by_rules(DOWNGRADE, DOWNGRADE_RULES, group, support, "safe now, one member after the other"),
    ]


def advice_by_rules(
    change: str, rules: Sequence[LintRule], group: ConsumerGroupDescription, support: ProtocolSupport, safe: str
) -> Advice:
    """``safe``: why it is safe where no rule blocks it."""
    findings = [
        LintFinding(rule.name, rule.blocks, seen.text, seen.next_step, seen.members)
        for rule in rules
        if (seen := rule.check(group, support)) is not None
    ]
    blocking = [f for f in findings if f.blocks]
    blocked_by = dict.fromkeys(member for f in blocking for member in f.members)
    return Advice(change, not blocking, blocking[0].text if blocking else safe, tuple(blocked_by), tuple(findings))


# -- of a consumer group ----------------------------------------------------------------------------------------------------


def _progress(group: ConsumerGroupDescription) -> str:
    upgraded = sum(1 for m in group.members if m.upgraded)
    if upgraded == len(group.members):
        return "done: every member uses the consumer protocol"
    if all(m.upgraded is None for m in group.members):
        return "done: the group is one of the consumer protocol"
    verb = "uses" if upgraded == 1 else "use"
    return f"under way: {upgraded} of {quantity(len(group.members), 'member')} {verb} the consumer protocol"


def _classic_members(group: ConsumerGroupDescription, support: ProtocolSupport) -> Observation | None:
    classic = [m for m in group.members if m.upgraded is False]
    if not classic:
        return None
    text = "these members use the classic protocol within the group"
    return Observation(text, "Restart them with group.protocol=consumer, one after the other.", member_names(classic))


def _members_unknown(group: ConsumerGroupDescription, support: ProtocolSupport) -> Observation | None:
    unknown = [m for m in group.members if m.upgraded is None]
    if not unknown:
        return None
    text = "the broker does not report which protocol these members use (before Apache Kafka 4.0)"
    return Observation(text, "Look at the consumers' settings.", member_names(unknown))


def _consumer_members(group: ConsumerGroupDescription, support: ProtocolSupport) -> Observation | None:
    upgraded = [m for m in group.members if m.upgraded]
    if not upgraded:
        return None
    text = f"the group becomes classic when the last of {quantity(len(upgraded), 'consumer member')} leaves"
    return Observation(text, "Restart them with group.protocol=classic, one after the other.", member_names(upgraded))


def _target_is_behind(group: ConsumerGroupDescription, support: ProtocolSupport) -> Observation | None:
    epoch, target_epoch = group.group_epoch, group.target_assignment_epoch
    if epoch is None or target_epoch is None or epoch <= target_epoch:
        return None
    text = f"the target assignment is of epoch {target_epoch} and the group of {epoch}: a classic group would rebalance at once"
    return Observation(text, "Ask again once the group is Stable.")


_downgrade_policy = partial(
    policy_refuses, "downgrade", "the group does not become classic when its last consumer member leaves"
)
UNDER_WAY_RULES = (
    LintRule("classic_members", False, "Classic members of a consumer group.", _classic_members),
    LintRule("members_unknown", False, "Members whose protocol the broker does not report.", _members_unknown),
)
DOWNGRADE_RULES = (
    LintRule("downgrade_policy", True, f"`{POLICY}` is without downgrades.", _downgrade_policy),
    LintRule(
        "too_large_for_classic",
        True,
        f"The group has more members than `{CLASSIC_MAX_SIZE}`.",
        partial(too_large, CLASSIC_MAX_SIZE),
    ),
    LintRule("consumer_members", False, "The members that have to leave first.", _consumer_members),
    LintRule("target_is_behind", False, "The target assignment is behind the group epoch.", _target_is_behind),
)
