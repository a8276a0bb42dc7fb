"""The configuration of a topology over the topics that exist: how many partitions its internal topics and how many tasks its
subtopologies have, which topics the broker must create, and why members get no tasks (Kafka 4.4's InternalTopicManager).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from coterie.coordinator.consumer.topics.image import TopicsImage
from coterie.coordinator.streams.java_order import java_order
from coterie.coordinator.streams.tasks import (
    ConfiguredInternalTopic,
    ConfiguredSubtopology,
    ConfiguredTopology,
    TopologyProblem,
)
from coterie.coordinator.streams.topics.partition_counts import InternalPartitionCounts, TopicsDiffer
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.stored.streams_group_records import StreamsGroupTopologyValue
from coterie.wire.messages.streams.streams_group_heartbeat import InternalTopic, Subtopology, Topology

MISSING_SOURCE_TOPICS, INCORRECTLY_PARTITIONED_TOPICS, MISSING_INTERNAL_TOPICS = 1, 2, 3  # statuses of a heartbeat
_NAMED_TOPICS = 3


def check_topology(topology: Topology) -> None:
    """Raises Refusal INVALID_REQUEST for source topics by regular expression, STREAMS_INVALID_TOPOLOGY for a changelog topic
    with a number of partitions (GroupCoordinatorService)."""
    if any(s.source_topic_regex for s in topology.subtopologies):
        raise Refusal(ErrorCode.INVALID_REQUEST, "Regular expressions for source topics are not supported yet.")
    for topic in (topic for s in topology.subtopologies for topic in s.state_changelog_topics):
        if topic.partitions != 0:
            text = f"Changelog topic {topic.name} must have an undefined partition count, but it is set to {topic.partitions}."
            raise Refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)


def required_topics(topology: StreamsGroupTopologyValue) -> frozenset[str]:
    """The topics that the topology reads or restores from, its internal ones among them."""
    names: set[str] = set()
    for s in topology.subtopologies:
        names.update(s.source_topics, _names(s.repartition_source_topics), _names(s.state_changelog_topics))
    return frozenset(names)


def configure_topology(topology: StreamsGroupTopologyValue, topics: TopicsImage) -> ConfiguredTopology:
    """Raises Refusal STREAMS_INVALID_TOPOLOGY where no topics could make the topology run."""
    by_id = {s.subtopology_id: s for s in topology.subtopologies}
    subtopologies = [by_id[subtopology_id] for subtopology_id in java_order(by_id)]
    missing = sorted({name for s in subtopologies for name in s.source_topics if name not in topics.topics})
    if missing:
        return _unready(topology, MISSING_SOURCE_TOPICS, f"Source topics {summarize_topics(missing)} are missing.")
    try:
        counts = InternalPartitionCounts(subtopologies, topics)
        configured = {
            s.subtopology_id: _configured(s, counts) for s in sorted(subtopologies, key=lambda s: s.subtopology_id)
        }
        to_create = _missing_internal_topics(configured, topology, topics)
    except TopicsDiffer as difference:
        return _unready(topology, INCORRECTLY_PARTITIONED_TOPICS, str(difference))
    problem = None
    if to_create:
        detail = f"Internal topics are missing: {summarize_topics([topic.name for topic in to_create])}"
        problem = TopologyProblem(MISSING_INTERNAL_TOPICS, detail)
    return ConfiguredTopology(topology.epoch, configured, to_create, problem)


def summarize_topics(names: Sequence[str]) -> str:
    """The first three names, and how many more."""
    more = len(names) - _NAMED_TOPICS
    return ", ".join(names[:_NAMED_TOPICS]) + (f" and {more} additional topics" if more > 0 else "")


def _unready(topology: StreamsGroupTopologyValue, status_code: int, detail: str) -> ConfiguredTopology:
    return ConfiguredTopology(topology.epoch, None, problem=TopologyProblem(status_code, detail))


def _configured(subtopology: Subtopology, counts: InternalPartitionCounts) -> ConfiguredSubtopology:
    inputs = [*subtopology.source_topics, *_names(subtopology.repartition_source_topics)]
    return ConfiguredSubtopology(
        task_count=max(counts.of(name) for name in inputs),
        source_topics=frozenset(subtopology.source_topics),
        repartition_sources=_internal_topics(subtopology.repartition_source_topics, counts),
        repartition_sinks=frozenset(subtopology.repartition_sink_topics),
        changelogs=_internal_topics(subtopology.state_changelog_topics, counts),
    )


def _internal_topics(
    topics: Iterable[InternalTopic], counts: InternalPartitionCounts
) -> dict[str, ConfiguredInternalTopic]:
    by_name = {topic.name: _internal_topic(topic, counts) for topic in topics}
    return {name: by_name[name] for name in java_order(by_name)}


def _internal_topic(topic: InternalTopic, counts: InternalPartitionCounts) -> ConfiguredInternalTopic:
    partitions = topic.partitions or counts.decided[topic.name]
    if partitions < 1:
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "Number of partitions must be at least 1.")
    configs = {config.key: config.value for config in topic.topic_configs}
    in_order = tuple((key, configs[key]) for key in java_order(configs))
    return ConfiguredInternalTopic(topic.name, partitions, topic.replication_factor, in_order)


def _missing_internal_topics(
    subtopologies: dict[str, ConfiguredSubtopology], topology: StreamsGroupTopologyValue, topics: TopicsImage
) -> tuple[ConfiguredInternalTopic, ...]:
    """Raises TopicsDiffer where one exists with another number of partitions."""
    wanted: dict[str, ConfiguredInternalTopic] = {}
    for subtopology in subtopologies.values():
        wanted |= subtopology.repartition_sources
        wanted |= subtopology.changelogs
    for name in java_order(sorted(required_topics(topology))):
        existing = topics.topics.get(name)
        if existing is not None and name in wanted and existing.partitions != wanted[name].partitions:
            raise TopicsDiffer(
                f"Existing topic {name} has different number of partitions: "
                f"expected {wanted[name].partitions}, found {existing.partitions}"
            )
    return tuple(wanted[name] for name in java_order(wanted) if name not in topics.topics)


def _names(topics: Iterable[InternalTopic]) -> list[str]:
    return [topic.name for topic in topics]
