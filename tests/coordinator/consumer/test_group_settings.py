"""Settings of a consumer group in its coordinator: the timeouts of its members, and the pause between target assignments."""

from __future__ import annotations

import pytest

from coterie.broker.settings import BrokerSettings
from coterie.broker.settings.groups import config_of_group
from coterie.coordinator.consumer.image import TopicImage, TopicsImage
from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.consumer.target import time_to_target_ms
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.shard import Shard
from tests.coordinator.consumer.test_kafkas_own_records import Coordinator

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
