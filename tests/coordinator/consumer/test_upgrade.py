"""Classic groups that cannot become consumer groups, as they may stand in a log."""

from __future__ import annotations

from coterie.assignors.blobs import encode_assignment, encode_subscription
from coterie.coordinator.classic.group_record import group_stored
from coterie.coordinator.state import Group, Member
from coterie.coordinator.stored import to_record
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
        assert (list(broker.shard.groups), list(broker.shard.consumer_groups)) == (
            (["g"], []) if refused else ([], ["g"])
        )
        if refused:
            assert "assigns a partition to several members" in response.error_message
