"""The topics of the broker as the coordinator of consumer groups sees them (Kafka's CoordinatorMetadataImage)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from coterie.coordinator.consumer.state import TopicId
from coterie.coordinator.consumer.xxh3 import xxh3_64

NO_TOPICS_HASH = 0
_SUBSCRIPTIONS_KEPT = 1_000
_HASH_VERSION = 0  # the first byte of what is hashed of a topic
_TOPIC, _UUID, _INT = struct.Struct("<bqq"), struct.Struct(">qq"), struct.Struct("<i")
_UNSIGNED, _SIGNED = struct.Struct("<Q"), struct.Struct("<q")


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
    _ids: dict[frozenset[str], frozenset[TopicId]] = field(default_factory=dict, compare=False)

    def topic_ids(self, names: frozenset[str]) -> frozenset[TopicId]:
        """The ids of the topics that exist. Kept, because the members of a group mostly subscribe to the same topics."""
        ids = self._ids.get(names)
        if ids is None:
            if len(self._ids) >= _SUBSCRIPTIONS_KEPT:
                self._ids.clear()
            ids = self._ids[names] = frozenset([self.topics[name].topic_id for name in names if name in self.topics])
        return ids

    def metadata_hash(self, names: Iterable[str]) -> int:
        """64 bits, signed, of the topics that exist: ids, names, partitions, racks; 0 for none. That of Apache Kafka 4.3
        (o.a.k.coordinator.group.Utils.computeGroupHash), so that a group that changes its broker keeps its epoch."""
        known = sorted(name for name in set(names) if name in self.topics)
        if not known:
            return NO_TOPICS_HASH
        unsigned = xxh3_64(b"".join(_topic_hash(self.topics[name]) for name in known))
        return _SIGNED.unpack(_UNSIGNED.pack(unsigned))[0]  # type: ignore[no-any-return]


@lru_cache(maxsize=10_000)
def _topic_hash(topic: TopicImage) -> bytes:
    """Utils.computeTopicHash, as its 8 bytes; every number is little-endian there."""
    high, low = _UUID.unpack(topic.topic_id)
    parts = [_TOPIC.pack(_HASH_VERSION, high, low), _text(topic.name), _INT.pack(topic.partitions)]
    for partition in range(topic.partitions):
        parts.append(_INT.pack(partition))
        for rack in sorted(topic.racks[partition]) if partition < len(topic.racks) else ():
            parts += [_INT.pack(_java_length(rack)), _text(rack)]
    return _UNSIGNED.pack(xxh3_64(b"".join(parts)))


def _text(text: str) -> bytes:
    """A string as the hash streams of hash4j take it: the UTF-16 code units, then their number."""
    return text.encode("utf-16-le", "surrogatepass") + _INT.pack(_java_length(text))


def _java_length(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
