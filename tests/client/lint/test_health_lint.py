"""What `groups lint` finds to hurt a group as it is: each rule alone, at its limit, and where its facts are not known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coterie.assignors.blobs import encode_assignment, encode_subscription
from coterie.client import Advice, ConsumerGroupDescription, GroupType, Node
from coterie.client.admin.results import group_description
from coterie.client.lint.health_rules import HEALTH_RULES
from coterie.client.lint.lint import AS_IS, lint_group
from coterie.client.lint.rule import MemberFacts, ObservedFacts, ProtocolSupport
from coterie.wire.messages.groups.describe_groups import DescribedGroup, DescribedGroupMember

SOUND = MemberFacts(45_000, 3_000, 300_000, 5_000, 6_000, 1_000)


def described(assignor: str = "range", partitions: int = 4) -> ConsumerGroupDescription:
    halves = [list(range(n, partitions, 2)) for n in range(2)]
    members = [
        DescribedGroupMember(f"m{n}", None, "c", "/h", encode_subscription({"t"}), encode_assignment({"t": half}))
        for n, half in enumerate(halves)
    ]
    return group_description(DescribedGroup(0, None, "g", "Stable", "consumer", assignor, members), Node(1))


def known(
    first: MemberFacts = SOUND, replaced: dict[str, int] | None = None, unread: str | None = None
) -> ProtocolSupport:
    return ProtocolSupport(facts=ObservedFacts({"m0": first, "m1": SOUND}, 1.0, replaced or {}, unread))


def listing(*lists: str) -> ProtocolSupport:
    return replace(known(), assignors={f"m{n}": tuple(names.split()) for n, names in enumerate(lists)})


CONSUMER = replace(described("uniform"), type=GroupType.CONSUMER)
SHORT_OF_BROKER = ProtocolSupport(
    settings={"group.consumer.session.timeout.ms": "45000", "group.consumer.heartbeat.interval.ms": "5000"},
    group_settings={"consumer.session.timeout.ms": "14000"},
)
# Rule -> a group and what is known of it where the rule holds, its members; and where it just does not hold any more.
CASES = {
    "short_session": (
        described(),
        known(replace(SOUND, session_timeout_ms=8_000)),
        ("m0",),
        known(replace(SOUND, session_timeout_ms=9_000)),
    ),
    "short_session_by_default": (
        described(),
        known(replace(SOUND, session_timeout_ms=8_000, heartbeat_interval_ms=None)),
        ("m0",),
        known(replace(SOUND, session_timeout_ms=9_000, heartbeat_interval_ms=None)),
    ),
    "slow_polls": (
        described(),
        known(replace(SOUND, longest_poll_ms=150_000)),
        ("m0",),
        known(replace(SOUND, longest_poll_ms=149_000)),
    ),
    "rare_commits": (
        described(),
        known(replace(SOUND, longest_poll_ms=None, longest_commit_ms=200_000)),
        ("m0",),
        known(replace(SOUND, longest_commit_ms=200_000)),  # its polls are known to be short
    ),
    "eager_and_large": (described(partitions=100), known(), (), known()),
    "colliding_instances": (described(), known(replaced={"i": 2, "j": 1}), ("i",), known(replaced={"i": 1})),
    "no_shared_assignor": (described(), listing("range", "sticky"), (), listing("range", "sticky range")),
    "one_shared_assignor": (
        described(),
        listing("range sticky", "range"),
        (),
        listing("range sticky", "sticky range"),
    ),
    "different_sessions": (described(), known(replace(SOUND, session_timeout_ms=30_000)), (), known()),
    "facts_unknown": (described(), known(MemberFacts()), ("m0",), known()),
}


def advice(group: ConsumerGroupDescription, support: ProtocolSupport) -> Advice:
    (as_is,) = (a for a in lint_group(group, None, 9, support) if a.change == AS_IS)
    return as_is


def rules_of(group: ConsumerGroupDescription, support: ProtocolSupport) -> set[str]:
    return {finding.rule for finding in advice(group, support).findings}


def test_each_rule_has_a_case() -> None:
    assert CASES.keys() == {rule.name for rule in HEALTH_RULES}


@pytest.mark.parametrize("name", CASES)
def test_a_rule_holds_at_its_limit_and_not_beyond(name: str) -> None:
    group, support, members, sound = CASES[name]
    as_is = advice(group, support)
    (finding,) = (f for f in as_is.findings if f.rule == name)
    assert (finding.members, finding.next_step[-1]) == (members, ".")
    assert as_is.safe is not finding.blocks
    beyond = described(partitions=99) if name == "eager_and_large" else group
    assert name not in rules_of(beyond, sound)


def test_a_sound_group_has_no_finding() -> None:
    assert advice(described(), known()) == Advice(AS_IS, True, "no rule finds what would hurt it")
    assert rules_of(CONSUMER, known()) == set()


def test_a_consumer_group_is_judged_by_the_settings_of_its_broker_and_its_own() -> None:
    assert rules_of(CONSUMER, SHORT_OF_BROKER) == {"short_session"}
    assert rules_of(CONSUMER, replace(SHORT_OF_BROKER, group_settings={})) == set()


def test_what_could_not_be_read_is_named_with_what_to_do() -> None:
    as_is = advice(
        described(), known(MemberFacts(), unread="__consumer_offsets cannot be read: grant READ on the topic")
    )
    (finding,) = as_is.findings
    assert (as_is.safe, as_is.why) == (True, "nothing is sure to hurt it, but these may")
    assert finding.text == "__consumer_offsets cannot be read: session timeouts and commits are not known"
    assert finding.next_step == "Grant READ on the topic."


def test_a_cooperative_assignor_is_large_without_harm() -> None:
    assert "eager_and_large" not in rules_of(described("cooperative-sticky", 500), known())


def test_measured_intervals_that_differ_are_a_span() -> None:
    short = replace(SOUND, session_timeout_ms=8_000)
    facts = {f"m{n}": replace(short, heartbeat_interval_ms=ms) for n, ms in enumerate((3_039, 2_991))}
    as_is = advice(described(), ProtocolSupport(facts=ObservedFacts(facts, 1.0)))
    (finding,) = (f for f in as_is.findings if f.rule == "short_session")
    assert finding.text.endswith("(8000 ms, and heartbeats come every 2991 to 3039 ms)")
