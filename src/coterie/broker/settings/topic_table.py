"""Every topic setting of Kafka 3.9 (and so of 4.3, which dropped three): kind, default, values, and what it does here.

Facts: org.apache.kafka.storage.internals.log.LogConfig and what brokers of both versions answer to DescribeConfigs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from coterie.broker.settings.setting import MAX_LONG, Kind, Rule, Setting, Value, at_least, one_of

HOUR_MS, MINUTE_MS = 3_600_000, 60_000
DAY_MS = 24 * HOUR_MS
COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
ONE_REPLICA = "a partition has one replica, so nothing is replicated or elected"
NO_TIERED_STORAGE = "coterie has no tiered storage"
_REPLICA = re.compile(r"[0-9]+:[0-9]+")
# The releases that message.format.version can name.
_RELEASE = re.compile(r"0\.8\.[0-2]|0\.9\.0|0\.10\.[0-2]|0\.11\.0|1\.[01]|2\.[0-8]|3\.[0-9]|4\.0")


def _are_replicas(value: Value) -> bool:
    assert isinstance(value, tuple)
    return value == ("*",) or all(not item or _REPLICA.fullmatch(item) for item in value)


def _is_version(value: Value) -> bool:
    return _RELEASE.fullmatch(re.sub(r"-IV[0-9]$", "", str(value))) is not None


REPLICAS = Rule("* or a list of PARTITION:BROKER", _are_replicas)
KAFKA_VERSION = Rule("a version of Kafka, such as 3.0-IV1", _is_version)
GZIP_LEVEL = Rule("from 1 to 9, or -1", lambda value: value == -1 or value in range(1, 10))
CLEANUP_POLICIES = one_of("delete", "compact")
TIMESTAMP_TYPES = one_of("CreateTime", "LogAppendTime")
NOT_ENABLED = Rule(f"false: {NO_TIERED_STORAGE}", lambda value: value is False)


@dataclass(frozen=True, slots=True)
class TopicSetting:
    """A topic setting, and the broker settings that give its default: (name, factor to the topic setting's unit), the
    first that has a value wins."""

    setting: Setting
    synonyms: tuple[tuple[str, int], ...]


def _row(
    name: str, kind: Kind, default: Value, rule: Rule | None, *synonyms: str | tuple[str, int]
) -> tuple[str, Kind, Value, Rule | None, tuple[tuple[str, int], ...]]:
    return name, kind, default, rule, tuple((s, 1) if isinstance(s, str) else s for s in synonyms)


# name, kind, default, rule, broker settings that are its default
_ROWS = (
    _row("cleanup.policy", Kind.LIST, ("delete",), CLEANUP_POLICIES, "log.cleanup.policy"),
    _row("compression.gzip.level", Kind.INT, -1, GZIP_LEVEL, "compression.gzip.level"),
    _row("compression.lz4.level", Kind.INT, 9, at_least(1, 17), "compression.lz4.level"),
    _row("compression.type", Kind.STRING, "producer", one_of(*COMPRESSION_TYPES), "compression.type"),
    _row("compression.zstd.level", Kind.INT, 3, at_least(-131_072, 22), "compression.zstd.level"),
    _row("delete.retention.ms", Kind.LONG, DAY_MS, at_least(0), "log.cleaner.delete.retention.ms"),
    _row("file.delete.delay.ms", Kind.LONG, MINUTE_MS, at_least(0), "log.segment.delete.delay.ms"),
    _row("flush.messages", Kind.LONG, MAX_LONG, at_least(1), "log.flush.interval.messages"),
    _row("flush.ms", Kind.LONG, MAX_LONG, at_least(0), "log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    _row("follower.replication.throttled.replicas", Kind.LIST, (), REPLICAS),
    _row("index.interval.bytes", Kind.INT, 4096, at_least(0), "log.index.interval.bytes"),
    _row("leader.replication.throttled.replicas", Kind.LIST, (), REPLICAS),
    _row("local.retention.bytes", Kind.LONG, -2, at_least(-2), "log.local.retention.bytes"),
    _row("local.retention.ms", Kind.LONG, -2, at_least(-2), "log.local.retention.ms"),
    _row("max.compaction.lag.ms", Kind.LONG, MAX_LONG, at_least(1), "log.cleaner.max.compaction.lag.ms"),
    _row("max.message.bytes", Kind.INT, 1_048_588, at_least(0), "message.max.bytes"),
    _row("message.downconversion.enable", Kind.BOOLEAN, True, None, "log.message.downconversion.enable"),
    _row("message.format.version", Kind.STRING, "3.0-IV1", KAFKA_VERSION, "log.message.format.version"),
    _row("message.timestamp.after.max.ms", Kind.LONG, MAX_LONG, at_least(0), "log.message.timestamp.after.max.ms"),
    _row("message.timestamp.before.max.ms", Kind.LONG, MAX_LONG, at_least(0), "log.message.timestamp.before.max.ms"),
    _row(
        "message.timestamp.difference.max.ms",
        Kind.LONG,
        MAX_LONG,
        at_least(0),
        "log.message.timestamp.difference.max.ms",
    ),
    _row("message.timestamp.type", Kind.STRING, "CreateTime", TIMESTAMP_TYPES, "log.message.timestamp.type"),
    _row("min.cleanable.dirty.ratio", Kind.DOUBLE, 0.5, at_least(0, 1), "log.cleaner.min.cleanable.ratio"),
    _row("min.compaction.lag.ms", Kind.LONG, 0, at_least(0), "log.cleaner.min.compaction.lag.ms"),
    _row("min.insync.replicas", Kind.INT, 1, at_least(1), "min.insync.replicas"),
    _row("preallocate", Kind.BOOLEAN, False, None, "log.preallocate"),
    _row("remote.log.copy.disable", Kind.BOOLEAN, False, None),
    _row("remote.log.delete.on.disable", Kind.BOOLEAN, False, None),
    _row("remote.storage.enable", Kind.BOOLEAN, False, NOT_ENABLED),
    _row("retention.bytes", Kind.LONG, -1, None, "log.retention.bytes"),
    _row(
        "retention.ms",
        Kind.LONG,
        7 * DAY_MS,
        at_least(-1),
        "log.retention.ms",
        ("log.retention.minutes", MINUTE_MS),
        ("log.retention.hours", HOUR_MS),
    ),
    _row("segment.bytes", Kind.INT, 1_073_741_824, at_least(14), "log.segment.bytes"),
    _row("segment.index.bytes", Kind.INT, 10_485_760, at_least(4), "log.index.size.max.bytes"),
    _row("segment.jitter.ms", Kind.LONG, 0, at_least(0), "log.roll.jitter.ms", ("log.roll.jitter.hours", HOUR_MS)),
    _row("segment.ms", Kind.LONG, 7 * DAY_MS, at_least(1), "log.roll.ms", ("log.roll.hours", HOUR_MS)),
    _row("unclean.leader.election.enable", Kind.BOOLEAN, False, None, "unclean.leader.election.enable"),
)

_DOCUMENTATION = {
    "cleanup.policy": "How old records go: delete by age and size, compact to the newest record of each key, or both.",
    "compression.gzip.level": "The level for compression.type=gzip; -1: the default of the codec.",
    "compression.lz4.level": "The level for compression.type=lz4.",
    "compression.type": "How batches are compressed in the log; producer keeps them as the producer sent them.",
    "compression.zstd.level": "The level for compression.type=zstd.",
    "delete.retention.ms": "For how long compaction keeps the tombstone of a deleted key.",
    "file.delete.delay.ms": "The delay before the file of a removed segment is deleted.",
    "flush.messages": "Syncs a log to disk after so many records, before they are acknowledged.",
    "flush.ms": "Syncs a log to disk once its oldest record not yet synced is this old.",
    "follower.replication.throttled.replicas": "Follower replicas whose replication is throttled.",
    "index.interval.bytes": "The bytes of records between two entries of the offset index.",
    "leader.replication.throttled.replicas": "Leader replicas whose replication is throttled.",
    "local.retention.bytes": "The size of the local part of a tiered log; -2: retention.bytes.",
    "local.retention.ms": "The age up to which a tiered log is kept locally; -2: retention.ms.",
    "max.compaction.lag.ms": "The longest time for which a record may stay uncompacted.",
    "max.message.bytes": "The largest record batch that is accepted, as compressed.",
    "message.downconversion.enable": "Whether batches are converted for consumers that read older message formats.",
    "message.format.version": "The message format of older brokers.",
    "message.timestamp.after.max.ms": "How far a record's timestamp may lie after the broker's time.",
    "message.timestamp.before.max.ms": "How far a record's timestamp may lie before the broker's time.",
    "message.timestamp.difference.max.ms": "How far a record's timestamp may lie from the broker's time, either way.",
    "message.timestamp.type": "Whether a record keeps the producer's time or gets the time of the append.",
    "min.cleanable.dirty.ratio": "The share of a log that must be uncompacted before it is compacted again.",
    "min.compaction.lag.ms": "The age before which a record is not compacted.",
    "min.insync.replicas": "The replicas that must have a record before acks=all is answered; at most as many as there are.",
    "preallocate": "Whether a new segment's file gets its full size at once.",
    "remote.log.copy.disable": "Stops the copying of segments to remote storage.",
    "remote.log.delete.on.disable": "Deletes remote segments when tiered storage is switched off for the topic.",
    "remote.storage.enable": "Tiered storage for the topic.",
    "retention.bytes": "The size of a partition beyond which old segments are deleted; below 0: no limit.",
    "retention.ms": "The age beyond which old segments are deleted; -1: no limit.",
    "segment.bytes": "The size of a segment; no batch may be larger.",
    "segment.index.bytes": "The largest size of an index file.",
    "segment.jitter.ms": "The random time by which segments are rolled early.",
    "segment.ms": "The age at which a segment that is not full is closed.",
    "unclean.leader.election.enable": "Whether a replica that is not in sync may become the leader.",
}

_NO_EFFECT = {
    "file.delete.delay.ms": "files are deleted at once",
    "follower.replication.throttled.replicas": ONE_REPLICA,
    "leader.replication.throttled.replicas": ONE_REPLICA,
    "local.retention.bytes": NO_TIERED_STORAGE,
    "local.retention.ms": NO_TIERED_STORAGE,
    "message.format.version": "batches are stored in format 2, as by Kafka since 3.0",
    "min.insync.replicas": "a partition has one replica, and no more are waited for, as by Kafka since 3.7",
    "remote.log.copy.disable": NO_TIERED_STORAGE,
    "remote.log.delete.on.disable": NO_TIERED_STORAGE,
    "remote.storage.enable": NO_TIERED_STORAGE,
    "segment.index.bytes": "indexes grow as they need",
    "segment.jitter.ms": "one broker's partitions need not take turns",
    "unclean.leader.election.enable": ONE_REPLICA,
}

TOPIC_SETTINGS: dict[str, TopicSetting] = {
    name: TopicSetting(
        Setting(name, kind, default, rule, _DOCUMENTATION[name], _NO_EFFECT.get(name, "")),
        synonyms,
    )
    for name, kind, default, rule, synonyms in _ROWS
}
