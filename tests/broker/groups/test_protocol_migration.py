"""A group goes to the consumer protocol and back with its members, by real requests. Names are those of
ConsumerProtocolMigrationTest of Apache Kafka 4.3, which runs them with and without a pause between target assignments.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coterie.assignors.blobs import decode_assignment, encode_assignment, encode_subscription
from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.testing import LocalBroker
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.wire.messages.groups.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from coterie.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.broker.groups.test_consumer_groups import heartbeat, join, listed, owned

INCONSISTENT = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
PARTITIONS = [0, 1, 2]


class Migration:
    """A broker, and the requests of the classic member of its group."""

    def __init__(self, broker: LocalBroker, socket: BrokerSocket, *, static: bool, paused: bool) -> None:
        self.socket, self.static, self.paused = socket, static, paused
        self.orders = broker.broker.topics.by_name["orders"].topic_id
        instance_id = "i1" if static else None
        self.member_id = self.join("", instance_id=instance_id).member_id
        if not static:
            self.join(self.member_id)
        share = [SyncGroupRequestAssignment(self.member_id, encode_assignment({"orders": PARTITIONS}))]
        request = SyncGroupRequest("g", 1, self.member_id, instance_id, "consumer", "range", share)
        assert socket.request(request).error_code == ErrorCode.NONE

    def join(
        self,
        member_id: str,
        partitions: list[int] | None = None,
        *,
        instance_id: str | None = None,
        kind: str = "consumer",
        protocol: str = "range",
    ) -> JoinGroupResponse:
        metadata = encode_subscription(["orders"], {"orders": partitions} if partitions else None)
        protocols = [JoinGroupRequestProtocol(protocol, metadata)]
        request = JoinGroupRequest("g", 45_000, 300_000, member_id, instance_id, kind, protocols)
        response = self.socket.request(request)
        assert isinstance(response, JoinGroupResponse)
        return response

    def joined(self, generation: int) -> JoinGroupResponse:
        return JoinGroupResponse(0, 0, generation, "consumer", "range", "", False, self.member_id, [])

    def sync(
        self,
        generation: int,
        member_id: str | None = None,
        *,
        group: str = "g",
        kind: str = "consumer",
        protocol: str = "range",
    ) -> ErrorCode | list[int]:
        """The partitions of the assignment, or the error."""
        request = SyncGroupRequest(group, generation, member_id or self.member_id, None, kind, protocol)
        response = self.socket.request(request)
        if response.error_code:
            return error_of(response.error_code)
        assert (response.protocol_type, response.protocol_name) == ("consumer", "range")
        return sorted(partition for _, partition in decode_assignment(response.assignment))

    def heartbeat(self, generation: int, member_id: str | None = None, group: str = "g") -> ErrorCode:
        response = self.socket.request(HeartbeatRequest(group, generation, member_id or self.member_id))
        return error_of(response.error_code)

    @property
    def kinds(self) -> list[tuple[str, str, str]]:
        return [(g.protocol_type, g.group_state, g.group_type) for g in listed(self.socket)]


@pytest.fixture(params=["0", "15000"], ids=lambda interval_ms: f"interval={interval_ms}")
def migration(request: pytest.FixtureRequest) -> Iterator[Migration]:
    settings = {"group.consumer.assignment.interval.ms": request.param, "group.initial.rebalance.delay.ms": "0"}
    with LocalBroker(settings) as broker:
        broker.create_topic("orders", 3)
        socket = BrokerSocket(broker.host, broker.port)
        static = request.node.callspec.params["static"]
        yield Migration(broker, socket, static=static, paused=request.param != "0")
        socket.close()


def upgrade(story: Migration) -> None:
    """The first member of the consumer protocol joins; the classic one must join again, and commits meanwhile."""
    response = join(story.socket, "m2", instance_id="i2" if story.static else None)
    assert (response.error_code, response.member_epoch, owned(response)) == (0, 2, [])
    assert story.kinds == [("consumer", "Reconciling", "consumer")]
    assert story.heartbeat(2) == ErrorCode.ILLEGAL_GENERATION
    assert story.heartbeat(1, "unknown") == ErrorCode.UNKNOWN_MEMBER_ID
    assert story.heartbeat(1, group="unknown") == ErrorCode.UNKNOWN_MEMBER_ID
    assert story.heartbeat(1, "m2") == ErrorCode.UNKNOWN_MEMBER_ID
    assert story.heartbeat(1) == ErrorCode.REBALANCE_IN_PROGRESS
    commit_in_every_version(story)
    fetch_in_every_version(story)


def commit_in_every_version(story: Migration) -> None:
    for version in range(2, 11):
        for partition in PARTITIONS:
            topic = OffsetCommitRequestTopic(
                "orders" if version < 10 else "",
                story.orders if version >= 10 else bytes(16),
                [OffsetCommitRequestPartition(partition, 100 + 10 * version + partition, committed_metadata="")],
            )
            request = OffsetCommitRequest("g", 1, story.member_id, topics=[topic])
            (responded,) = story.socket.request(request, highest=version).topics
            assert [(p.partition_index, p.error_code) for p in responded.partitions] == [(partition, 0)], version


def fetch_in_every_version(story: Migration) -> None:
    for version in range(1, 11):
        if version < 8:
            topics = [OffsetFetchRequestTopic("orders", PARTITIONS)]
            response = story.socket.request(OffsetFetchRequest("g", topics), highest=version)
        else:
            by_id = OffsetFetchRequestTopics("orders", partition_indexes=PARTITIONS)
            if version >= 10:
                by_id = OffsetFetchRequestTopics("", story.orders, PARTITIONS)
            group = OffsetFetchRequestGroup("g", story.member_id, 1, [by_id])
            (response,) = story.socket.request(OffsetFetchRequest(groups=[group]), highest=version).groups
        (topic,) = response.topics
        assert [(p.partition_index, p.committed_offset) for p in topic.partitions] == [(0, 200), (1, 201), (2, 202)]


def downgrade(story: Migration) -> None:
    """A static member starts again with the classic protocol, a dynamic one leaves. The assignment is stale where the member
    has changed its subscription within the interval: then the group rebalances, as after every departure."""
    if story.paused:
        assert heartbeat(story.socket, "m2", 2, subscribed_topic_names=["orders", "bar"]).member_epoch == 2
    if story.static:
        assert story.join("", instance_id="i2").error_code == ErrorCode.NONE
    else:
        assert heartbeat(story.socket, "m2", -1).error_code == ErrorCode.NONE
    state = "Stable" if story.static and not story.paused else "PreparingRebalance"
    assert story.kinds == [("consumer", state, "classic")]


def take_the_rest(story: Migration) -> list[int]:
    partitions = owned(heartbeat(story.socket, "m2", 2, topic_partitions=[]))
    assert story.kinds == [("consumer", "Stable", "consumer")]
    return partitions


def refused(response: JoinGroupResponse) -> bool:
    """With Kafka's whole response: no member id, no generation, no protocol."""
    rest = (response.generation_id, response.protocol_type, response.protocol_name or None, response.leader)
    return (response.error_code, response.member_id, *rest) == (INCONSISTENT, "", -1, None, None, "")


@pytest.mark.parametrize(
    ("name", "static"),
    [
        ("testOnlineMigrationWithEagerAssignmentStrategyAndDynamicMembers", False),
        ("testOnlineMigrationWithEagerAssignmentStrategyAndStaticMembers", True),
    ],
)
def test_a_member_that_gives_all_partitions_up_to_join(name: str, static: bool, migration: Migration) -> None:
    upgrade(migration)
    assert refused(migration.join(migration.member_id, kind="connect"))
    assert migration.join(migration.member_id) == migration.joined(2)
    assert refused(migration.join("new-member", protocol="roundrobin"))
    taken = take_the_rest(migration)
    assert migration.sync(1) == ErrorCode.ILLEGAL_GENERATION
    assert migration.sync(2, group="unknown") == ErrorCode.UNKNOWN_MEMBER_ID
    assert migration.sync(2, "unknown") == ErrorCode.UNKNOWN_MEMBER_ID
    assert migration.sync(2, kind="connect") == INCONSISTENT
    assert migration.sync(2, protocol="roundrobin") == INCONSISTENT
    assert 0 < len(taken) < 3
    assert migration.sync(2) == [p for p in PARTITIONS if p not in taken]
    downgrade(migration)


@pytest.mark.parametrize(
    ("name", "static"),
    [
        ("testOnlineMigrationWithCooperativeAssignmentStrategyAndDynamicMembers", False),
        ("testOnlineMigrationWithCooperativeAssignmentStrategyAndStaticMembers", True),
    ],
)
def test_a_member_that_joins_with_its_partitions(name: str, static: bool, migration: Migration) -> None:
    upgrade(migration)
    assert migration.join(migration.member_id, PARTITIONS) == migration.joined(1)
    kept = migration.sync(1)
    assert isinstance(kept, list)
    assert len(kept) < 3
    assert migration.heartbeat(1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert migration.join(migration.member_id, kept) == migration.joined(2)
    assert migration.sync(2) == kept
    assert sorted(kept + take_the_rest(migration)) == PARTITIONS
    downgrade(migration)
