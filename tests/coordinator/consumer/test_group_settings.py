"""Settings of a consumer group in its coordinator: the timeouts of its members, and the pause between target assignments.
Classic groups that become consumer groups, or cannot, as they may stand in a log."""

from __future__ import annotations

import pytest

from coterie.assignors.blobs import encode_assignment, encode_subscription
from coterie.broker.settings import BrokerSettings
from coterie.broker.settings.groups import config_of_group
from coterie.coordinator.classic.sync import group_stored
from coterie.coordinator.consumer.convert import upgrade
from coterie.coordinator.consumer.events import CurrentStored
from coterie.coordinator.consumer.image import TopicImage, TopicsImage
from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.consumer.target import time_to_target_ms
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.shard import Shard
from coterie.coordinator.state import Group, Member, count_protocols
from coterie.coordinator.stored_records.stored import to_record
from coterie.wire.errors import ErrorCode
from tests.coordinator.consumer.test_kafkas_own_records import Coordinator
from tests.coordinator.consumer.test_loading import Broker

DEFAULTS = BrokerSettings({})


@pytest.mark.parametrize("group_has", [{}, {"g": CoordinatorConfig()}])
@pytest.mark.parametrize(
    ("name", "own", "interval_ms", "session_ms"),
    [
        ("testConsumerGroupDynamicConfigs", (50_000, 10_000), 10_000, 50_000),
        ("testConsumerGroupEvaluatedConfigs: beyond the broker's bounds", (70_000, 1), 5_000, 60_000),
    ],
)
def test_a_groups_own_settings_count_from_the_next_heartbeat(
    name: str, own: tuple[int, int], interval_ms: int, session_ms: int, group_has: dict[str, CoordinatorConfig]
) -> None:
    here, configs = Coordinator(TopicsImage({"t": TopicImage("t", bytes(15) + b"\1", 6)}, 1, 1)), dict(group_has)
    here.shard = Shard(CoordinatorConfig(), own_configs=configs)
    joined = here.join("g", "m", subscribed_topic_names=["t"])
    timers = here.shard.of_kind(ConsumerGroup)["g"].timers
    assert (joined.member_epoch, joined.heartbeat_interval_ms) == (2, 5_000)
    assert timers["m"].session_ms == here.now_ms + 45_000
    settings = dict(zip(("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"), map(str, own), strict=True))
    configs["g"] = config_of_group(here.shard.config, DEFAULTS.current, DEFAULTS.share, DEFAULTS.streams, settings)
    here.now_ms += 5_000
    response = here.send("g", "m", 2)
    assert (response.member_epoch, response.heartbeat_interval_ms) == (2, interval_ms)
    assert timers["m"].session_ms == here.now_ms + session_ms
    assert not list(here.shard.expired(here.now_ms + session_ms - 1))
    assert here.send("g", "m", -1).member_epoch == -1
    assert not timers
    assert not list(here.shard.expired(here.now_ms + 1_000_000))


@pytest.mark.parametrize(
    ("now_ms", "left_ms"),
    [
        (0, 0),
        (995_000, 0),
        (995_001, 9_999),
        (999_999, 5_001),
        (1_000_000, 5_000),
        (1_004_999, 1),
        (1_005_000, 0),
        (1_007_500, 0),
    ],
)
def test_the_next_target_assignment_waits_for_the_interval(now_ms: int, left_ms: int) -> None:
    """testCanComputeNextTargetAssignment: 5 s after one of 1000 s; not by a clock that is more than 5 s behind, where Kafka
    waits."""
    assert time_to_target_ms(1_000_000, 5_000, now_ms) == left_ms


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
