"""Topologies and topics for tests, from short texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coterie.coordinator.consumer.image import TopicImage, TopicsImage
from coterie.wire.messages.stored.streams_group_records import StreamsGroupTopologyValue
from coterie.wire.messages.streams.streams_group_heartbeat import CopartitionGroup, InternalTopic, KeyValue, Subtopology


def image(topics: Mapping[str, int]) -> TopicsImage:
    """The topics by their numbers of partitions."""
    return TopicsImage({name: TopicImage(name, name[:16].ljust(16).encode(), count) for name, count in topics.items()})


def internal(text: str) -> InternalTopic:
    """`r` a topic without a number of partitions, `r:4` with 4, `r:0:3` with 3 replicas, `r:0:0:k=v` with a setting."""
    name, *rest = text.split(":")
    partitions, replicas, config = [*rest, *["0", "0", ""][len(rest) :]]
    configs = [KeyValue(*config.split("="))] if config else []
    return InternalTopic(name, int(partitions), int(replicas), configs)


def subtopology(
    subtopology_id: str,
    sources: str = "",
    sinks: str = "",
    repartition: str = "",
    changelogs: str = "",
    together: Sequence[tuple[list[int], list[int]]] = (),
) -> Subtopology:
    """``together`` has copartition groups: indexes of sources and of repartition sources."""
    return Subtopology(
        subtopology_id,
        sources.split(),
        [],
        [internal(text) for text in changelogs.split()],
        sinks.split(),
        [internal(text) for text in repartition.split()],
        [CopartitionGroup(of_sources, [], of_repartition) for of_sources, of_repartition in together],
    )


def topology(*subtopologies: Subtopology, epoch: int = 3) -> StreamsGroupTopologyValue:
    """A topology as it is stored."""
    return StreamsGroupTopologyValue(epoch, list(subtopologies))
