"""Has Apache Kafka take over a folder that coterie began: Kafka knows topics by its metadata log alone, and a new one begins
with what `bootstrap.checkpoint` holds (KIP-778; Kafka's BootstrapDirectory). Without the file the topics of the folder would
be strays, and share groups and streams groups not served, since features have level 0."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from coterie.broker.folder_check import check_unused
from coterie.broker.settings import BrokerSettings
from coterie.broker.settings.altered_settings import KeptConfigs, ResourceType
from coterie.broker.settings.features import FEATURES, SHARE_VERSION, Features
from coterie.broker.storage.disk import DiskFileSystem
from coterie.broker.storage.identity import read_identity, write_topic_id
from coterie.broker.storage.overlay import OverlayFileSystem
from coterie.broker.storage.topic import Topic
from coterie.broker.storage.topics import Topics
from coterie.broker.transactions.folder_producer_ids import loaded_producer_ids
from coterie.records.encoding import encode_batch
from coterie.wire.declaration import Message
from coterie.wire.messages.stored.metadata_records import (
    ConfigRecord,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    TopicRecord,
)
from coterie.wire.primitives import write_unsigned_varint

FILE = "bootstrap.checkpoint"
_METADATA_VERSION = "metadata.version"
# The highest feature levels of a release; the others are those of `FEATURES`.
RELEASES: dict[str, dict[str, int]] = {"4.3": {_METADATA_VERSION: 30, SHARE_VERSION: 1}, "4.4": {}}
_FRAME_VERSION = 1
_RECORDS_IN_BATCH = 1_000
_NO_DIRECTORY = bytes(16)  # the broker reports its own
_OF_GROUPS = (ResourceType.GROUP, ResourceType.CLIENT_METRICS)


class CannotHandOver(RuntimeError):
    """The folder is not one that Kafka could take over so."""


@dataclass(frozen=True, slots=True)
class HandedOver:
    """How many topics and partitions the file has, and whose the folder is."""

    topics: int
    partitions: int
    node_id: int
    cluster_id: str


def hand_over(folder: Path, release: str) -> HandedOver:
    """Writes `bootstrap.checkpoint`, and the ids of topics beside the partitions. Raises CannotHandOver, DataFolderInUse,
    OSError, UnreadableFile."""
    check_unused(folder)
    fs = DiskFileSystem(folder)
    identity = read_identity(fs)
    if "node.id" not in identity or not fs.exists("topics.json"):
        raise CannotHandOver(f"{folder} is not the data folder of a single broker of coterie")
    if not fs.exists(".kafka_cleanshutdown"):
        raise CannotHandOver("the broker has not stopped cleanly; start it and stop it with SIGTERM first")
    if any(name.startswith("__cluster_metadata-") for name in fs.names("")):
        raise CannotHandOver("Apache Kafka has begun a metadata log in the folder, and reads that alone")
    node_id = int(identity["node.id"])
    with tempfile.TemporaryDirectory(prefix="coterie-hand-over-") as changes:
        over = OverlayFileSystem(folder, Path(changes))
        topics = Topics(over, BrokerSettings())
        topics.load()
        records = list(_records(over, topics, node_id, release))
        for log in topics.every_log():
            log.close_files()
    for topic in topics.by_name.values():
        for partition in topic.partitions:
            write_topic_id(fs, f"{topic.name}-{partition.index}", topic.topic_id)
    fs.write_file(FILE, checkpoint(records))
    count = sum(len(topic.partitions) for topic in topics.by_name.values())
    return HandedOver(len(topics.by_name), count, node_id, identity["cluster.id"])


def checkpoint(records: list[Message]) -> bytes:
    """The file with these records: batches as of any log."""
    batches, offset = [], 0
    while offset < len(records):
        part = records[offset : offset + _RECORDS_IN_BATCH]
        batches.append(encode_batch([(0, None, _value(r), ()) for r in part], base_offset=offset, leader_epoch=1))
        offset += len(part)
    return b"".join(batches)


def _value(record: Message) -> bytes:
    kind = type(record)
    version = kind.versions.first
    head = (write_unsigned_varint(number) for number in (_FRAME_VERSION, kind.api_key, version))
    return b"".join(head) + record.encode(version)


def _records(fs: OverlayFileSystem, topics: Topics, node_id: int, release: str) -> Iterator[Message]:
    features, kept = Features(fs), KeptConfigs(fs)
    highest = {name: feature.maximum for name, feature in FEATURES.items()} | RELEASES[release]
    yield FeatureLevelRecord(_METADATA_VERSION, highest.pop(_METADATA_VERSION))  # first, so that the others can be read
    for name, level in highest.items():
        if min(level, features.level(name)):
            yield FeatureLevelRecord(name, min(level, features.level(name)))
    yield ProducerIdsRecord(node_id, -1, loaded_producer_ids(fs, topics).next_block())
    for topic in topics.by_name.values():
        yield from _of_topic(topic, node_id)
    for kind in _OF_GROUPS:
        for resource in kept.names(kind):
            for name, value in kept.of(kind, resource).items():
                yield ConfigRecord(kind, resource, name, value)


def _of_topic(topic: Topic, node_id: int) -> Iterator[Message]:
    """No leader: the broker is not there yet, and is elected once it is, in the next epoch."""
    yield TopicRecord(topic.name, topic.topic_id)
    for partition in topic.partitions:
        replicas, epoch = [node_id], partition.log.leader_epoch
        yield PartitionRecord(
            partition.index,
            topic.topic_id,
            replicas,
            replicas,
            [],
            [],
            leader_epoch=epoch,
            partition_epoch=0,
            directories=[_NO_DIRECTORY],
        )
    for name, value in topic.configs.items():
        yield ConfigRecord(ResourceType.TOPIC, topic.name, name, value)
