"""The settings of a log that is made while they change: of Kafka's PartitionTest, by its names."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from coterie.broker.broker import Broker
from coterie.broker.cluster.hosted_topics import HostedTopics
from coterie.broker.cluster.settings import AppliedSettings
from coterie.controller.changes.config_changes import SettingsChanged
from coterie.controller.nodes import BROKERS_KIND, DEFAULT_ENTITY, TOPICS_KIND
from tests.broker.cluster.replicas.test_replicated_writes import one_of_two

TOPIC, SEGMENT_BYTES = "new", "segment.bytes"
CREATED = 7  # the transaction of ZooKeeper that made the topic's node


class Starting:
    """A broker that is given a replica of a topic, whose settings ``reads`` requests of ZooKeeper."""

    def __init__(self, broker: Broker) -> None:
        self.broker, self.reads = broker, list[tuple[str, str]]()
        self.applied = AppliedSettings(
            broker, lambda kind, name: self.reads.append((kind, name)), lambda name: None, lambda: None
        )
        self.hosted = HostedTopics(
            broker.topics,
            broker.flusher,
            broker.settings,
            "c",
            broker.clock.now_ms,
            broker.role_changed,
            self.applied.topics_deleted,
            self.applied.of_topic,
        )

    def lead(self) -> None:
        """The log is made once the settings are known."""

        def then() -> None:
            self.hosted.open_log((TOPIC, 0))

        self.applied.with_settings([TOPIC], then)

    def topic_has(self, segment_bytes: str) -> None:
        self.applied.changed([SettingsChanged(TOPICS_KIND, TOPIC, {SEGMENT_BYTES: segment_bytes}, None, CREATED)])

    def brokers_have(self, segment_bytes: str) -> None:
        """The default of all brokers."""
        self.applied.changed([SettingsChanged(BROKERS_KIND, DEFAULT_ENTITY, {"log.segment.bytes": segment_bytes})])

    @property
    def topic_id(self) -> bytes:
        """As the broker advertises it."""
        return self.broker.topics.by_name[TOPIC].topic_id

    @property
    def segment_bytes(self) -> int:
        """Of the log."""
        partition = self.broker.topics.partition(TOPIC, 0)
        assert partition.is_stored
        return partition.log.config.segment_bytes


@asynccontextmanager
async def starting() -> AsyncIterator[Starting]:
    async with one_of_two() as (broker, _, _, _):
        yield Starting(broker)


async def test_settings_are_read_once() -> None:
    """testLogConfigNotDirty"""
    async with starting() as one:
        one.lead()
        assert TOPIC not in one.broker.topics.by_name
        one.topic_has("100000")
        assert one.segment_bytes == 100_000
        one.lead()
        assert one.reads == [(TOPICS_KIND, TOPIC)]


async def test_a_topic_whose_settings_change_meanwhile() -> None:
    """testLogConfigDirtyAsTopicUpdated: the latest are in force, whether the log is there or not."""
    async with starting() as one:
        one.topic_has("100000")  # before the broker has the replica
        one.lead()
        assert one.reads == [(TOPICS_KIND, TOPIC)]
        one.topic_has("200000")
        assert one.segment_bytes == 200_000
        one.topic_has("300000")
        assert one.segment_bytes == 300_000


async def test_a_broker_whose_settings_change_meanwhile() -> None:
    """testLogConfigDirtyAsBrokerUpdated: the latest are in force, whether the log is there or not."""
    async with starting() as one:
        one.lead()
        one.brokers_have("400000")
        one.applied.changed([SettingsChanged(TOPICS_KIND, TOPIC, {}, None, CREATED)])
        assert one.segment_bytes == 400_000
        one.brokers_have("500000")
        assert one.segment_bytes == 500_000
        one.topic_has("600000")
        one.brokers_have("700000")
        assert one.segment_bytes == 600_000


async def test_a_topic_that_was_read_before_it_had_a_node_is_read_again() -> None:
    """Its id follows from its node: with that of another reading, a broker refuses a consumer's fetches for ever, and names
    the id of no topic in Metadata."""
    async with starting() as one:
        one.lead()
        one.applied.changed([SettingsChanged(TOPICS_KIND, TOPIC, {})])  # deleted, and not created again yet
        before = one.topic_id
        one.lead()
        assert one.reads == [(TOPICS_KIND, TOPIC)] * 2
        one.topic_has("100000")
        after = one.topic_id
        assert before != after
        assert {t.topic_id: t for t in one.broker.topics.by_name.values()} == one.broker.topics.by_id
        one.lead()
        assert one.reads == [(TOPICS_KIND, TOPIC)] * 2
        assert one.topic_id == after


async def test_a_topic_whose_deletion_was_missed_gets_the_id_of_the_next_one() -> None:
    async with starting() as one:
        one.lead()
        one.topic_has("100000")
        before = one.topic_id
        one.applied.changed([SettingsChanged(TOPICS_KIND, TOPIC, {}, None, CREATED + 1)])
        one.lead()
        assert one.topic_id != before
        assert one.broker.topics.by_id[one.topic_id] is one.broker.topics.by_name[TOPIC]
