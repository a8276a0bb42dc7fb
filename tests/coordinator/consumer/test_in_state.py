"""For how long a consumer group has been in its state, as `explain_consumer_group` reports it."""

from __future__ import annotations

from typing import Any

from coterie.coordinator.consumer.image import TopicImage, TopicsImage
from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.shard import Decision, Shard
from coterie.coordinator.stored_records.stored import StoredRecord
from coterie.coordinator.views.consumer_group import explain_consumer_group
from coterie.wire.messages.groups.consumer_group_heartbeat import TopicPartitions
from tests.coordinator.consumer.test_kafkas_own_records import Coordinator

TOPIC = TopicImage("t", bytes(15) + b"\1", 4)
TOPICS = TopicsImage({"t": TOPIC}, 1, 1)


class Keeping(Coordinator):
    """A coordinator that keeps its records with their times."""

    def __init__(self) -> None:
        super().__init__(TOPICS)
        self.records: list[tuple[StoredRecord, int]] = []

    def _append(self, decisions: list[Decision]) -> None:
        self.records += [(record, decision.now_ms) for decision in decisions for record in decision.records]

    def explained(self, now_ms: int, shard: Shard | None = None) -> tuple[str, Any]:
        group = (shard or self.shard).group("g")
        assert isinstance(group, ConsumerGroup)
        document = explain_consumer_group(group, now_ms, CoordinatorConfig(), TOPICS)
        return document["state"], document["in_state_ms"]


def test_the_time_begins_with_the_event_that_changed_the_state() -> None:
    here = Keeping()
    here.join("g", "a", subscribed_topic_names=["t"])
    stable_ms = here.now_ms
    assert here.explained(stable_ms + 250) == ("Stable", 250)
    here.send("g", "a", 2)
    assert here.explained(stable_ms + 300) == ("Stable", 300), "a heartbeat changes nothing"
    here.join("g", "b", subscribed_topic_names=["t"])
    reconciling_ms = here.now_ms
    assert here.explained(reconciling_ms + 40) == ("Reconciling", 40)
    here.send("g", "a", 2)  # it is told to revoke; the group is still reconciling
    assert here.explained(reconciling_ms + 500) == ("Reconciling", 500)
    kept = here.shard.group("g")
    assert isinstance(kept, ConsumerGroup)
    left = sorted(p for _, p in kept.members["a"].current.assigned)
    here.send("g", "a", 2, topic_partitions=[TopicPartitions(TOPIC.topic_id, left)])
    here.send("g", "b", 3)
    assert here.explained(here.now_ms + 7) == ("Stable", 7)
    assert here.explained(here.now_ms - 50) == ("Stable", 0), "a clock that was set back"


def test_a_group_that_is_loaded_has_the_time_of_its_records() -> None:
    here = Keeping()
    here.join("g", "a", subscribed_topic_names=["t"])
    loaded = Shard(CoordinatorConfig())
    for record, time_ms in here.records:
        loaded.load(record.key, record.value, time_ms)
    assert here.explained(here.now_ms + 900, loaded) == here.explained(here.now_ms + 900) == ("Stable", 900)
