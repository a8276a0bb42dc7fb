"""Topics and brokers as documents, of what the cluster's responses have."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from typing import Any

from coterie.client import Admin, KafkaError, TopicPartition
from coterie.client.admin.cluster_types import LogDirDescription
from coterie.client.admin_types import ConfigEntry, TopicDescription, TopicPartitionInfo
from coterie.wire.errors import ErrorCode

END, START = -1, -2  # timestamps of ListOffsets
LEADER_MS = 2_000  # in which a partition's leader must respond
Sizes = dict[TopicPartition, int]
LogDirs = dict[int, tuple[LogDirDescription, ...]]  # by broker id


class ClusterDocuments:
    """Of the cluster that the client settings name."""

    def __init__(self, client: dict[str, Any]) -> None:
        self._settings = {"default.api.timeout.ms": "5000"} | client
        self._opened: Admin | None = None

    def _open(self) -> Admin:
        """The connections of the documents before, or new ones: pages send a request each second."""
        if self._opened is None:
            self._opened = Admin(self._settings)
        return self._opened

    def close(self) -> None:
        """Ends the connections."""
        if self._opened is not None:
            self._opened.close()
        self._opened = None

    async def topics(self) -> list[dict[str, Any]]:
        """Each topic with its partitions, replicas and size in bytes, by name. Raises KafkaError."""
        admin = self._open()
        described = await admin.describe_topics()
        sizes = _of_leaders(described, await _log_dirs(admin))
        bytes_of: Counter[str] = Counter()
        for partition, size in sizes.items():
            bytes_of[partition.topic] += size
        return [_topic_row(topic, bytes_of.get(name)) for name, topic in sorted(described.items())]

    async def topic(self, name: str) -> dict[str, Any] | None:
        """A topic's partitions and settings; None where there is none. Raises KafkaError."""
        admin = self._open()
        described = (await admin.describe_topics([name]))[name]
        if described.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return None
        wanted = [TopicPartition(name, p.partition) for p in described.partitions]
        starts, ends = await asyncio.gather(
            admin.list_offsets(dict.fromkeys(wanted, START), errors={}, timeout_ms=LEADER_MS),
            admin.list_offsets(dict.fromkeys(wanted, END), errors={}, timeout_ms=LEADER_MS),
        )
        sizes = _of_leaders({name: described}, await _log_dirs(admin))
        configs = await _configs(admin, name)
        partitions = [
            _partition_row(p, starts.get(tp), ends.get(tp), sizes.get(tp))
            for p, tp in zip(described.partitions, wanted, strict=True)
        ]
        return _topic_row(described, sum(sizes.values()) if sizes else None) | {
            "rows": partitions,
            "settings": [_setting_row(entry) for entry in configs],
        }

    async def brokers(self) -> dict[str, Any]:
        """The cluster's brokers with their partitions, leaders and disks. Raises KafkaError."""
        admin = self._open()
        described = await admin.describe_cluster()
        topics = await admin.describe_topics()
        folders = await _log_dirs(admin)
        led, held, lagging = Counter[int](), Counter[int](), Counter[int]()
        for topic in topics.values():
            for p in topic.partitions:
                led.update([p.leader.id] if p.leader is not None else [])
                held.update(node.id for node in p.replicas)
                lagging.update({node.id for node in p.replicas} - {node.id for node in p.isr})
        return {
            "cluster_id": described.cluster_id,
            "controller": None if described.controller is None else described.controller.id,
            "brokers": [
                {
                    "id": node.id,
                    "address": f"{node.host}:{node.port}",
                    "rack": node.rack,
                    "leaders": led[node.id],
                    "replicas": held[node.id],
                    "out_of_sync": lagging[node.id],
                    "folders": None if node.id not in folders else [_folder_row(f) for f in folders[node.id]],
                }
                for node in described.nodes
            ],
        }


async def _configs(admin: Admin, topic: str) -> list[ConfigEntry]:
    try:
        return sorted((await admin.describe_configs(topic)).values(), key=lambda entry: entry.name)
    except KafkaError:
        return []  # not allowed to see them


async def _log_dirs(admin: Admin) -> LogDirs:
    """By broker; a broker that does not respond is left out."""
    return await admin.describe_log_dirs(errors={})


def _of_leaders(topics: dict[str, TopicDescription], folders: LogDirs) -> Sizes:
    """The size of each partition's log at its leader, in bytes."""
    at: defaultdict[int, Sizes] = defaultdict(dict)
    for node_id, directories in folders.items():
        for directory in directories:
            at[node_id] |= {partition: replica.size for partition, replica in directory.replicas.items()}
    sizes: Sizes = {}
    for name, described in topics.items():
        for info in described.partitions:
            partition = TopicPartition(name, info.partition)
            if info.leader is not None and partition in at[info.leader.id]:
                sizes[partition] = at[info.leader.id][partition]
    return sizes


def _topic_row(topic: TopicDescription, size: int | None) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "internal": topic.is_internal,
        "partitions": len(topic.partitions),
        "replicas": max((len(p.replicas) for p in topic.partitions), default=0),
        "under_replicated": sum(p.is_under_replicated for p in topic.partitions),
        "leaderless": sum(p.leader is None for p in topic.partitions),
        "bytes": size,
    }


def _partition_row(p: TopicPartitionInfo, start: int | None, end: int | None, size: int | None) -> dict[str, Any]:
    return {
        "partition": p.partition,
        "leader": None if p.leader is None else p.leader.id,
        "replicas": [node.id for node in p.replicas],
        "isr": [node.id for node in p.isr],
        "offline": [node.id for node in p.offline_replicas],
        "start": start,
        "end": end,
        "bytes": size,
    }


def _setting_row(entry: ConfigEntry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "value": None if entry.is_sensitive else entry.value,
        "is_default": entry.is_default,
        "source": entry.source.name.lower(),
    }


def _folder_row(directory: LogDirDescription) -> dict[str, Any]:
    return {
        "path": directory.path,
        "error": None if directory.error is ErrorCode.NONE else directory.error.name,
        "bytes": sum(replica.size for replica in directory.replicas.values()),
        "total_bytes": directory.total_bytes,
        "usable_bytes": directory.usable_bytes,
    }
