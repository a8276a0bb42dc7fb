"""What a group answers and refuses by its members; Kafka's ConsumerGroupTest and ConsumerGroupMemberTest by name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coterie.assignors.blobs import encode_subscription
from coterie.coordinator.consumer import events as e
from coterie.coordinator.consumer.classic_members import decide_classic_heartbeat, decide_classic_join
from coterie.coordinator.consumer.convert import may_downgrade
from coterie.coordinator.consumer.image import TopicImage, TopicsImage
from coterie.coordinator.consumer.offsets import check_commit, check_fetch
from coterie.coordinator.consumer.regexes import change_regex
from coterie.coordinator.consumer.state import (
    ClassicMetadata,
    ConsumerGroup,
    ConsumerMemberState,
    ConsumerSubscription,
    MigrationPolicy,
)
from coterie.coordinator.consumer.target import subscribed_with
from coterie.coordinator.outcome import Context, CoordinatorConfig
from coterie.coordinator.views.classic_group import list_group
from coterie.coordinator.views.consumer_group import CLASSIC_MEMBER, CONSUMER_MEMBER, describe_consumer_group
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tests.coordinator.consumer.group import apply, put, remove, resolve, subscribe, target
from tests.coordinator.consumer.test_reconcile import partitions

RANGE = ClassicMetadata(45_000, (("range", b""),))
BOTH = ClassicMetadata(45_000, (("roundrobin", b""), ("range", b"")))
TOPICS = TopicsImage({name: TopicImage(name, name[0].encode() * 16, 6) for name in ("a", "b", "c")})
DOWNGRADE = CoordinatorConfig(consumer_group_migration_policy=MigrationPolicy.DOWNGRADE)

# -- commits and fetches of offsets ---------------------------------------------------------------------------------------


def code_of_commit(
    group: ConsumerGroup, sender: tuple[str, str | None, int], partition: str = "a0", version: int | None = None
) -> ErrorCode:
    """``sender``: member id, instance id, epoch. ``version`` of OffsetCommit; None: TxnOffsetCommit."""
    try:
        check = check_commit(group, *sender, 5 if version is None else version, transactional=version is None)
        ((topic_id, number),) = partitions(partition)
        check("", topic_id, number)
    except Refusal as refusal:
        return refusal.code
    return ErrorCode.NONE


def test_commits_of_transactions() -> None:
    """testValidateTransactionalOffsetCommit: without member, of any group where no instance id is given either. A stale epoch
    is ILLEGAL_GENERATION to a producer."""
    group = ConsumerGroup("g")
    assert code_of_commit(group, ("", "", -1)) == ErrorCode.NONE
    assert code_of_commit(group, ("m", None, 0)) == ErrorCode.UNKNOWN_MEMBER_ID
    subscribe(group, "m")
    assert code_of_commit(group, ("", "", -1)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of_commit(group, ("m", "", 10)) == ErrorCode.ILLEGAL_GENERATION
    assert code_of_commit(group, ("m", "", 0)) == ErrorCode.NONE
    assert code_of_commit(group, ("", None, -1)) == ErrorCode.NONE


@pytest.mark.parametrize("version", [None, 2, 8, 9, 10])
@pytest.mark.parametrize("partition", ["b0", "a2"])
def test_an_older_epoch_commits_what_the_member_has(version: int | None, partition: str) -> None:
    """testValidateOffsetCommitWithUnassignedTopicOrPartition: of another topic, and another partition of the topic."""
    group = ConsumerGroup("g")
    put(group, "m", "10/9", "a0@7", "a1@7")
    takes_epochs = version is None or version >= 9
    expected = ErrorCode.STALE_MEMBER_EPOCH if takes_epochs else ErrorCode.UNSUPPORTED_VERSION
    expected = ErrorCode.ILLEGAL_GENERATION if version is None else expected
    assert code_of_commit(group, ("m", "", 7), partition, version) == expected
    if takes_epochs:
        assert code_of_commit(group, ("m", "", 7), "a0", version) == ErrorCode.NONE
        assert code_of_commit(group, ("m", "", 7), "a1", version) == ErrorCode.NONE


def test_fetches_of_offsets() -> None:
    """testValidateOffsetFetch; what is read is never older than the last record that is committed."""
    group = ConsumerGroup("g")
    check_fetch(group, None, -1)
    with pytest.raises(Refusal) as refused:
        check_fetch(group, "m", 0)
    assert refused.value.code == ErrorCode.UNKNOWN_MEMBER_ID
    subscribe(group, "m")
    with pytest.raises(Refusal) as refused:
        check_fetch(group, "m", 10)
    assert refused.value.code == ErrorCode.STALE_MEMBER_EPOCH
    check_fetch(group, "m", 0)


# -- listed and described -------------------------------------------------------------------------------------------------


def test_a_listed_group() -> None:
    """testAsListedGroup"""
    group = ConsumerGroup("g")
    assert list_group(group).group_state == "Empty"
    subscribe(group, "m", "foo")
    put(group, "m", "1/0")
    listed = list_group(group)
    assert (listed.group_state, listed.group_type, listed.protocol_type) == ("Stable", "consumer", "consumer")


def test_a_described_group() -> None:
    """testAsDescribedGroup"""
    group = ConsumerGroup("g")
    subscribe(group, "m1", "foo", server_assignor="range")
    subscribe(group, "m2", classic=RANGE)
    for member_id in ("m1", "m2"):
        put(group, member_id, "1/0")
    described = describe_consumer_group(group, "g", TOPICS, ["uniform", "range"])
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Stable", 1, 1)
    assert described.assignor_name == "range"
    assert [
        (m.member_id, m.member_epoch, m.subscribed_topic_names, m.subscribed_topic_regex, m.member_type)
        for m in described.members
    ] == [("m1", 1, ["foo"], "", CONSUMER_MEMBER), ("m2", 1, [], "", CLASSIC_MEMBER)]


@pytest.mark.parametrize(
    ("assigned", "pending", "expected"),
    [("a01", "a2", [("a", [0, 1, 2])]), ("a01", "b2", [("a", [0, 1]), ("b", [2])]), ("z012", "", [])],
)
def test_a_described_member(assigned: str, pending: str, expected: list[tuple[str, list[int]]]) -> None:
    """testAsConsumerGroupDescribeMemberWithSameTopicPendingRevocation, testAsConsumerGroupDescribeWithTopicNameNotFound,
    testAsConsumerGroupDescribeWithTargetAssignmentNull"""
    group = ConsumerGroup("g")
    put(group, "m", "5/4", assigned, pending)
    (member,) = describe_consumer_group(group, "g", TOPICS, ["uniform"]).members
    assert [(t.topic_name, sorted(t.partitions)) for t in member.assignment.topic_partitions] == expected
    assert member.target_assignment.topic_partitions == []


# -- members of the classic protocol --------------------------------------------------------------------------------------


def join(group: ConsumerGroup, *names: str) -> list[e.SubscriptionStored]:
    """The subscription of a member that joins by the classic protocol with these assignors. Raises Refusal."""
    protocols = [JoinGroupRequestProtocol(name, encode_subscription(["a"])) for name in names]
    request = JoinGroupRequest("g", 45_000, 60_000, "new", None, "consumer", protocols)
    outcome = decide_classic_join(group, request, Context(0, api_version=5, topics=TOPICS), CoordinatorConfig())
    (reply,) = outcome.replies
    assert isinstance(reply.response, JoinGroupResponse)
    assert not reply.response.error_code
    return [event for event in outcome.events if isinstance(event, e.SubscriptionStored)]


def test_the_protocols_that_every_classic_member_supports() -> None:
    """testClassicMembersSupportedProtocols"""
    group = ConsumerGroup("g")
    subscribe(group, "m1", classic=RANGE)
    subscribe(group, "m2", classic=BOTH)
    assert join(group, "range", "sticky")
    with pytest.raises(Refusal) as refused:
        join(group, "sticky", "roundrobin")
    assert refused.value.code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    subscribe(group, "m1", classic=BOTH)
    assert join(group, "sticky", "roundrobin")


def test_a_classic_member_keeps_the_protocols_of_its_join() -> None:
    """testClassicProtocolListFromJoinRequestProtocolCollection"""
    (stored,) = join(ConsumerGroup("g"), "range", "roundrobin")
    classic, metadata = stored.subscription.classic, encode_subscription(["a"])
    assert classic == ClassicMetadata(45_000, (("range", metadata), ("roundrobin", metadata)))


def test_a_group_is_classic_without_its_members_of_the_consumer_protocol() -> None:
    """testNumClassicProtocolMembers"""
    group = ConsumerGroup("g")

    def is_classic_without(member_id: str) -> bool:
        return may_downgrade([m for m in group.members.values() if m.member_id != member_id], DOWNGRADE)

    subscribe(group, "m1", classic=RANGE)
    subscribe(group, "m2")
    assert not is_classic_without("m1")
    assert is_classic_without("m2")
    remove(group, "m1")
    subscribe(group, "m3")
    assert not is_classic_without("m2")
    remove(group, "m2")
    subscribe(group, "m2", classic=RANGE)
    assert is_classic_without("m3")


def test_a_member_waits_for_partitions_of_others() -> None:
    """testWaitingOnUnreleasedPartition: a JoinGroup would bring it further once nobody has what it waits for."""
    group, context = ConsumerGroup("g"), Context(0, topics=TOPICS)
    subscribe(group, "m1", classic=RANGE)
    apply(group, e.TargetEpochStored(10, 1))
    target(group, "m1", "a123 c789")
    put(group, "m1", "10/9", "a123@5", "b456@6", ConsumerMemberState.UNRELEASED_PARTITIONS)

    def code() -> int:
        (reply,) = decide_classic_heartbeat(group, HeartbeatRequest("g", 10, "m1"), context).replies
        assert isinstance(reply.response, HeartbeatResponse)
        return reply.response.error_code

    assert code() == ErrorCode.REBALANCE_IN_PROGRESS
    put(group, "m2", "10/9", "", "c7@7")
    assert code() == ErrorCode.NONE


# -- the topics of a group as it will be ----------------------------------------------------------------------------------


def test_the_topics_without_members_that_go() -> None:
    """testComputeSubscribedTopicNamesWithoutDeletedMembers"""
    group = ConsumerGroup("g")
    subscribe(group, "m1", "foo", "bar", "zar")
    subscribe(group, "m2", "foo", "bar")
    for member_id, regex in (("m3", "foo*"), ("m4", "foo*"), ("m5", "bar*"), ("m6", "bar*")):
        subscribe(group, member_id, topic_regex=regex)
    resolve(group, "foo*", "foo", "fooo")
    resolve(group, "bar*", "bar", "barr")
    assert subscribed_with(group, (), None, group.regexes) == {"foo", "fooo", "bar", "barr", "zar"}
    left = {"bar*": group.regexes["bar*"]}
    assert subscribed_with(group, ["m2", "m3", "m4", "m5"], None, left) == {"foo", "bar", "barr", "zar"}


@pytest.mark.parametrize(
    ("names", "regex", "expected"),
    [
        ({"foo"}, "foo*", {"foo", "fooo", "bar", "zar"}),
        ({"foo"}, "", {"foo", "bar", "zar"}),
        (set(), "foo*", {"foo", "fooo", "bar", "zar"}),
        (set(), "", {"foo", "bar", "zar"}),
        ({"new"}, "", {"foo", "bar", "zar", "new"}),
    ],
)
def test_the_topics_with_a_subscription_that_changes(names: set[str], regex: str, expected: set[str]) -> None:
    """testComputeSubscribedTopicNames"""
    group = ConsumerGroup("g")
    subscribe(group, "m1", "foo", "bar", "zar")
    subscribe(group, "m2", "foo", "bar")
    before = subscribe(group, "m3", "foo", topic_regex="foo*").subscription
    resolve(group, "foo*", "foo", "fooo")
    after = replace(before, topic_names=frozenset(names), topic_regex=regex)
    assert subscribed_with(group, ["m3"], after, group.regexes) == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("", "foo*", {"foo*"}),  # m3 joins
        ("", "bar*", {"foo*", "bar*"}),  # m4 joins
        ("foo*", "bar*", {"foo*", "bar*"}),  # m2 changes its subscription
        ("foo*", "", {"foo*"}),
    ],
)
@pytest.mark.parametrize("subscribers", [2, 1])
def test_the_regular_expressions_to_resolve(before: str, after: str, expected: set[str], subscribers: int) -> None:
    """testComputeSubscribedRegularExpressions: those that have a subscriber afterwards; the last one's is removed."""
    group = ConsumerGroup("g")
    for number in range(subscribers):
        subscribe(group, f"m{number}", topic_regex="foo*")
    if subscribers == 1 and before == "foo*":
        expected = expected - {"foo*"}
    changed = change_regex(
        group,
        ConsumerSubscription(topic_regex=before),
        ConsumerSubscription(topic_regex=after),
        Context(0),
        CoordinatorConfig(),
    )
    assert changed.resolve == expected
    removed = [event for event in changed.events if isinstance(event, e.RegexRemoved)]
    assert removed == [e.RegexRemoved("foo*")] * (subscribers == 1 and before == "foo*")
