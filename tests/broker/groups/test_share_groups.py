"""Share groups over the wire: a member joins, its partitions get a state and are assigned, offsets are described, altered and
deleted, and the group goes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from coterie.cli.groups.groups import groups
from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.coordinator.journal.journal_timeline import JournalTimeline
from coterie.testing import ErrorCode, LocalBroker
from coterie.wire.messages.groups.delete_groups import DeleteGroupsRequest
from coterie.wire.messages.groups.describe_groups import DescribeGroupsRequest
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.wire.messages.groups.list_groups import ListGroupsRequest
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.wire.messages.settings.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from coterie.wire.messages.share.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from coterie.wire.messages.share.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from coterie.wire.messages.share.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from coterie.wire.messages.share.share_group_describe import ShareGroupDescribeRequest
from coterie.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.awaiting import until_in_thread


@pytest.fixture
def socket() -> Iterator[BrokerSocket]:
    with LocalBroker({"group.share.assignment.interval.ms": "0"}) as broker:
        broker.create_topic("t", 2)
        opened = BrokerSocket(broker.host, broker.port)
        yield opened
        opened.close()


def heartbeat(socket: BrokerSocket, member: str, epoch: int, topics: list[str] | None = None, group: str = "g") -> Any:
    return socket.request(ShareGroupHeartbeatRequest(group, member, epoch, subscribed_topic_names=topics))


def joined(socket: BrokerSocket, member: str) -> list[int]:
    """The member joins and gets its partitions."""
    epoch = heartbeat(socket, member, 0, ["t"]).member_epoch
    partitions: list[int] = []

    def assigned() -> bool:
        nonlocal epoch
        response = heartbeat(socket, member, epoch, ["t"])
        assert response.error_code == 0, response
        epoch = response.member_epoch
        partitions[:] = [p for topic in response.assignment.topic_partitions for p in topic.partitions]
        return bool(partitions)

    until_in_thread(assigned, f"{member} has partitions")
    return partitions


def offsets(socket: BrokerSocket) -> list[tuple[str, int, int, int]]:
    request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup("g", None)])
    (group,) = socket.request(request).groups
    assert group.error_code == 0
    return [(t.topic_name, p.partition_index, p.start_offset, p.lag) for t in group.topics for p in t.partitions]


def test_members_get_partitions_once_these_have_a_state(socket: BrokerSocket) -> None:
    first = heartbeat(socket, "a", 0, ["t"])
    assert (first.error_code, first.member_epoch, first.assignment.topic_partitions) == (0, 2, [])
    assert joined(socket, "a") == [0, 1]
    joined(socket, "b")
    (group,) = socket.request(ShareGroupDescribeRequest(["g"])).groups
    assert (group.error_code, group.group_state, group.assignor_name) == (0, "Stable", "simple")
    assert sorted(m.member_id for m in group.members) == ["a", "b"]
    listed = socket.request(ListGroupsRequest()).groups
    assert [(g.group_id, g.protocol_type, g.group_type) for g in listed] == [("g", "share", "share")]
    assert offsets(socket) == [("t", 0, -1, -1), ("t", 1, -1, -1)]


def test_a_member_leaves_and_is_fenced(socket: BrokerSocket) -> None:
    joined(socket, "a")
    assert heartbeat(socket, "a", 999).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert heartbeat(socket, "b", 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    left = heartbeat(socket, "a", -1)
    assert (left.error_code, left.member_epoch) == (0, -1)
    assert heartbeat(socket, "a", 1, group="other").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    for request in (
        ShareGroupHeartbeatRequest("g", "", 0, subscribed_topic_names=["t"]),
        ShareGroupHeartbeatRequest("", "a", 0, subscribed_topic_names=["t"]),
        ShareGroupHeartbeatRequest("g", "a", 0),
        ShareGroupHeartbeatRequest("g", "a", -2),
        ShareGroupHeartbeatRequest("g", "a" * 37, 0, subscribed_topic_names=["t"]),
    ):
        assert socket.request(request).error_code == ErrorCode.INVALID_REQUEST


def test_offsets_are_altered_and_deleted_without_members(socket: BrokerSocket) -> None:
    alter = AlterShareGroupOffsetsRequest(
        "g",
        [
            AlterShareGroupOffsetsRequestTopic("t", [AlterShareGroupOffsetsRequestPartition(n, 5) for n in (0, 7)]),
            AlterShareGroupOffsetsRequestTopic("none", [AlterShareGroupOffsetsRequestPartition(0, 5)]),
        ],
    )
    response = socket.request(alter)
    codes = [(t.topic_name, p.partition_index, p.error_code) for t in response.responses for p in t.partitions]
    assert (response.error_code, codes) == (0, [("none", 0, 3), ("t", 0, 0), ("t", 7, 3)])
    assert offsets(socket) == [("t", 0, 5, -5)]
    delete = DeleteShareGroupOffsetsRequest(
        "g", [DeleteShareGroupOffsetsRequestTopic("t"), DeleteShareGroupOffsetsRequestTopic("none")]
    )
    assert [(t.topic_name, t.error_code) for t in socket.request(delete).responses] == [("t", 0), ("none", 3)]
    assert offsets(socket) == []
    joined(socket, "a")
    assert socket.request(alter).error_code == socket.request(delete).error_code == ErrorCode.NON_EMPTY_GROUP
    absent = DeleteShareGroupOffsetsRequest("absent", [DeleteShareGroupOffsetsRequestTopic("t")])
    assert socket.request(absent).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_is_deleted_with_its_states(socket: BrokerSocket) -> None:
    joined(socket, "a")
    assert socket.request(DeleteGroupsRequest(["g"])).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    heartbeat(socket, "a", -1)
    assert socket.request(DeleteGroupsRequest(["g"])).results[0].error_code == 0
    assert socket.request(ListGroupsRequest()).groups == []
    joined(socket, "a")  # of a state that was left the epoch would be newer, and initializing it refused
    assert offsets(socket) == [("t", 0, -1, -1), ("t", 1, -1, -1)]


def test_requests_of_other_kinds_of_group_are_refused(socket: BrokerSocket) -> None:
    joined(socket, "a")
    join = JoinGroupRequest("g", 10_000, 10_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"m")])
    assert socket.request(join, highest=3).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    commit = OffsetCommitRequest(
        "g", topics=[OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 1)])]
    )
    (topic,) = socket.request(commit, highest=9).topics
    assert topic.partitions[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND
    (group,) = socket.request(DescribeGroupsRequest(["g"])).groups
    assert (group.error_code, group.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    socket.request(OffsetCommitRequest("simple", topics=commit.topics), highest=8)
    assert heartbeat(socket, "a", 0, ["t"], group="simple").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_groups_own_heartbeat_interval_is_in_force(socket: BrokerSocket) -> None:
    altered = AlterConfigsResource(32, "g", [AlterableConfig("share.heartbeat.interval.ms", 0, "6000")])
    assert socket.request(IncrementalAlterConfigsRequest([altered])).responses[0].error_code == 0
    assert heartbeat(socket, "a", 0, ["t"]).heartbeat_interval_ms == 6_000
    assert heartbeat(socket, "a", 0, ["t"], group="other").heartbeat_interval_ms == 5_000
    beyond = AlterConfigsResource(32, "g", [AlterableConfig("share.heartbeat.interval.ms", 0, "16000")])
    refused = socket.request(IncrementalAlterConfigsRequest([beyond])).responses[0]
    assert refused.error_code == ErrorCode.INVALID_CONFIG


def test_the_admin_describes_and_explains_a_share_group() -> None:
    """By `coterie groups list`, `describe` and `why`; a share group has no committed offsets."""
    with LocalBroker({"group.share.assignment.interval.ms": "0"}) as broker:
        broker.create_topic("t", 2)
        socket = BrokerSocket(broker.host, broker.port)
        joined(socket, "m")
        socket.close()
        server = ["--bootstrap-server", broker.bootstrap_servers]
        shown = {verb: CliRunner().invoke(groups, [*verb.split(), *server]) for verb in ("list", "describe g", "why g")}
        assert all(result.exit_code == 0 for result in shown.values()), [result.output for result in shown.values()]
        assert "share" in shown["list"].output
        assert "GROUP_ID_NOT_FOUND" not in shown["list"].output
        assert "every member has its part of the target assignment" in shown["why g"].output


def test_a_lane_of_the_timeline_has_both_members() -> None:
    with LocalBroker({"group.share.assignment.interval.ms": "0"}) as broker:
        broker.create_topic("t", 2)
        socket = BrokerSocket(broker.host, broker.port)
        joined(socket, "m")
        joined(socket, "n")
        socket.close()
        timeline = JournalTimeline("g")
        for line in broker.journal:
            timeline.add(line)
        assert timeline.timeline.owners[-1] == "coterie-m + coterie-n"
