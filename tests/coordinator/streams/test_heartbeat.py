"""The heartbeat of a streams group: join, topology, epochs, fencing, static members, statuses; and its records after a
reload. Names are those of Kafka 4.4's GroupMetadataManagerTest. Partitions of an endpoint; Kafka 4.4's
EndpointToPartitionsManagerTest by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from coterie.coordinator.commands import DeleteGroup
from coterie.coordinator.consumer.image import TopicImage, TopicsImage
from coterie.coordinator.outcome import Context, CoordinatorConfig
from coterie.coordinator.shard import Shard
from coterie.coordinator.stored_records.stored import StoredRecord, record_text
from coterie.coordinator.streams.response import endpoint_partitions
from coterie.coordinator.streams.state import StreamsGroup, StreamsGroupState
from coterie.coordinator.streams.tasks import ConfiguredInternalTopic, ConfiguredSubtopology, Tasks
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.groups.join_group import JoinGroupRequest
from coterie.wire.messages.streams.streams_group_heartbeat import (
    Endpoint,
    InternalTopic,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    Topology,
)
from tests.coordinator.streams.topologies import image

TOPOLOGY = Topology(0, [Subtopology("0", ["in"], state_changelog_topics=[InternalTopic("log")])])
IN, LOG = TopicImage("in", b"1" * 16, 4), TopicImage("log", b"2" * 16, 4)
READY = TopicsImage({"in": IN, "log": LOG}, version=1)
AT_ONCE = CoordinatorConfig(group_streams_initial_rebalance_delay_ms=0, group_streams_assignment_interval_ms=0)
HERE = Endpoint("localhost", 9092)
SEPARATE = {
    "0": ConfiguredSubtopology(1, {"a"}, {}, set(), {}),
    "1": ConfiguredSubtopology(1, set(), {"b": ConfiguredInternalTopic("b", 1)}, set(), {}),
}
JOINED = {"0": ConfiguredSubtopology(5, {"a", "b"}, {}, set(), {})}


class Group:
    """The group "g" of a shard, and the records that it wrote."""

    def __init__(self, config: CoordinatorConfig = AT_ONCE, topics: TopicsImage = READY) -> None:
        self.config, self.topics, self.now_ms = config, topics, 1_000
        self.shard, self.written = Shard(config), list[StoredRecord]()
        self.created: tuple[str, ...] = ()

    @property
    def state(self) -> StreamsGroup:
        return self.shard.of_kind(StreamsGroup)["g"]

    def beat(self, member_id: str, epoch: int, owned: list[TaskIds] | None = None, **fields: Any) -> Any:
        """``owned``: the active tasks that it reports."""
        if owned is not None:
            fields |= {"active_tasks": owned, "standby_tasks": [], "warmup_tasks": []}
        request = StreamsGroupHeartbeatRequest("g", member_id, epoch, **fields)
        response = self.carry_out(request)
        assert isinstance(response, StreamsGroupHeartbeatResponse)
        return response

    def carry_out(self, command: Any) -> Any:
        ctx = Context(self.now_ms, "token", "fresh", 1, "client", "/host", self.topics)
        decision = self.shard.decide(command, ctx)
        self.written += decision.records
        self.created = tuple(topic.name for topic in decision.outcome.internal_topics)
        self.shard.commit(decision)
        return decision.outcome.replies[0].response if decision.outcome.replies else None

    def join(self, member_id: str, **fields: Any) -> Any:
        fields = {"rebalance_timeout_ms": 5_000, "topology": TOPOLOGY, "process_id": member_id} | fields
        return self.beat(member_id, 0, [], **fields)

    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        for command in self.shard.expired(self.now_ms):
            self.carry_out(command)

    def reloaded(self) -> StreamsGroup:
        shard = Shard(self.config)
        for record in self.written:
            shard.load(record.key, record.value, self.now_ms)
        return shard.of_kind(StreamsGroup)["g"]


def statuses(response: StreamsGroupHeartbeatResponse) -> list[int]:
    return [status.status_code for status in response.status or []]


def active(response: StreamsGroupHeartbeatResponse) -> list[int] | None:
    return None if response.active_tasks is None else [p for t in response.active_tasks for p in t.partitions]


def test_a_new_member_gets_every_task() -> None:
    """testJoinEmptyStreamsGroup"""
    group = Group()
    joined = group.join("a")
    assert (joined.error_code, joined.member_epoch, active(joined)) == (0, 2, [0, 1, 2, 3])
    assert (joined.heartbeat_interval_ms, joined.task_offset_interval_ms, statuses(joined)) == (5_000, 60_000, [])
    assert [record_text(r.key, r.value).split(" g ")[1].split(",")[0] for r in group.written] == [
        "member a of process a",
        "topology of epoch 0: 0 of in",
        "epoch 2",
        "target of a: 0_0 0_1 0_2 0_3",
        "target assignment of epoch 2",
        "member a epoch 2 after 0",
    ]
    assert group.state.phase is StreamsGroupState.STABLE


def test_a_second_member_waits_until_the_first_has_revoked() -> None:
    """testStreamsReconciliationProcess"""
    group = Group()
    group.join("a")
    second = group.join("b")
    assert (second.member_epoch, active(second)) == (3, [])
    revoking = group.beat("a", 2)
    kept = active(revoking)
    assert kept is not None
    assert (revoking.member_epoch, len(kept)) == (2, 2)
    assert group.beat("b", 3).active_tasks is None
    done = group.beat("a", 2, [TaskIds("0", kept)])
    assert done.member_epoch == 3
    released = group.beat("b", 3)
    assert sorted((active(released) or []) + kept) == [0, 1, 2, 3]
    assert group.state.phase is StreamsGroupState.STABLE


def test_a_member_that_does_not_revoke_is_fenced_at_its_rebalance_timeout() -> None:
    """testStreamsRebalanceTimeoutExpiration"""
    group = Group()
    group.join("a")
    group.join("b")
    group.beat("a", 2)
    group.pass_time(4_999)
    assert "a" in group.state.members
    group.pass_time(1)
    assert list(group.state.members) == ["b"]


def test_a_silent_member_is_fenced_at_its_session_timeout() -> None:
    """testStreamsSessionTimeoutExpiration"""
    group = Group()
    group.join("a")
    group.pass_time(45_000)
    assert group.state.phase is StreamsGroupState.EMPTY
    assert group.reloaded().phase is StreamsGroupState.EMPTY


def test_the_topics_of_a_topology_are_named_until_they_exist() -> None:
    """testStreamsGroupMemberJoiningWithMissingSourceTopic, testStreamsGroupMemberJoiningWithMissingInternalTopic"""
    group = Group(topics=TopicsImage({}, version=1))
    assert statuses(group.join("a")) == [1]
    group.topics = TopicsImage({"in": IN}, version=2)
    missing = group.beat("a", 2)
    assert (statuses(missing), group.created) == ([3], ("log",))
    assert group.state.phase is StreamsGroupState.NOT_READY
    group.topics = replace(READY, version=3)
    ready = group.beat("a", missing.member_epoch)
    assert (statuses(ready), group.created, active(ready)) == ([], (), [0, 1, 2, 3])
    assert group.state.phase is StreamsGroupState.STABLE


def test_the_first_target_waits_for_the_initial_delay() -> None:
    """testStreamsGroupInitialRebalanceDelay"""
    group = Group(replace(AT_ONCE, group_streams_initial_rebalance_delay_ms=3_000))
    assert (statuses(group.join("a")), statuses(group.join("b"))) == ([5], [5])
    group.pass_time(2_999)
    assert statuses(group.beat("a", 1)) == [5]
    group.pass_time(1)
    got = [group.beat(member, 1) for member in ("a", "b")]
    assert sorted(p for response in got for p in active(response) or []) == [0, 1, 2, 3]


def test_the_next_target_waits_for_the_interval() -> None:
    """testStreamsGroupAssignmentIntervalDelaysAssignment"""
    group = Group(replace(AT_ONCE, group_streams_assignment_interval_ms=1_000))
    assert statuses(group.join("a")) == []
    assert statuses(group.join("b")) == [5]
    group.now_ms += 1_000
    assert statuses(group.beat("b", 2)) == []


def test_shutdown_reaches_every_member() -> None:
    """testStreamsGroupHeartbeatWithShutdownApplication"""
    group = Group()
    epoch = group.join("a").member_epoch
    group.join("b")
    assert statuses(group.beat("a", epoch, shutdown_application=True)) == [4]
    later = group.beat("b", 3)
    assert statuses(later) == [4]
    assert later.status[0].status_detail.startswith("Streams group member a encountered a fatal error")


def test_a_static_member_comes_back_with_its_tasks() -> None:
    """testReplaceStaticMemberInStreamsGroup"""
    group = Group()
    epoch = group.join("a", instance_id="i", process_id="p").member_epoch
    refused = group.join("a2", instance_id="i", process_id="p")
    assert refused.error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert group.beat("a", -2, instance_id="i").member_epoch == -2
    back = group.join("a2", instance_id="i", process_id="p")
    assert (back.member_epoch, active(back)) == (epoch, [0, 1, 2, 3])
    assert group.beat("a", epoch, instance_id="i").error_code == ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize(
    ("member_id", "epoch", "fields", "code"),
    [
        pytest.param("a", 9, {}, ErrorCode.FENCED_MEMBER_EPOCH, id="testStreamsHeartbeatFencedMemberEpoch"),
        pytest.param("x", 2, {}, ErrorCode.UNKNOWN_MEMBER_ID, id="testStreamsUnknownMemberId"),
        pytest.param("", 2, {}, ErrorCode.INVALID_REQUEST, id="an-empty-member-id"),
        pytest.param("a", -3, {}, ErrorCode.INVALID_REQUEST, id="an-epoch-below-2"),
        pytest.param("a", 2, {"topology": TOPOLOGY}, ErrorCode.INVALID_REQUEST, id="a-topology-without-joining"),
        pytest.param("a", 2, {"active_tasks": []}, ErrorCode.INVALID_REQUEST, id="one-role-of-three"),
        pytest.param(
            "a", 2, {"owned": [TaskIds("9", [0])]}, ErrorCode.INVALID_REQUEST, id="testStreamsOwnedTasks-unknown"
        ),
        pytest.param(
            "a", 2, {"owned": [TaskIds("0", [4])]}, ErrorCode.INVALID_REQUEST, id="testStreamsOwnedTasks-range"
        ),
    ],
)
def test_refused_heartbeats(member_id: str, epoch: int, fields: dict[str, Any], code: ErrorCode) -> None:
    group = Group()
    group.join("a")
    assert group.beat(member_id, epoch, **fields).error_code == code


def test_a_topology_does_not_change() -> None:
    """testStreamsUpdatingMemberMetadataTriggersNewTargetAssignment has the epochs; a newer topology is refused, an older one is
    stale."""
    group = Group()
    group.join("a", topology=replace_epoch(1))
    assert group.join("b", topology=replace_epoch(2)).error_code == ErrorCode.INVALID_REQUEST
    assert statuses(group.join("c", topology=replace_epoch(0))) == [0]


def replace_epoch(epoch: int) -> Topology:
    return Topology(epoch, TOPOLOGY.subtopologies)


def test_endpoints_reach_every_member() -> None:
    """testStreamsGroupEndpointInformation"""
    group = Group()
    group.join("a", user_endpoint=Endpoint("h", 1))
    shown = group.beat("a", 2, endpoint_information_epoch=-1)
    ((endpoint, topics),) = [(e.user_endpoint, e.active_partitions) for e in shown.partitions_by_user_endpoint]
    assert (endpoint.host, [(t.topic, t.partitions) for t in topics]) == ("h", [("in", [0, 1, 2, 3])])
    assert group.beat("a", 2, endpoint_information_epoch=0).partitions_by_user_endpoint is None


def test_the_group_is_the_same_after_a_reload() -> None:
    """testReplayStreamsGroupCurrentMemberAssignment, testReplayStreamsGroupTopology, testReplayStreamsGroupMetadata"""
    group = Group()
    group.join("a", instance_id="i", client_tags=[], user_endpoint=Endpoint("h", 1))
    group.join("b")
    group.beat("a", 2, instance_id="i")
    loaded = group.reloaded()
    for name in ("members", "target", "owners", "topology", "group_epoch", "assignment_epoch", "assignment_configs"):
        assert getattr(loaded, name) == getattr(group.state, name), name
    assert loaded.phase is group.state.phase is StreamsGroupState.RECONCILING


def test_other_kinds_of_group_keep_the_id() -> None:
    """testClassicGroupJoinWithNonEmptyStreamsGroup, testClassicGroupJoinWithEmptyStreamsGroup, testStreamsGroupDelete"""
    group = Group()
    group.join("a")
    join = JoinGroupRequest("g", 10_000, 10_000, "", protocol_type="consumer", protocols=[])
    assert group.carry_out(join).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    (result,) = group.carry_out(DeleteGroup("g")).results
    assert result.error_code == ErrorCode.NON_EMPTY_GROUP
    group.beat("a", -1)
    (result,) = group.carry_out(DeleteGroup("g")).results
    assert result.error_code == ErrorCode.NONE
    assert not group.shard.every_group()


def tasks(active: str = "", standby: str = "", warmup: str = "") -> Tasks:
    """`0_1 0_2` are two tasks of subtopology 0."""
    roles = [
        frozenset((t.split("_")[0], int(t.split("_")[1])) for t in text.split()) for text in (active, standby, warmup)
    ]
    return Tasks(*roles)


@pytest.mark.parametrize(
    ("subtopologies", "counts", "owned", "active", "standby"),
    [
        pytest.param(
            SEPARATE,
            (3, 3),
            tasks("0_0 0_1 0_2", "1_0 1_1 1_2"),
            {"a": [0, 1, 2]},
            {"b": [0, 1, 2]},
            id="testEndpointToPartitionsWithStandbyTaskAssignments",
        ),
        pytest.param(
            SEPARATE,
            (3, 3),
            tasks("0_0 0_1 0_2", "1_0", "1_1 1_2"),
            {"a": [0, 1, 2]},
            {"b": [0, 1, 2]},
            id="testEndpointToPartitionsWithStandbyAndWarmupTasksInSameSubtopology",
        ),
        pytest.param(
            JOINED,
            (5, 2),
            tasks("0_1 0_3", "0_4"),
            {"a": [1, 3], "b": [1]},
            {"a": [4]},
            id="testEndpointToPartitionsExcludesPartitionsMissingFromSmallerSourceTopic",
        ),
        pytest.param(
            JOINED,
            (2, 5),
            tasks("0_0 0_1 0_2 0_3 0_4"),
            {"a": [0, 1], "b": [0, 1, 2, 3, 4]},
            {},
            id="testEndpointToPartitionsWithTwoTopicsAndDifferentPartitions",
        ),
    ],
)
def test_partitions_of_an_endpoint(
    subtopologies: dict[str, ConfiguredSubtopology],
    counts: tuple[int, int],
    owned: Tasks,
    active: dict[str, list[int]],
    standby: dict[str, list[int]],
) -> None:
    served = endpoint_partitions(HERE, owned, subtopologies, image(dict(zip("ab", counts, strict=True))))
    assert served.user_endpoint == HERE
    assert {t.topic: t.partitions for t in served.active_partitions} == active
    assert {t.topic: t.partitions for t in served.standby_partitions} == standby


def test_a_deleted_source_topic() -> None:
    with pytest.raises(Refusal, match="Topic a not found in metadata image"):
        endpoint_partitions(HERE, tasks("0_0"), JOINED, image({"b": 1}))
