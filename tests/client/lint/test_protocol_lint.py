"""The way between the classic and the consumer protocol (KIP-848), as `groups lint` judges it: each rule alone, beside what the
coordinator itself decides, and on live groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie import __version__
from coterie.assignors.blobs import encode_assignment, encode_subscription
from coterie.client import Advice, ConsumerGroupDescription, GroupState, GroupType, MemberDescription, Node
from coterie.client.admin.results import consumer_group_description, group_description
from coterie.client.admin_types import MemberAssignment
from coterie.client.connection.handshake import SOFTWARE_NAME
from coterie.client.lint.lint import CHANGES
from coterie.client.lint.protocol import DOWNGRADE, DOWNGRADE_RULES, UNDER_WAY_RULES, UPGRADE, protocol_advice
from coterie.client.lint.rule import ProtocolSupport
from coterie.client.lint.upgrade_rules import FIRST_RELEASE, UPGRADE_RULES, speaks_consumer_protocol
from coterie.coordinator.consumer.convert import may_downgrade, upgrade
from coterie.coordinator.consumer.image import TopicImage, TopicsImage
from coterie.coordinator.consumer.state import (
    ClassicMetadata,
    ConsumerGroup,
    ConsumerMember,
    ConsumerSubscription,
    CurrentAssignment,
    MigrationPolicy,
)
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.state import Group, Member, Phase
from coterie.coordinator.views.classic_group import describe_group
from coterie.coordinator.views.consumer_group import describe_consumer_group
from coterie.wire.errors import Refusal
from coterie.wire.messages.groups.describe_groups import DescribedGroup, DescribedGroupMember
from coterie.wire.messages.stored.consumer_protocol import ConsumerProtocolAssignment, TopicPartitions

NEW = "confluent-kafka-python 2.12.1"
ALLOWED = {
    "group.consumer.migration.policy": "bidirectional",
    "group.consumer.max.size": "100",
    "group.max.size": "100",
    "group.coordinator.rebalance.protocols": "classic,consumer",
    "group.consumer.assignors": "uniform,range",
    "group.consumer.session.timeout.ms": "45000",
}
ALL = ProtocolSupport(True, 1, ALLOWED, {}, {"m0": NEW, "m1": NEW}, {"m0": 45_000, "m1": 45_000})


def described(
    assignor: str = "range", *, both_own: Sequence[int] = (), user_data: bytes | None = None, **changes: str
) -> ConsumerGroupDescription:
    """A Stable classic group of two members, each of which has the partitions ``both_own`` of topic t."""
    owned = [TopicPartitions("t", list(both_own))]
    assignment = b"\0\0" + ConsumerProtocolAssignment(owned, user_data).encode(0)
    members = [DescribedGroupMember(f"m{n}", None, "c", "/h", encode_subscription({"t"}), assignment) for n in range(2)]
    state, kind = changes.get("state", "Stable"), changes.get("protocol_type", "consumer")
    return group_description(DescribedGroup(0, None, "g", state, kind, assignor, members), Node(1))


def with_member(group: ConsumerGroupDescription, **changes: object) -> ConsumerGroupDescription:
    return replace(group, members=(replace(group.members[0], **changes), *group.members[1:]))  # type: ignore[arg-type]


def with_settings(**changes: str | None) -> ProtocolSupport:
    altered = ALLOWED | {name.replace("_", "."): value for name, value in changes.items()}
    return replace(ALL, settings={name: value for name, value in altered.items() if value is not None})


def in_consumer_protocol(*upgraded: bool | None) -> ConsumerGroupDescription:
    members = tuple(
        MemberDescription(
            f"m{n}",
            None,
            "c",
            "/h",
            MemberAssignment(),
            member_epoch=3,
            target_assignment=MemberAssignment(),
            upgraded=u,
        )
        for n, u in enumerate(upgraded)
    )
    return ConsumerGroupDescription(
        "g", GroupState.STABLE, "consumer", "uniform", members, Node(1), GroupType.CONSUMER, 3, 3
    )


def advice_of(group: ConsumerGroupDescription, support: ProtocolSupport, change: str = UPGRADE) -> Advice:
    return next(a for a in protocol_advice(group, support) if a.change == change)


def rules_of(advice: Advice) -> set[str]:
    return {finding.rule for finding in advice.findings}


# rule -> the change, a group and what its broker reports, where the rule has its finding; and the members that it names
Case = tuple[str, ConsumerGroupDescription, ProtocolSupport, tuple[str, ...]]
CASES: dict[str, Case] = {
    "not_served": (UPGRADE, described(), replace(ALL, serves=False), ()),
    "group_version": (UPGRADE, described(), replace(ALL, group_version=0), ()),
    "switched_off": (UPGRADE, described(), with_settings(group_coordinator_rebalance_protocols="classic"), ()),
    "protocol_type": (UPGRADE, described(protocol_type="connect"), ALL, ("m0", "m1")),
    "in_rebalance": (UPGRADE, described(state="PreparingRebalance"), ALL, ()),
    "upgrade_policy": (UPGRADE, described(), with_settings(group_consumer_migration_policy="Downgrade"), ()),
    "too_large": (UPGRADE, described(), with_settings(group_consumer_max_size="1"), ()),
    "malformed": (UPGRADE, with_member(described(), member_metadata=b"\0\1x"), ALL, ("m0",)),
    "user_data": (UPGRADE, described(user_data=b"x"), ALL, ("m0", "m1")),
    "shared_partition": (UPGRADE, described(both_own=[1, 2]), ALL, ("m0", "m1")),
    "settings_unknown": (UPGRADE, described(), replace(ALL, settings={}), ()),
    "no_way_back": (UPGRADE, described(), with_settings(group_consumer_migration_policy="upgrade"), ()),
    "own_assignor": (UPGRADE, described("mine"), ALL, ()),
    "software_too_old": (
        UPGRADE,
        described(),
        replace(ALL, software={"m0": NEW, "m1": "apache-kafka-java 3.9.1"}),
        ("m1",),
    ),
    "software_unknown": (UPGRADE, described(), replace(ALL, software={"m0": "sarama 1.46.0", "m1": NEW}), ("m0",)),
    "settings_refused": (
        UPGRADE,
        described(),
        replace(ALL, session_timeouts_ms={"m0": 10_000, "m1": 45_000}),
        ("m0",),
    ),
    "static_members": (UPGRADE, with_member(described(), group_instance_id="i0"), ALL, ("i0",)),
    "classic_members": (UPGRADE, in_consumer_protocol(True, False), ALL, ("m1",)),
    "members_unknown": (UPGRADE, in_consumer_protocol(None, None), ALL, ("m0", "m1")),
    "downgrade_policy": (
        DOWNGRADE,
        in_consumer_protocol(True, False),
        with_settings(group_consumer_migration_policy="upgrade"),
        (),
    ),
    "too_large_for_classic": (DOWNGRADE, in_consumer_protocol(True, False), with_settings(group_max_size="1"), ()),
    "consumer_members": (DOWNGRADE, in_consumer_protocol(True, False), ALL, ("m0",)),
    "target_is_behind": (DOWNGRADE, replace(in_consumer_protocol(True, False), group_epoch=4), ALL, ()),
}
RULES = {rule.name: rule for rule in (*UPGRADE_RULES, *UNDER_WAY_RULES, *DOWNGRADE_RULES)}


def test_each_rule_has_a_case() -> None:
    assert CASES.keys() == RULES.keys()


@pytest.mark.parametrize("name", CASES)
def test_a_rule_alone_has_its_finding(name: str) -> None:
    change, group, support, members = CASES[name]
    advice = advice_of(group, support, change)
    (finding,) = (f for f in advice.findings if f.rule == name)
    assert finding.members == members
    assert finding.next_step.endswith(".")
    assert finding.blocks == RULES[name].blocks
    assert advice.safe == (not RULES[name].blocks)
    if finding.blocks:
        assert (advice.why, advice.blocked_by) == (finding.text, members)


def test_the_page_has_each_rule() -> None:
    page = (Path(__file__).parents[3] / "docs/how-to/next-generation.md").read_text()
    rows = [f"| `{r.name}` | {'yes' if r.blocks else 'no'} | {r.meaning} |" for r in RULES.values()]
    assert [row for row in rows if row not in page] == []


def test_a_group_without_obstacle() -> None:
    advice = advice_of(described(), ALL)
    assert (advice.safe, advice.why) == (True, "safe now, one member after the other")
    assert rules_of(advice) == {"settings_refused"}  # holds for each classic group
    assert rules_of(advice_of(in_consumer_protocol(True, True), ALL)) == set()
    assert advice_of(in_consumer_protocol(True, True), ALL).why == "done: every member uses the consumer protocol"
    assert rules_of(advice_of(in_consumer_protocol(False, False), ALL, DOWNGRADE)) == set()


def test_how_far_a_group_is() -> None:
    half = advice_of(in_consumer_protocol(True, False, True), ALL)
    assert half.why == "under way: 2 of 3 members use the consumer protocol"
    (back,) = advice_of(in_consumer_protocol(True, False, True), ALL, DOWNGRADE).findings
    assert back.text == "the group becomes classic when the last of 2 consumer members leaves"


def test_an_empty_group_is_converted_under_any_policy() -> None:
    empty = replace(described(state="Empty"), members=())
    for policy in ("disabled", "upgrade", "downgrade", "bidirectional"):
        assert advice_of(empty, with_settings(group_consumer_migration_policy=policy)).safe
    assert not advice_of(empty, replace(ALL, serves=False)).safe


@pytest.mark.parametrize(
    ("software", "known"),
    [
        ("apache-kafka-java 4.0.0", True),
        ("apache-kafka-java 3.9.1", False),
        ("librdkafka 2.12.0-14-gabc", True),
        ("librdkafka 2.4.0", False),
        ("confluent-kafka-javascript v1.6.0", None),
        ("confluent-kafka-javascript 1.10.0-librdkafka-2.12.0", True),
        (f"{SOFTWARE_NAME} {__version__}", True),
        ("sarama 9.0", None),
        ("librdkafka", None),
        ("", None),
        (None, None),
    ],
)
def test_releases_are_compared_as_numbers(software: str | None, known: bool | None) -> None:
    assert speaks_consumer_protocol(software) is known


def test_changes_select_every_advice() -> None:
    listed = {text for texts in CHANGES.values() for text in texts}
    assert {UPGRADE, DOWNGRADE} < listed
    assert set(FIRST_RELEASE) > {"apache-kafka-java", "librdkafka"}


# -- beside the coordinator -------------------------------------------------------------------------------------------------

TOPICS = TopicsImage({"t": TopicImage("t", bytes(15) + b"\1", 4)}, 1, 1)
SUBSCRIPTIONS = st.sampled_from(
    [encode_subscription({"t"}, version=v) for v in range(4)] + [b"", b"\0", b"\0\1\0\0\0\5", b"\x7f\xff" + b"\0" * 8]
)
ASSIGNMENTS = st.sampled_from(
    [
        b"",
        encode_assignment({"t": [0]}),
        encode_assignment({"t": [1, 1, 2]}),
        b"\0\0" + ConsumerProtocolAssignment([], b"").encode(0),
        b"\0\1" + ConsumerProtocolAssignment([], b"x").encode(1),
        b"\0\0\0\0\0\1",
        b"\0",
    ]
)
POLICIES = st.sampled_from(list(MigrationPolicy))


def support_of(config: CoordinatorConfig) -> ProtocolSupport:
    return with_settings(
        group_consumer_migration_policy=config.consumer_group_migration_policy.value,
        group_consumer_max_size=str(config.group_consumer_max_size),
        group_max_size=str(config.group_max_size),
    )


@given(
    st.lists(st.tuples(SUBSCRIPTIONS, ASSIGNMENTS), min_size=1, max_size=3),
    st.sampled_from(["consumer", "connect"]),
    POLICIES,
    st.integers(1, 4),
)
def test_the_way_up_is_safe_where_the_coordinator_goes_it(
    blobs: list[tuple[bytes, bytes]], protocol_type: str, policy: MigrationPolicy, max_size: int
) -> None:
    group = Group("g", phase=Phase.STABLE, protocol_type=protocol_type, generation=5, protocol="range", leader="m0")
    for n, (subscription, assignment) in enumerate(blobs):
        protocols = (("range", subscription),)
        group.members[f"m{n}"] = Member(f"m{n}", None, "c", "/h", 10_000, 10_000, protocols, assignment=assignment)
        group.protocol_counts["range"] += 1
    config = CoordinatorConfig(consumer_group_migration_policy=policy, group_consumer_max_size=max_size)
    try:
        upgrade(group, config, TOPICS, 0)
        converted = True
    except Refusal:
        converted = False
    seen = group_description(describe_group(group, "g", 6), Node(1))
    assert advice_of(seen, support_of(config)).safe == converted


@given(st.lists(st.booleans(), min_size=1, max_size=4), POLICIES, st.integers(1, 4))
def test_the_way_back_is_safe_where_the_coordinator_goes_it(
    upgraded: list[bool], policy: MigrationPolicy, max_size: int
) -> None:
    """The members of the consumer protocol are restarted with the classic one until none is left."""
    config = CoordinatorConfig(consumer_group_migration_policy=policy, group_max_size=max_size)
    group = ConsumerGroup("g", group_epoch=3, assignment_epoch=3)
    classic = ClassicMetadata(10_000, (("range", encode_subscription({"t"})),))
    for n, is_upgraded in enumerate(upgraded):
        subscription = ConsumerSubscription(
            frozenset({"t"}), rebalance_timeout_ms=10_000, classic=None if is_upgraded else classic
        )
        group.members[f"m{n}"] = ConsumerMember(f"m{n}", subscription, CurrentAssignment(3, 3))
    seen = consumer_group_description(describe_consumer_group(group, "g", TOPICS, ["uniform"]), Node(1))
    left = [replace(m, subscription=replace(m.subscription, classic=classic)) for m in group.members.values()]
    assert advice_of(seen, support_of(config), DOWNGRADE).safe == may_downgrade(left, config)
    (progress,) = [a for a in protocol_advice(seen, support_of(config)) if a.change == UPGRADE]
    assert [f.members for f in progress.findings] == [
        members for members in [tuple(f"m{n}" for n, u in enumerate(upgraded) if not u)] if members
    ]
