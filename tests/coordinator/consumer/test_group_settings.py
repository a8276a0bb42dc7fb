"""Settings of a consumer group in its coordinator: the timeouts of its members, and the pause between target assignments."""

from __future__ import annotations

import pytest

from coterie.broker.settings import BrokerSettings
from coterie.broker.settings.consumer_groups import config_of_group
from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.consumer.target import may_compute
from coterie.coordinator.consumer.topics import TopicImage, TopicsImage
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.shard import Shard
from tests.coordinator.consumer.test_kafkas_own_records import Coordinator


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
    timers = here.shard.consumer_groups["g"].timers
    assert (joined.member_epoch, joined.heartbeat_interval_ms) == (2, 5_000)
    assert timers["m"].session_ms == here.now_ms + 45_000
    settings = dict(zip(("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"), map(str, own), strict=True))
    configs["g"] = config_of_group(here.shard.config, BrokerSettings({}).current, settings)
    here.now_ms += 5_000
    response = here.send("g", "m", 2)
    assert (response.member_epoch, response.heartbeat_interval_ms) == (2, interval_ms)
    assert timers["m"].session_ms == here.now_ms + session_ms
    assert not list(here.shard.expired(here.now_ms + session_ms - 1))
    assert here.send("g", "m", -1).member_epoch == -1
    assert not timers
    assert not list(here.shard.expired(here.now_ms + 1_000_000))


@pytest.mark.parametrize(
    ("now_ms", "may"),
    [(0, False), (999_999, False), (1_000_000, False), (1_004_999, False), (1_005_000, True), (1_007_500, True)],
)
def test_the_next_target_assignment_waits_for_the_interval(now_ms: int, may: bool) -> None:
    """testCanComputeNextTargetAssignment: 5 s after one of 1000 s, also by a clock that was set back."""
    assert may_compute(ConsumerGroup("g", assignment_timestamp_ms=1_000_000), 5_000, now_ms) is may
