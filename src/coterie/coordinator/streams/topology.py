"""The configuration of a topology over the topics that exist: how many partitions its internal topics and how many tasks its
subtopologies have, which topics the broker must create, and why members get no tasks (Kafka 4.4's InternalTopicManager).

Repartition topics have as many partitions as what is written to them, topics of one copartition group equal numbers, changelog
topics one for each task (RepartitionTopics, CopartitionedTopicsEnforcer and ChangelogTopics).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from coterie.coordinator.consumer.image import TopicsImage
from coterie.coordinator.streams.java_order import java_order
from coterie.coordinator.streams.tasks import (
    ConfiguredInternalTopic,
    ConfiguredSubtopology,
    ConfiguredTopology,
    TopologyProblem,
)
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.stored.streams_group_records import StreamsGroupTopologyValue
from coterie.wire.messages.streams.streams_group_heartbeat import InternalTopic, Subtopology, Topology

_MISSING_SOURCE_TOPICS, _INCORRECTLY_PARTITIONED_TOPICS, MISSING_INTERNAL_TOPICS = 1, 2, 3  # statuses of a heartbeat
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
        return _unready(topology, _MISSING_SOURCE_TOPICS, f"Source topics {_summarize_topics(missing)} are missing.")
    try:
        counts = _InternalPartitionCounts(subtopologies, topics)
        configured = {
            s.subtopology_id: _configured(s, counts) for s in sorted(subtopologies, key=lambda s: s.subtopology_id)
        }
        to_create = _missing_internal_topics(configured, topology, topics)
    except TopicsDiffer as difference:
        return _unready(topology, _INCORRECTLY_PARTITIONED_TOPICS, str(difference))
    problem = None
    if to_create:
        detail = f"Internal topics are missing: {_summarize_topics([topic.name for topic in to_create])}"
        problem = TopologyProblem(MISSING_INTERNAL_TOPICS, detail)
    return ConfiguredTopology(topology.epoch, configured, to_create, problem)


def _summarize_topics(names: Sequence[str]) -> str:
    """The first three names, and how many more."""
    more = len(names) - _NAMED_TOPICS
    return ", ".join(names[:_NAMED_TOPICS]) + (f" and {more} additional topics" if more > 0 else "")


def _unready(topology: StreamsGroupTopologyValue, status_code: int, detail: str) -> ConfiguredTopology:
    return ConfiguredTopology(topology.epoch, None, problem=TopologyProblem(status_code, detail))


def _configured(subtopology: Subtopology, counts: _InternalPartitionCounts) -> ConfiguredSubtopology:
    inputs = [*subtopology.source_topics, *_names(subtopology.repartition_source_topics)]
    return ConfiguredSubtopology(
        task_count=max(counts.of(name) for name in inputs),
        source_topics=frozenset(subtopology.source_topics),
        repartition_sources=_internal_topics(subtopology.repartition_source_topics, counts),
        repartition_sinks=frozenset(subtopology.repartition_sink_topics),
        changelogs=_internal_topics(subtopology.state_changelog_topics, counts),
    )


def _internal_topics(
    topics: Iterable[InternalTopic], counts: _InternalPartitionCounts
) -> dict[str, ConfiguredInternalTopic]:
    by_name = {topic.name: _internal_topic(topic, counts) for topic in topics}
    return {name: by_name[name] for name in java_order(by_name)}


def _internal_topic(topic: InternalTopic, counts: _InternalPartitionCounts) -> ConfiguredInternalTopic:
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


class TopicsDiffer(Exception):
    """Topics that exist, or numbers that the topology fixes, do not fit together."""


class _InternalPartitionCounts:
    """``decided`` has those of the internal topics, by name; an existing topic counts as it is."""

    def __init__(self, subtopologies: Sequence[Subtopology], topics: TopicsImage) -> None:
        """The topics of every copartition group and all sources exist or are internal. Raises TopicsDiffer, and Refusal
        STREAMS_INVALID_TOPOLOGY where the topology fits no topics."""
        self._topics = topics
        groups = [group for s in subtopologies for group in _copartition_groups(s)]
        self.decided = self._repartition_counts(subtopologies)
        sources = [topic for s in subtopologies for topic in s.repartition_source_topics]
        fixed = frozenset(topic.name for topic in sources if topic.partitions != 0)
        flexible = frozenset(topic.name for topic in sources if topic.partitions == 0)
        for group in groups:
            self.decided |= copartitioned({name: self.of(name) for name in sorted(group)}, fixed, flexible, self.of)
        self.decided |= self._changelog_counts(subtopologies)

    def of(self, name: str) -> int:
        """The partitions of a topic that exists or is decided."""
        existing = self._topics.topics.get(name)
        return self.decided[name] if existing is None else existing.partitions

    def _repartition_counts(self, subtopologies: Sequence[Subtopology]) -> dict[str, int]:
        counts = {
            topic.name: topic.partitions
            for s in subtopologies
            for topic in s.repartition_source_topics
            if topic.partitions != 0
        }
        undecided, progressed = True, True
        while undecided:
            if not progressed:
                raise _invalid(
                    "Failed to compute number of partitions for all repartition topics. "
                    "There may be loops in the topology that cannot be resolved."
                )
            undecided, progressed = False, False
            for s in subtopologies:
                for sink in s.repartition_sink_topics:
                    if sink in counts:
                        continue
                    count = self._largest_input(s, counts)
                    if count is None:
                        undecided = True
                    else:
                        counts[sink], progressed = count, True
        if any(topic.name not in counts for s in subtopologies for topic in s.repartition_source_topics):
            raise _invalid(
                "Failed to compute number of partitions for all repartition topics, because "
                "a repartition source topic is never used as a sink topic."
            )
        return counts

    def _largest_input(self, subtopology: Subtopology, counts: Mapping[str, int]) -> int | None:
        known = [counts[topic.name] for topic in subtopology.repartition_source_topics if topic.name in counts]
        known += [self._topics.topics[name].partitions for name in subtopology.source_topics]
        return max(known, default=None)

    def _changelog_counts(self, subtopologies: Sequence[Subtopology]) -> dict[str, int]:
        counts: dict[str, int] = {}
        for s in subtopologies:
            inputs = [*s.source_topics, *(topic.name for topic in s.repartition_source_topics)]
            if not inputs:
                raise _invalid(f"No source topics found for subtopology {s.subtopology_id}")
            largest = max(self.of(name) for name in inputs)
            counts |= {topic.name: largest for topic in s.state_changelog_topics}
        return counts


def copartitioned(
    counts: Mapping[str, int], fixed: frozenset[str], flexible: frozenset[str], count_of: Callable[[str], int]
) -> dict[str, int]:
    """The numbers of partitions of a group's repartition topics: that of its other topics, or the one that the topology fixes,
    or the largest. ``counts`` has all topics of the group; ``fixed`` and ``flexible`` the repartition topics of the topology,
    with and without a number of its own. Raises TopicsDiffer."""
    repartition = {name: count for name, count in counts.items() if name in fixed or name in flexible}
    external = {name: count for name, count in counts.items() if name not in repartition}
    if not counts:
        return {}
    if external:
        agreed = _equal_count(external.values(), external)
    elif fixed:
        agreed = _equal_count([count_of(name) for name in fixed], repartition)
    else:
        agreed = max(repartition.values())
    for name, count in repartition.items():
        if name in fixed and count != agreed:
            raise TopicsDiffer(
                f"Number of partitions [{count}] of repartition topic [{name}] "
                f"doesn't match number of partitions [{agreed}] of the source topic."
            )
    return dict.fromkeys(repartition, agreed)


def _equal_count(counts: Iterable[int], shown: Mapping[str, int]) -> int:
    first, *others = counts
    if any(other != first for other in others):
        texts = ", ".join(f"{name}={shown[name]}" for name in sorted(shown))
        raise TopicsDiffer(f"Following topics do not have the same number of partitions: [{{{texts}}}]")
    return first


def _copartition_groups(subtopology: Subtopology) -> list[frozenset[str]]:
    sources, repartition = subtopology.source_topics, [topic.name for topic in subtopology.repartition_source_topics]
    groups: list[frozenset[str]] = []
    for group in subtopology.copartition_groups:
        indexed = [(n, sources) for n in group.source_topics] + [
            (n, repartition) for n in group.repartition_source_topics
        ]
        if any(not 0 <= n < len(names) for n, names in indexed):
            raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)
        groups.append(frozenset(names[n] for n, names in indexed))
    return groups


def _invalid(text: str) -> Refusal:
    return Refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
