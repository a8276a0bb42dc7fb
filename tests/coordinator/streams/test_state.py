"""A streams group and what it tells: its members, its phase in lists, fetches of offsets, its settings, and groups of the
other kinds that have its id. Names are those of Kafka 4.4's StreamsGroupTest, StreamsGroupMemberTest and
GroupMetadataManagerTest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from coterie.broker.settings import BrokerSettings
from coterie.broker.settings.groups import check_streams_group_settings, config_of_group
from coterie.broker.settings.tables.group_table import StreamsConfig
from coterie.configuration import SettingError
from coterie.coordinator.consumer.offsets import check_fetch
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.shard import Shard
from coterie.coordinator.streams import events as s
from coterie.coordinator.streams.replay import replay_streams
from coterie.coordinator.streams.state import (
    CurrentTasks,
    OwnedTasks,
    StreamsGroup,
    StreamsMetadata,
)
from coterie.coordinator.streams.target import assignor_name
from coterie.coordinator.streams.tasks import Tasks
from coterie.coordinator.views.classic_group import list_group
from coterie.coordinator.views.consumer_group import describe_consumer_group
from coterie.coordinator.views.share_group import describe_share_group
from coterie.coordinator.views.streams_group import describe_streams_group
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.coordinator.streams.test_heartbeat import AT_ONCE, READY, TOPOLOGY, Group, active

MEMBER = StreamsMetadata("i", "r", "client", "/host", 1_000, 1, "process", ("h", 9), (("key", "value"),))


def group_of(*events: s.StreamsEvent) -> StreamsGroup:
    group = StreamsGroup("g")
    for event in events:
        replay_streams(group, event, 0)
    return group


def test_members_come_and_go() -> None:
    """testGetOrCreateUninitializedMember, testGetOrCreateDefaultMember, testGetMemberOrThrow, testUpdateMember,
    testBuilderWithoutDefaults, testBuilderWithDefaults, testBuilderNewMember, testBuilderUpdateMemberEpoch,
    testBuilderUpdateWithStreamsGroupMemberMetadataValue, testBuilderUpdateWithConsumerGroupCurrentMemberAssignmentValue: each
    of a member's two records makes it, and changes its own half."""
    current = CurrentTasks(5, 4, assigned=OwnedTasks({("0", 1): 5}))
    group = group_of(s.StreamsMetadataStored("m", MEMBER), s.CurrentTasksStored("n", current))
    assert group.members["m"].metadata == MEMBER
    assert group.members["m"].current == CurrentTasks(0, 0)
    assert group.members["n"].current == current
    assert group.members["n"].metadata == StreamsMetadata()
    replay_streams(group, s.CurrentTasksStored("m", current), 0)
    assert (group.members["m"].metadata, group.members["m"].current) == (MEMBER, current)
    replay_streams(group, s.StreamsMetadataStored("m", replace(MEMBER, process_id="other")), 0)
    assert (group.members["m"].metadata.process_id, group.members["m"].current) == ("other", current)


def test_static_members_are_known_by_their_instance_ids() -> None:
    """testNoStaticMember, testGetStaticMemberByInstanceId, testRemoveMember, testRemoveStaticMember"""
    group = group_of(s.StreamsMetadataStored("d", StreamsMetadata()))
    assert group.static_member("i") is None
    for member_id in ("m", "n"):  # n takes the place of m, whose removal then changes nothing
        replay_streams(group, s.StreamsMetadataStored(member_id, MEMBER), 0)
        static = group.static_member("i")
        assert static is not None
        assert static.member_id == member_id
    for gone in ("m", "n", "d"):
        assert gone in group.members
        replay_streams(group, s.CurrentTasksRemoved(gone), 0)
        replay_streams(group, s.StreamsMetadataRemoved(gone), 0)
        assert gone not in group.members
        assert ("i" in group.static_members) == (gone == "m")


def test_what_a_request_leaves_out_stays() -> None:
    """testBuilderMaybeUpdateMember"""
    group = Group()
    group.join("a", rack_id="r", instance_id="i", process_id="p", rebalance_timeout_ms=7_000, client_tags=[])
    before = group.state.members["a"].metadata
    group.beat("a", 2, instance_id="i")
    assert group.state.members["a"].metadata == before
    group.beat("a", 2, instance_id="i", rack_id="s")
    group.beat("a", group.state.group_epoch, instance_id="i", rebalance_timeout_ms=8_000)
    assert group.state.members["a"].metadata == replace(before, rack_id="s", rebalance_timeout_ms=8_000)


def test_a_changed_assignment_is_in_the_response() -> None:
    """testHasAssignedTasksChanged"""
    group = Group()
    group.join("a")
    assert active(group.beat("a", 2)) is None
    group.join("b")
    assert active(group.beat("a", 2)) == [0, 1]


def test_described_members() -> None:
    """testAsStreamsGroupDescribeMember, testAsStreamsGroupDescribeWithTargetAssignmentNull,
    testAsStreamsGroupDescribeMemberWithEmptyOrNullTaskOffsets, testAsDescribedGroup, testStreamsGroupDescribeNoErrors,
    testAsStreamsGroupDescribeTopicInfo"""
    current = CurrentTasks(5, 4, assigned=OwnedTasks({("0", 1): 5}, frozenset({("1", 2)}), frozenset({("2", 3)})))
    group = group_of(
        s.StreamsMetadataStored("m", MEMBER), s.CurrentTasksStored("m", current), s.StreamsEpochStored(6, 0, -1)
    )
    (member,) = describe_streams_group(group, "g", AT_ONCE).members
    assert (member.member_id, member.member_epoch, member.instance_id, member.rack_id) == ("m", 5, "i", "r")
    assert (member.client_id, member.client_host, member.topology_epoch) == ("client", "/host", 1)
    assert (member.process_id, member.is_classic) == ("process", False)
    assert member.user_endpoint is not None
    assert (member.user_endpoint.host, member.user_endpoint.port) == ("h", 9)
    assert [(tag.key, tag.value) for tag in member.client_tags] == [("key", "value")]
    has = member.assignment
    tasks = [
        [(t.subtopology_id, t.partitions) for t in r] for r in (has.active_tasks, has.standby_tasks, has.warmup_tasks)
    ]
    assert tasks == [[("0", [1])], [("1", [2])], [("2", [3])]]
    assert (member.target_assignment.active_tasks, member.task_offsets, member.task_end_offsets) == ([], [], [])
    replay_streams(group, s.TaskTargetStored("m", Tasks(frozenset({("0", 7)}))), 0)
    described = describe_streams_group(group, "g", AT_ONCE)
    assert described.members[0].target_assignment.active_tasks[0].partitions == [7]
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("NotReady", 6, 1)
    assert described.topology is None


def test_a_group_in_a_list() -> None:
    """testAsListedGroup, testIsInStatesCaseInsensitiveAndUnderscored has the names of states, which ListGroups compares."""
    group = Group()
    group.join("a")
    listed = list_group(group.state)
    assert (listed.group_id, listed.protocol_type, listed.group_state, listed.group_type) == (
        "g",
        "streams",
        "Stable",
        "streams",
    )


@pytest.mark.parametrize(
    ("member_id", "epoch", "code"),
    [
        (None, -1, None),
        ("stranger", 0, ErrorCode.UNKNOWN_MEMBER_ID),
        ("a", 10, ErrorCode.STALE_MEMBER_EPOCH),
        ("a", 1, ErrorCode.STALE_MEMBER_EPOCH),
        ("a", 2, None),
    ],
)
def test_who_may_fetch_offsets(member_id: str | None, epoch: int, code: ErrorCode | None) -> None:
    """testValidateOffsetFetch"""
    group = Group()
    group.join("a")
    if code is None:
        check_fetch(group.state, member_id, epoch)
        return
    with pytest.raises(Refusal) as refused:
        check_fetch(group.state, member_id, epoch)
    assert refused.value.code is code


DEFAULTS = BrokerSettings({})
# name | the group's own settings | heartbeat interval, session timeout, standbys
OWN: list[Any] = [
    pytest.param(
        {
            "streams.session.timeout.ms": "50000",
            "streams.heartbeat.interval.ms": "10000",
            "streams.num.standby.replicas": "1",
        },
        (10_000, 50_000, "1"),
        id="testStreamsGroupDynamicConfigs",
    ),
    pytest.param(
        {
            "streams.session.timeout.ms": "70000",
            "streams.heartbeat.interval.ms": "1",
            "streams.num.standby.replicas": "100",
        },
        (5_000, 60_000, "2"),
        id="testStreamsGroupEvaluatedConfigs",
    ),
    pytest.param({}, (5_000, 45_000, "0"), id="testDynamicBrokerAndGroupConfigs"),
]


@pytest.mark.parametrize(("own", "expected"), OWN)
def test_a_groups_own_settings_count_from_the_next_heartbeat(
    own: Mapping[str, str], expected: tuple[int, int, str]
) -> None:
    group, configs = Group(), dict[str, CoordinatorConfig]()
    group.shard = Shard(AT_ONCE, own_configs=configs)
    joined = group.join("a")
    assert (joined.heartbeat_interval_ms, group.state.timers["a"].session_ms) == (5_000, group.now_ms + 45_000)
    assert group.state.assignment_configs == {"num.standby.replicas": "0"}
    configs["g"] = config_of_group(AT_ONCE, DEFAULTS.current, DEFAULTS.share, DEFAULTS.streams, own)
    response = group.beat("a", 2)
    session_ms = group.state.timers["a"].session_ms - group.now_ms
    standbys = group.state.assignment_configs["num.standby.replicas"]
    assert (response.heartbeat_interval_ms, session_ms, standbys) == expected


def test_a_broker_without_a_sticky_assignor() -> None:
    """testStreamsGroupDefaultsToFirstAssignorWhenNoStickyConfigured: the first of the list, and there must be one."""
    with pytest.raises(SettingError, match=r"group\.streams\.assignors must name"):
        check_streams_group_settings(StreamsConfig(group_streams_assignors=()))
    with pytest.raises(SettingError, match=r"group\.streams\.assignors"):
        BrokerSettings({"group.streams.assignors": "other"})
    assert assignor_name(CoordinatorConfig(group_streams_assignors=("first", "second"))) == "first"
    assert (
        assignor_name(CoordinatorConfig(group_streams_assignors=("first", "second"), streams_assignor_name="second"))
        == "second"
    )


def test_an_assignor_that_fails_leaves_the_group_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """testStreamsTaskAssignorExceptionOnRegularHeartbeat"""

    def failing(*_: object) -> Any:
        raise RuntimeError("Assignment failed.")

    group = Group()
    monkeypatch.setitem(
        __import__("coterie.coordinator.streams.target", fromlist=["x"]).TASK_ASSIGNORS, "sticky", failing
    )
    with pytest.raises(RuntimeError, match="Assignment failed"):
        group.join("a")
    assert not group.written
    assert group.shard.group("g") is None


SHARE = ShareGroupHeartbeatRequest("g", "s", 0, subscribed_topic_names=["in"])


def test_a_share_group_has_the_id() -> None:
    """testStreamsGroupHeartbeatOnShareGroup, testStreamsGroupDescribeOnShareGroup"""
    group = Group()
    assert group.carry_out(SHARE).error_code == ErrorCode.NONE
    assert group.join("a").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    described = describe_streams_group(group.shard.group("g"), "g", AT_ONCE)
    assert described.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_streams_group_has_the_id() -> None:
    """testShareGroupHeartbeatOnStreamsGroup, testConsumerGroupDescribeOnStreamsGroup, testShareGroupDescribeOnStreamsGroup"""
    group = Group()
    group.join("a")
    assert group.carry_out(SHARE).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert describe_consumer_group(group.state, "g", READY, {}).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert describe_share_group(group.state, "g", READY).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_of_tasks_come_with_tasks() -> None:
    """testStreamsGroupHeartbeatAcceptsTaskOffsetsAndWarmupTasks"""
    group = Group()
    group.join("a")
    assert group.beat("a", 2, [], task_offsets=[], task_end_offsets=[]).error_code == ErrorCode.NONE
    assert group.state.restored["a"].offsets == {}


def test_the_epochs_of_a_plugin_stay_as_they_were_read() -> None:
    """testTopologyDescriptionPluginEpochs: through every new epoch."""
    group = Group()
    group.join("a")
    configs = (("num.standby.replicas", "0"),)
    replay_streams(group.state, s.StreamsEpochStored(2, group.state.metadata_hash, 0, configs, 3, 4), 0)
    for change in (lambda: group.join("b"), lambda: group.beat("b", -1)):
        before = group.state.group_epoch
        change()
        assert group.state.group_epoch == before + 1
        assert (group.state.stored_description_epoch, group.state.failed_description_epoch) == (3, 4)


def test_a_topology_is_kept() -> None:
    group = Group()
    group.join("a")
    assert group.state.topology is not None
    assert group.state.topology.subtopologies == TOPOLOGY.subtopologies
