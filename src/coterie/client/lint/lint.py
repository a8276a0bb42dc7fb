"""Whether a live group may change how it rebalances now, and which members block it (KIP-429, KIP-345; KIP-848 by
`protocol_lint`).

Any Kafka returns with DescribeGroups each member's subscription under the assignor in force, which every member lists; only
coterie returns the other assignors that a member lists. What cannot be seen is reported as such, not guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from coterie.assignors import COOPERATIVE_ASSIGNORS, is_cooperative
from coterie.client.admin_types import ConsumerGroupDescription, GroupState, GroupType
from coterie.client.lint.health_rules import HEALTH_RULES
from coterie.client.lint.protocol import DOWNGRADE, UPGRADE, advice_by_rules, protocol_advice
from coterie.client.lint.rule import Advice, ProtocolSupport
from coterie.client.lint.rule import member_name as _name
from coterie.text.quantity import quantity

COOPERATIVE = " or ".join(COOPERATIVE_ASSIGNORS)
OWNED_FROM = 1  # the version of a subscription that has what a member owns
STATIC_FROM = 5  # the version of JoinGroup that takes a group.instance.id


def lint_group(
    group: ConsumerGroupDescription,
    listed: Mapping[str, Sequence[str]] | None,
    join_version: int,
    support: ProtocolSupport,
) -> list[Advice]:
    """``listed``: the assignors that each member lists, by member id, where the broker reports them; ``join_version``: the
    newest JoinGroup that broker and client share."""
    if group.type in _OTHER_KINDS:
        refused = [Advice(change, False, _OTHER_KINDS[group.type]) for change in (FIRST, SECOND, STATIC, UPGRADE)]
        return [*refused, Advice(AS_IS, True, "no rule is about a group of its kind")]
    health = advice_by_rules(AS_IS, HEALTH_RULES, group, support, "no rule finds what would hurt it")
    if health.safe and health.findings:
        health = replace(health, why="nothing is sure to hurt it, but these may")
    return [*_within_the_protocol(group, listed, join_version), *protocol_advice(group, support), health]


def _within_the_protocol(
    group: ConsumerGroupDescription, listed: Mapping[str, Sequence[str]] | None, join_version: int
) -> list[Advice]:
    if group.type is GroupType.CONSUMER:
        return [Advice(change, True, _BROKER_ASSIGNS) for change in (FIRST, SECOND)] + [_static(group, STATIC_FROM)]
    if group.protocol_type != "consumer":
        text = f"its members are of type {group.protocol_type or '(none)'}, which assigns in its own way"
        return [Advice(change, False, text) for change in (FIRST, SECOND, STATIC)]
    if group.state is not GroupState.STABLE:
        waiting = f"the group is {group.state}; repeat the command once it is Stable"
        return [Advice(change, False, waiting) for change in (FIRST, SECOND, STATIC)]
    return [_first_bounce(group, listed), _second_bounce(group, listed), _static(group, join_version)]


FIRST = f"list {COOPERATIVE} beside the present assignor (first rolling bounce)"
SECOND = f"list {COOPERATIVE} alone (second rolling bounce)"
_BROKER_ASSIGNS = "done: in the consumer protocol the broker assigns, and only partitions that move are revoked"
_OTHER_KINDS = {
    GroupType.SHARE: "members of a share group own records, not partitions, and a group does not change its kind",
    GroupType.STREAMS: "the broker assigns the tasks of a streams group, and a group does not change its kind",
}
STATIC = "give every member a group.instance.id (dynamic to static)"
AS_IS = "leave the group as it is"
# What `groups lint --change` selects.
CHANGES = {
    "none": (AS_IS,),
    "cooperative": (FIRST, SECOND),
    "static": (STATIC,),
    "consumer": (UPGRADE,),
    "classic": (DOWNGRADE,),
}


def _first_bounce(group: ConsumerGroupDescription, listed: Mapping[str, Sequence[str]] | None) -> Advice:
    """Needs clients that tell what they own."""
    old = [_name(m) for m in group.members if m.subscription is None or m.subscription.version < OWNED_FROM]
    if old:
        text = "these members' clients are too old to cooperate (before Kafka 2.4): upgrade them first"
        return Advice(FIRST, False, text, tuple(old))
    if _all_list_it(group, listed):
        return Advice(FIRST, True, f"done: every member lists {COOPERATIVE}")
    return Advice(FIRST, True, "safe now, one member after the other; the group stays eager meanwhile")


def _second_bounce(group: ConsumerGroupDescription, listed: Mapping[str, Sequence[str]] | None) -> Advice:
    """A member that lists it alone is refused while another member does not list it."""
    if listed is not None:
        eager = [_name(m) for m in group.members if not _lists_cooperative(listed.get(m.member_id, ()))]
        if eager:
            text = f"these members do not list {COOPERATIVE}; one that lists nothing else would be refused"
            return Advice(SECOND, False, text, tuple(eager))
        others = [_name(m) for m in group.members if not all(is_cooperative(name) for name in listed[m.member_id])]
        if not others:
            return Advice(SECOND, True, "done: no member lists anything else, so the group cooperates")
        return Advice(SECOND, True, f"safe now, one member after the other; {_listing(len(others))} another assignor")
    if is_cooperative(group.partition_assignor):
        return Advice(SECOND, True, f"safe now: {group.partition_assignor} is in force, so every member lists it")
    text = (
        f"the assignor in force is {group.partition_assignor}, and this broker does not tell what else the members list: do "
        f"the first bounce with {COOPERATIVE} in front, and repeat the command once it is in force"
    )
    return Advice(SECOND, False, text, tuple(_name(m) for m in group.members))


def _listing(count: int) -> str:
    return f"{quantity(count, 'member')} still {'lists' if count == 1 else 'list'}"


def _all_list_it(group: ConsumerGroupDescription, listed: Mapping[str, Sequence[str]] | None) -> bool:
    if listed is None:
        return is_cooperative(group.partition_assignor)
    return all(_lists_cooperative(listed.get(m.member_id, ())) for m in group.members)


def _lists_cooperative(names: Sequence[str]) -> bool:
    return any(is_cooperative(name) for name in names)


def _static(group: ConsumerGroupDescription, join_version: int) -> Advice:
    if join_version < STATIC_FROM:
        text = "the broker is too old for static members (before Kafka 2.3)"
        return Advice(STATIC, False, text, tuple(_name(m) for m in group.members))
    dynamic = [m for m in group.members if m.group_instance_id is None]
    if not dynamic:
        return Advice(STATIC, True, "done: every member is static")
    share = f"{len(dynamic)} of {quantity(len(group.members), 'member')} {'is' if len(dynamic) == 1 else 'are'} dynamic"
    return Advice(
        STATIC,
        True,
        f"safe now, one member after the other, each id used once: {share}. Each costs one rebalance more; a "
        "session.timeout.ms longer than a restart saves the later ones",
    )
