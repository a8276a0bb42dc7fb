"""The admin's calls about the start offsets of share groups, where one thing of several is refused."""

from __future__ import annotations

import pytest

from coterie.client import Admin, ErrorCode, KafkaError, Producer, SharePartitionOffset, TopicPartition
from coterie.client.blocking import BlockingAdmin
from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.testing import LocalBroker, simulate
from coterie.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatRequest

GOOD, BAD = TopicPartition("orders", 0), TopicPartition("none", 0)
GROUP, UNKNOWN = "jobs", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_altered_listed_and_deleted(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("orders", 2)
    coterie_broker.produce("orders", b"1", b"2", b"3", partition=0)
    with BlockingAdmin(coterie_broker.client_settings()) as admin:
        admin.alter_share_group_offsets(GROUP, {GOOD: 1})
        listed = {GOOD: SharePartitionOffset(1, 0, 2)}
        assert admin.list_share_group_offsets(GROUP) == listed
        assert admin.list_share_group_offsets(GROUP, [GOOD, ("orders", 1)]) == listed
        admin.delete_share_group_offsets(GROUP, ["orders"])
        assert admin.list_share_group_offsets(GROUP) == {}


def test_errors_receives_what_is_refused_and_the_others_are_done(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("orders", 1)
    with BlockingAdmin(coterie_broker.client_settings()) as admin:
        errors: dict[TopicPartition, KafkaError] = {}
        admin.alter_share_group_offsets(GROUP, {BAD: 0, GOOD: 0}, errors=errors)
        assert {tp: error.code for tp, error in errors.items()} == {BAD: UNKNOWN}
        assert admin.list_share_group_offsets(GROUP).keys() == {GOOD}
        by_topic: dict[str, KafkaError] = {}
        admin.delete_share_group_offsets(GROUP, ["none", "orders"], errors=by_topic)
        assert {topic: error.code for topic, error in by_topic.items()} == {"none": UNKNOWN}
        assert admin.list_share_group_offsets(GROUP) == {}
        with pytest.raises(KafkaError, match="none-0: ") as refused:
            admin.alter_share_group_offsets(GROUP, {BAD: 0, GOOD: 0})
        assert refused.value.code == UNKNOWN
        assert admin.list_share_group_offsets(GROUP).keys() == {GOOD}


def test_a_group_with_members_is_refused_and_one_that_does_not_exist_has_no_offsets(
    coterie_broker: LocalBroker,
) -> None:
    coterie_broker.create_topic("orders", 1)
    socket = BrokerSocket(coterie_broker.host, coterie_broker.port)
    joined = socket.request(ShareGroupHeartbeatRequest(GROUP, "m", 0, subscribed_topic_names=["orders"]))
    assert not joined.error_code
    with BlockingAdmin(coterie_broker.client_settings()) as admin:
        for call in (
            lambda: admin.alter_share_group_offsets(GROUP, {GOOD: 0}),
            lambda: admin.delete_share_group_offsets(GROUP, ["orders"]),
        ):
            with pytest.raises(KafkaError) as refused:
                call()
            assert refused.value.code == ErrorCode.NON_EMPTY_GROUP
        assert admin.list_share_group_offsets("nobody") == {}
    socket.close()


def test_a_negative_offset_is_refused_before_anything_is_sent(coterie_broker: LocalBroker) -> None:
    with (
        BlockingAdmin(coterie_broker.client_settings()) as admin,
        pytest.raises(ValueError, match="an offset must be from 0"),
    ):
        admin.alter_share_group_offsets(GROUP, {GOOD: -1})


def test_each_lag_is_that_of_the_leader() -> None:
    """Of a cluster whose brokers have a third of the partitions each, and of a partition without a leader."""
    with simulate(1) as world:
        broker = world.broker({"default.replication.factor": "1"}, brokers=3)

        async def story() -> None:
            address = {"bootstrap.servers": broker.bootstrap_servers}
            async with Admin(address) as admin, Producer(address) as producer:
                await admin.create_topic("orders", 3)
                for partition in range(3):
                    for _ in range(5):
                        await producer.send_and_wait("orders", b"v", partition=partition)
                await admin.alter_share_group_offsets(GROUP, {("orders", n): 2 for n in range(3)})
                offsets = await admin.list_share_group_offsets(GROUP)
                assert {p.partition: offset.lag for p, offset in offsets.items()} == {0: 3, 1: 3, 2: 3}

        world.run(story())
