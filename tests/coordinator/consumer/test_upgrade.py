"""Classic groups that become consumer groups, or cannot, as they may stand in a log."""

from __future__ import annotations

from coterie.assignors.blobs import encode_assignment, encode_subscription
from coterie.coordinator.classic.sync import group_stored
from coterie.coordinator.consumer.convert import upgrade
from coterie.coordinator.consumer.events import CurrentStored
from coterie.coordinator.consumer.image import TopicImage, TopicsImage
from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.state import Group, Member, count_protocols
from coterie.coordinator.stored_records.stored import to_record
from coterie.wire.errors import ErrorCode
from tests.coordinator.consumer.test_loading import Broker


def test_a_group_whose_assignor_gives_a_partition_to_two_members_stays_classic() -> None:
    """Such as an assignor that broadcasts; Kafka fails with an IllegalStateException."""
    group = Group("g", protocol_type="consumer", generation=3, protocol="range", leader="m1")
    protocols = (("range", encode_subscription(["foo"])),)
    group.members = {m: Member(m, None, "c", "/h", 10_000, 20_000, protocols) for m in ("m1", "m2")}
    for shares, refused in (({"m1": [0], "m2": [0, 1]}, True), ({"m1": [0], "m2": [1]}, False)):
        stored = group_stored(group, {m: encode_assignment({"foo": share}) for m, share in shares.items()}, 0)
        record, broker = to_record("g", stored), Broker()
        assert record is not None
        broker.shard.load(record.key, record.value)
        response = broker.heartbeat(0, [], rebalance_timeout_ms=1_000, subscribed_topic_names=["foo"])
        assert response.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if refused else ErrorCode.NONE)
        assert (list(broker.shard.groups), list(broker.shard.of_kind(ConsumerGroup))) == (
            (["g"], []) if refused else ([], ["g"])
        )
        if refused:
            assert "assigns a partition to several members" in response.error_message


def test_what_a_member_gives_up_is_in_order() -> None:
    """The bytes of records are the same in every process, whatever its hashes."""
    names_ten = encode_subscription(["foo"], {"foo": list(range(10))}, 2)
    members = {"m": Member("m", None, "c", "/h", 10_000, 20_000, (("range", names_ten),))}
    group = Group("g", protocol_type="consumer", generation=3, protocol="range", leader="m", members=members)
    group.protocol_counts = count_protocols(members.values())
    topics = TopicsImage({"foo": TopicImage("foo", bytes(16), 10)})
    outcome = upgrade(group, CoordinatorConfig(), topics, 0)
    (stored,) = [event for event in outcome.events if isinstance(event, CurrentStored)]
    assert [partition for _, partition in stored.current.pending_revocation] == list(range(10))
