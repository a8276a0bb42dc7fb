"""The topics of the broker as the coordinator of consumer groups sees them (Kafka's CoordinatorMetadataImage)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from coterie.coordinator.consumer.state import TopicId

NO_TOPICS_HASH = 0


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic: its id, its number of partitions, and the racks of each partition's replicas where they are known."""

    name: str
    topic_id: TopicId
    partitions: int
    racks: tuple[frozenset[str], ...] = ()


@dataclass(frozen=True, slots=True)
class TopicsImage:
    """Every topic by name. ``version`` rises with every change of a topic, and ``created_version`` with every new one."""

    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    version: int = 0
    created_version: int = 0

    def topic_ids(self, names: Iterable[str]) -> frozenset[TopicId]:
        """The ids of the topics that exist."""
        return frozenset(self.topics[name].topic_id for name in names if name in self.topics)

    def metadata_hash(self, names: Iterable[str]) -> int:
        """64 bits, signed, of the topics that exist: ids, names, partitions, racks; 0 for none. Not the hash function of
        Kafka, whose value has a meaning only beside another one of the same group."""
        known = sorted(name for name in set(names) if name in self.topics)
        if not known:
            return NO_TOPICS_HASH
        digest = hashlib.blake2b(b"".join(_topic_digest(self.topics[name]) for name in known), digest_size=8)
        return int.from_bytes(digest.digest(), "big", signed=True)


@lru_cache(maxsize=10_000)
def _topic_digest(topic: TopicImage) -> bytes:
    text = repr((topic.name, topic.topic_id, topic.partitions, [sorted(racks) for racks in topic.racks]))
    return hashlib.blake2b(text.encode(), digest_size=8).digest()
