"""How many partitions the internal topics of a topology must have: repartition topics those of what is written to them, topics
of one copartition group equal numbers, changelog topics one for each task (Kafka's RepartitionTopics,
CopartitionedTopicsEnforcer and ChangelogTopics)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from coterie.coordinator.consumer.topics.image import TopicsImage
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.streams.streams_group_heartbeat import Subtopology


class TopicsDiffer(Exception):
    """Topics that exist, or numbers that the topology fixes, do not fit together."""


class InternalPartitionCounts:
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
