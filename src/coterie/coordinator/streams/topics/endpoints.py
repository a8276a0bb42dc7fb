"""The partitions that are served at a member's endpoint, for interactive queries (Kafka's EndpointToPartitionsManager)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coterie.coordinator.consumer.topics.image import TopicsImage
from coterie.coordinator.streams.tasks import ConfiguredSubtopology, TaskId, Tasks
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.streams.streams_group_heartbeat import Endpoint, EndpointToPartitions, EndpointTopic

Subtopologies = Mapping[str, ConfiguredSubtopology]


def endpoint_partitions(
    endpoint: Endpoint, tasks: Tasks, subtopologies: Subtopologies, topics: TopicsImage
) -> EndpointToPartitions:
    """Warm-up tasks count as standbys. Raises Refusal where a source topic was deleted."""
    active = _partitions(tasks.active, subtopologies, topics)
    return EndpointToPartitions(endpoint, active, _partitions(tasks.standby | tasks.warmup, subtopologies, topics))


def _partitions(tasks: Iterable[TaskId], subtopologies: Subtopologies, topics: TopicsImage) -> list[EndpointTopic]:
    by_subtopology: dict[str, list[int]] = {}
    for subtopology_id, partition in sorted(tasks):
        by_subtopology.setdefault(subtopology_id, []).append(partition)
    served: list[EndpointTopic] = []
    for subtopology_id, partitions in by_subtopology.items():
        subtopology = subtopologies[subtopology_id]
        for name in sorted(subtopology.source_topics | subtopology.repartition_sources.keys()):
            topic = topics.topics.get(name)
            if topic is None:
                raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"Topic {name} not found in metadata image")
            # A source with fewer partitions than its subtopology has tasks has none for the last of them.
            present = [partition for partition in partitions if partition < topic.partitions]
            if present:
                served.append(EndpointTopic(name, present))
    return served
