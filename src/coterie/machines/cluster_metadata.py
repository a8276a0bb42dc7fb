"""A cluster as its clients know it (Kafka's Metadata and the coordinators that its clients look up): brokers, leaders,
coordinators, and the next request with its broker. No IO: drivers send the requests and pass the responses in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.groups.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from coterie.wire.messages.topics.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from coterie.wire.primitives import NULL_UUID

Address = tuple[str, int]
TopicPartition = Any  # (topic, partition), or a driver's named tuple of them: a mapping's keys are invariant
GROUP, TRANSACTION = 0, 1  # kinds of coordinators
NEVER_MS = float("-inf")
NO_NODE = -1
TOPICS_BY_ID_FROM = 12  # the version of Metadata
EPOCHS_FROM = 9  # that from which on leader epochs are right also while partitions are reassigned (Apache Kafka 2.4)


@dataclass(slots=True)
class TopicInfo:
    """A topic: its id, the leader's node id of each partition, and the racks of each partition's replicas."""

    topic_id: bytes
    leaders: dict[int, int]
    error: ErrorCode = ErrorCode.NONE
    internal: bool = False
    racks: list[frozenset[str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CoordinatorLookup:
    """What a response to FindCoordinator holds, in either of its shapes."""

    node_id: int
    error_code: ErrorCode
    error_message: str | None


class ClusterMetadata:
    """Times in ms, of the driver's clock. ``version`` rises with every response to a metadata request."""

    def __init__(self, metadata_max_age_ms: float = 300_000) -> None:
        self.version = 0
        self.transaction_version = 0  # the finalized level of that feature
        self._features_epoch = -1
        self._max_age_ms = metadata_max_age_ms
        self._brokers: dict[int, Address] = {}
        self._topics: dict[str, TopicInfo] = {}
        self._all: dict[str, TopicInfo] = {}
        self._coordinators: dict[tuple[int, str], int] = {}
        self._seen: dict[str, tuple[bytes, dict[int, int]]] = {}  # by topic its id, and each partition's newest epoch
        self._updated_ms = self._all_updated_ms = NEVER_MS

    def features_received(self, levels: Mapping[str, int], epoch: int) -> None:
        """The finalized features that a broker reports (KIP-584); those of an older ``epoch`` than is known change nothing."""
        if epoch >= self._features_epoch:
            self._features_epoch = epoch
            self.transaction_version = levels.get("transaction.version", 0)

    # -- what to request ------------------------------------------------------------------------------------------------

    def topics_to_look_up(self, names: Iterable[str], now_ms: float) -> list[str]:
        """The topics that are unknown or had an error; all of them once the metadata is too old."""
        is_old = now_ms - self._updated_ms > self._max_age_ms
        return [n for n in names if is_old or n not in self._topics or self._topics[n].error]

    def must_look_up_all(self, now_ms: float) -> bool:
        """Whether the list of all topics is unknown, or too old."""
        return now_ms - self._all_updated_ms > self._max_age_ms

    @staticmethod
    def metadata_request(names: Iterable[str] | None, *, create: bool = False) -> MetadataRequest:
        """Metadata of these topics; ``names`` None for all."""
        return MetadataRequest(None if names is None else [MetadataRequestTopic(name=n) for n in sorted(names)], create)

    @staticmethod
    def topic_ids_request(topic_ids: Iterable[bytes]) -> MetadataRequest:
        """Metadata of topics by id, from version TOPICS_BY_ID_FROM on."""
        return MetadataRequest([MetadataRequestTopic(topic_id) for topic_id in sorted(topic_ids)], False)

    @staticmethod
    def coordinator_request(key: str, kind: int) -> FindCoordinatorRequest:
        return FindCoordinatorRequest(key, kind, [key])

    def addresses(self, bootstrap: Sequence[Address]) -> list[Address]:
        """The brokers to try, in this order: as the cluster named them last, then the bootstrap servers."""
        return list(dict.fromkeys([*self._brokers.values(), *bootstrap]))

    # -- responses ------------------------------------------------------------------------------------------------------

    def metadata_received(
        self, response: MetadataResponse, now_ms: float, *, is_all: bool = False, version: int = EPOCHS_FROM
    ) -> dict[str, TopicInfo]:
        """A response without error: it names every broker there is; one that names none, of a broker that has just started,
        leaves those known. Returns its topics. ``is_all``: every topic was requested. ``version``: of the response."""
        self._brokers = {b.node_id: (b.host, b.port) for b in response.brokers} or self._brokers
        rack_of = {b.node_id: b.rack for b in response.brokers if b.rack}
        topics: dict[str, TopicInfo] = {}
        for topic in response.topics:
            if topic.name is not None:  # else a topic id that the broker does not know
                info = topics[topic.name] = _topic_info(topic, rack_of)
                if not info.error:
                    epochs = {p.partition_index: p.leader_epoch for p in topic.partitions if version >= EPOCHS_FROM}
                    self._keep_newer_leaders(topic.name, info, epochs)
        self._topics |= topics
        self.version += 1
        self._updated_ms = now_ms
        if is_all:
            self._all, self._all_updated_ms = topics, now_ms
        return topics

    def _keep_newer_leaders(self, name: str, info: TopicInfo, epochs: dict[int, int]) -> None:
        """A broker that is behind names a leader of an older epoch (Kafka's Metadata.updateLatestMetadata). Only where ids
        show that it is the same topic: those of a topic created again begin at 0."""
        topic_id, seen = self._seen.get(name, (bytes(16), {}))
        if info.topic_id != topic_id or not any(topic_id):
            seen = {}
        known = self._topics.get(name)
        for partition, epoch in epochs.items():
            if 0 <= epoch < seen.get(partition, -1):
                epochs[partition] = seen[partition]
                info.leaders[partition] = NO_NODE if known is None else known.leaders.get(partition, NO_NODE)
        self._seen[name] = info.topic_id, {partition: epoch for partition, epoch in epochs.items() if epoch >= 0}

    def epoch_seen(self, topic: str, partition: int, epoch: int) -> bool:
        """A response that is not metadata names the leader's epoch (Kafka's Metadata.updateLastSeenEpochIfNewer). Whether that
        is newer than the one known: then who leads is unknown until metadata has it."""
        info = self._topics.get(topic)
        if info is None or not 0 <= self.leader_epoch(topic, partition) < epoch:
            return False
        info.leaders[partition] = NO_NODE
        self._seen[topic][1][partition] = epoch
        return True

    def epochs_seen(self, offsets: Mapping[TopicPartition, tuple[int, int, str]]) -> None:
        """As `epoch_seen`, of offsets with the leader's epoch, -1 where it is unknown."""
        for (topic, partition), (_, epoch, _) in offsets.items():
            self.epoch_seen(topic, partition, epoch)

    def leaders_received(
        self, leaders: Mapping[TopicPartition, tuple[int, int]], addresses: Mapping[int, Address]
    ) -> set[tuple[str, int]]:
        """Node id and epoch of leaders that a response other than metadata names (KIP-951): kept where the partition is known,
        under an older epoch, and the broker's address too (Kafka's Metadata.updatePartitionLeadership). Returns the partitions
        whose leader is kept."""
        kept: set[tuple[str, int]] = set()
        for (topic, partition), (node_id, epoch) in leaders.items():
            info, address = self._topics.get(topic), addresses.get(node_id) or self._brokers.get(node_id)
            if info is None or address is None or partition not in info.leaders:
                continue
            if epoch > self.leader_epoch(topic, partition):
                self._brokers[node_id] = address
                info.leaders[partition] = node_id
                self._seen.setdefault(topic, (info.topic_id, {}))[1][partition] = epoch
                kept.add((topic, partition))
        return kept

    def coordinator_received(self, key: str, kind: int, response: FindCoordinatorResponse) -> CoordinatorLookup:
        """Keeps the coordinator and its address, unless the response is an error."""
        received = response.coordinators[0] if response.coordinators else response
        lookup = CoordinatorLookup(received.node_id, error_of(received.error_code), received.error_message)
        if not lookup.error_code:
            self._brokers[lookup.node_id] = (received.host, received.port)
            self._coordinators[kind, key] = lookup.node_id
        return lookup

    def assume_leader(self, topic: str, partition: int, address: Address) -> None:
        """Until a response names another: for a driver that was given the leader's address and no node id."""
        known = {where: node_id for node_id, where in self._brokers.items()}
        node_id = known.get(address, NO_NODE - 1 - len(self._brokers))
        self._brokers[node_id] = address
        self._topics.setdefault(topic, TopicInfo(bytes(16), {})).leaders[partition] = node_id

    # -- what is known --------------------------------------------------------------------------------------------------

    def node_ids(self) -> list[int]:
        return sorted(self._brokers)

    def address(self, node_id: int | None) -> Address | None:
        return None if node_id is None else self._brokers.get(node_id)

    def topic(self, name: str) -> TopicInfo | None:
        return self._topics.get(name)

    def all_topics(self) -> dict[str, TopicInfo]:
        """As the newest response to a request for all of them had them."""
        return self._all

    def topic_names(self, topic_ids: Iterable[bytes]) -> dict[bytes, str]:
        """The names of these topic ids, where they are known."""
        names = {info.topic_id: name for name, info in (self._all | self._topics).items() if not info.error}
        return {topic_id: names[topic_id] for topic_id in topic_ids if topic_id in names}

    def topic_ids(self, names: Iterable[str]) -> dict[str, bytes]:
        """The ids of these topics, where they are known and have one: those of brokers before Kafka 2.8 have none."""
        known = {name: self._topics[name].topic_id for name in names if name in self._topics}
        return {name: topic_id for name, topic_id in known.items() if topic_id != NULL_UUID}

    def leader(self, topic: str, partition: int) -> int | None:
        """The leader's node id; -1 where the partition has none."""
        info = self._topics.get(topic)
        return None if info is None else info.leaders.get(partition)

    def leader_address(self, topic: str, partition: int) -> Address | None:
        return self.address(self.leader(topic, partition))

    def leader_epoch(self, topic: str, partition: int) -> int:
        """The newest one that a response named, also of a topic that is gone; -1 where none did."""
        return self._seen.get(topic, (b"", {}))[1].get(partition, -1)

    def coordinator(self, key: str, kind: int) -> int | None:
        """Its node id; None also where the cluster no longer names that broker."""
        node_id = self._coordinators.get((kind, key))
        return node_id if node_id in self._brokers else None

    # -- what is wrong --------------------------------------------------------------------------------------------------

    def forget_topic(self, name: str) -> None:
        self._topics.pop(name, None)

    def forget_coordinator(self, key: str, kind: int) -> None:
        self._coordinators.pop((kind, key), None)

    def forget_leaders(self) -> None:
        """Forgets the leaders of all topics and every coordinator: a connection was lost, and what else has moved is
        unknown. The addresses stay."""
        self._topics.clear()
        self._coordinators.clear()


def _topic_info(topic: MetadataResponseTopic, rack_of: dict[int, str]) -> TopicInfo:
    ordered = sorted(topic.partitions, key=lambda p: p.partition_index)
    return TopicInfo(
        topic.topic_id,
        {p.partition_index: p.leader_id for p in ordered},
        error_of(topic.error_code),
        topic.is_internal,
        [frozenset(rack_of[n] for n in p.replica_nodes if n in rack_of) for p in ordered],
    )
