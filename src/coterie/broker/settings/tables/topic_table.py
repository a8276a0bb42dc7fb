"""Every topic setting of Kafka 3.9 and of 4.4 (which dropped three): type, default, values, and what it does here.

Facts: org.apache.kafka.storage.internals.log.LogConfig and what brokers of both versions return to DescribeConfigs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeVar

from coterie.broker.settings.metadata_versions import release_of
from coterie.configuration import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    STRING,
    Rule,
    Setting,
    ValueType,
    at_least,
    declared,
    one_of,
    settings_of,
)
from coterie.configuration.value_types import MAX_LONG

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

HOUR_MS, MINUTE_MS = 3_600_000, 60_000
DAY_MS = 24 * HOUR_MS
COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
ONE_REPLICA = "a partition has one replica, so nothing is replicated or elected"
NO_TIERED_STORAGE = "coterie has no tiered storage"
MAX_ARRAY_BYTES = 2**31 - 9  # the largest array of Java
_REPLICA = r"[0-9]+:[0-9]+"


def _are_replicas(value: object) -> bool:
    assert isinstance(value, tuple)
    return value == ("*",) or all(not item or re.fullmatch(_REPLICA, item) for item in value)


REPLICAS = Rule("* or a list of PARTITION:BROKER", _are_replicas)
KAFKA_VERSION = Rule(
    "a version of Kafka up to 3.9, such as 2.8.1 or 3.0-IV1", lambda value: release_of(str(value)) is not None
)
GZIP_LEVEL = Rule("from 1 to 9, or -1", lambda value: value == -1 or value in range(1, 10))
CLEANUP_POLICIES = one_of("delete", "compact")
TIMESTAMP_TYPES = one_of("CreateTime", "LogAppendTime")
NOT_ENABLED = Rule(f"false: {NO_TIERED_STORAGE}", lambda value: value is False)


@dataclass(frozen=True, slots=True)
class _TopicRow(Setting[T_co]):
    """``broker``: the broker settings that are its default, each with the factor to this setting's unit where it differs."""

    broker: tuple[str | tuple[str, int], ...] = ()


def _topic(
    value_type: ValueType[T],
    default: T,
    documentation: str,
    rule: Rule | None = None,
    *,
    broker: tuple[str | tuple[str, int], ...] = (),
    no_effect: str = "",
) -> T:
    return declared(_TopicRow("", value_type, default, rule, documentation, no_effect, broker))


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The values of a topic's settings; names, units and defaults are Kafka's."""

    cleanup_policy: tuple[str, ...] = _topic(
        LIST,
        ("delete",),
        "How old records go: delete by age and size, compact to the newest record of each key, or both.",
        CLEANUP_POLICIES,
        broker=("log.cleanup.policy",),
    )
    compression_gzip_level: int = _topic(
        INT,
        -1,
        "The level for compression.type=gzip; -1: the default of the codec.",
        GZIP_LEVEL,
        broker=("compression.gzip.level",),
    )
    compression_lz4_level: int = _topic(
        INT, 9, "The level for compression.type=lz4.", at_least(1, 17), broker=("compression.lz4.level",)
    )
    compression_type: str = _topic(
        STRING,
        "producer",
        "How batches are compressed in the log; producer keeps them as the producer sent them.",
        one_of(*COMPRESSION_TYPES),
        broker=("compression.type",),
    )
    compression_zstd_level: int = _topic(
        INT, 3, "The level for compression.type=zstd.", at_least(-131_072, 22), broker=("compression.zstd.level",)
    )
    delete_retention_ms: int = _topic(
        LONG,
        DAY_MS,
        "For how long compaction keeps the tombstone of a deleted key.",
        at_least(0),
        broker=("log.cleaner.delete.retention.ms",),
    )
    errors_deadletterqueue_group_enable: bool = _topic(
        BOOLEAN, False, "Whether share groups may have this topic as that of their dead letters."
    )
    file_delete_delay_ms: int = _topic(
        LONG,
        MINUTE_MS,
        "The delay before the file of a removed segment is deleted.",
        at_least(0),
        broker=("log.segment.delete.delay.ms",),
        no_effect="files are deleted at once",
    )
    flush_messages: int = _topic(
        LONG,
        MAX_LONG,
        "Syncs a log to disk after so many records, before they are acknowledged.",
        at_least(1),
        broker=("log.flush.interval.messages",),
    )
    flush_ms: int = _topic(
        LONG,
        MAX_LONG,
        "Syncs a log to disk once its oldest record not yet synced is this old.",
        at_least(0),
        broker=(
            "log.flush.interval.ms",
            "log.flush.scheduler.interval.ms",
        ),
    )
    follower_replication_throttled_replicas: tuple[str, ...] = _topic(
        LIST, (), "Follower replicas whose replication is throttled.", REPLICAS, no_effect=ONE_REPLICA
    )
    index_interval_bytes: int = _topic(
        INT,
        4096,
        "The bytes of records between two entries of the offset index.",
        at_least(0),
        broker=("log.index.interval.bytes",),
    )
    leader_replication_throttled_replicas: tuple[str, ...] = _topic(
        LIST, (), "Leader replicas whose replication is throttled.", REPLICAS, no_effect=ONE_REPLICA
    )
    local_retention_bytes: int = _topic(
        LONG,
        -2,
        "The size of the local part of a tiered log; -2: retention.bytes.",
        at_least(-2),
        broker=("log.local.retention.bytes",),
        no_effect=NO_TIERED_STORAGE,
    )
    local_retention_ms: int = _topic(
        LONG,
        -2,
        "The age up to which a tiered log is kept locally; -2: retention.ms.",
        at_least(-2),
        broker=("log.local.retention.ms",),
        no_effect=NO_TIERED_STORAGE,
    )
    max_compaction_lag_ms: int = _topic(
        LONG,
        MAX_LONG,
        "The longest time for which a record may stay uncompacted.",
        at_least(1),
        broker=("log.cleaner.max.compaction.lag.ms",),
    )
    max_decompressed_message_bytes: int = _topic(
        INT,
        MAX_ARRAY_BYTES,
        "The largest record that a compressed batch may hold, as it is without its compression.",
        at_least(1, MAX_ARRAY_BYTES),
        broker=("max.decompressed.message.bytes",),
    )
    max_message_bytes: int = _topic(
        INT,
        1_048_588,
        "The largest record batch that is accepted, as compressed.",
        at_least(0),
        broker=("message.max.bytes",),
    )
    message_downconversion_enable: bool = _topic(
        BOOLEAN,
        True,
        "Whether batches are converted for consumers that read older message formats.",
        broker=("log.message.downconversion.enable",),
    )
    message_format_version: str = _topic(
        STRING,
        "3.0-IV1",
        "The message format of older brokers.",
        KAFKA_VERSION,
        broker=("log.message.format.version",),
        no_effect="batches are stored in format 2, as by Kafka since 3.0",
    )
    message_timestamp_after_max_ms: int = _topic(
        LONG,
        MAX_LONG,
        "How far a record's timestamp may lie after the broker's time.",
        at_least(0),
        broker=("log.message.timestamp.after.max.ms",),
    )
    message_timestamp_before_max_ms: int = _topic(
        LONG,
        MAX_LONG,
        "How far a record's timestamp may lie before the broker's time.",
        at_least(0),
        broker=("log.message.timestamp.before.max.ms",),
    )
    message_timestamp_difference_max_ms: int = _topic(
        LONG,
        MAX_LONG,
        "How far a record's timestamp may lie from the broker's time, either way.",
        at_least(0),
        broker=("log.message.timestamp.difference.max.ms",),
    )
    message_timestamp_type: str = _topic(
        STRING,
        "CreateTime",
        "Whether a record keeps the producer's time or gets the time of the append.",
        TIMESTAMP_TYPES,
        broker=("log.message.timestamp.type",),
    )
    min_cleanable_dirty_ratio: float = _topic(
        DOUBLE,
        0.5,
        "The share of a log that must be uncompacted before it is compacted again.",
        at_least(0, 1),
        broker=("log.cleaner.min.cleanable.ratio",),
    )
    min_compaction_lag_ms: int = _topic(
        LONG,
        0,
        "The age before which a record is not compacted.",
        at_least(0),
        broker=("log.cleaner.min.compaction.lag.ms",),
    )
    min_insync_replicas: int = _topic(
        INT,
        1,
        "The replicas that must have a record before acks=all is acknowledged; at most as many as there are.",
        at_least(1),
        broker=("min.insync.replicas",),
        no_effect="a partition has one replica, and no more are waited for, as by Kafka since 3.7",
    )
    preallocate: bool = _topic(
        BOOLEAN, False, "Whether a new segment's file gets its full size at once.", broker=("log.preallocate",)
    )
    remote_copy_lag_bytes: int = _topic(
        LONG,
        -1,
        "How many newer bytes a segment has before it is copied to remote storage.",
        at_least(-1),
        broker=("log.remote.copy.lag.bytes",),
        no_effect=NO_TIERED_STORAGE,
    )
    remote_copy_lag_ms: int = _topic(
        LONG,
        0,
        "How old a segment is before it is copied to remote storage.",
        at_least(-1),
        broker=("log.remote.copy.lag.ms",),
        no_effect=NO_TIERED_STORAGE,
    )
    remote_log_copy_disable: bool = _topic(
        BOOLEAN, False, "Stops the copying of segments to remote storage.", no_effect=NO_TIERED_STORAGE
    )
    remote_log_delete_on_disable: bool = _topic(
        BOOLEAN,
        False,
        "Deletes remote segments when tiered storage is switched off for the topic.",
        no_effect=NO_TIERED_STORAGE,
    )
    remote_storage_enable: bool = _topic(
        BOOLEAN, False, "Tiered storage for the topic.", NOT_ENABLED, no_effect=NO_TIERED_STORAGE
    )
    retention_bytes: int = _topic(
        LONG,
        -1,
        "The size of a partition beyond which old segments are deleted; below 0: no limit.",
        broker=("log.retention.bytes",),
    )
    retention_ms: int = _topic(
        LONG,
        7 * DAY_MS,
        "The age beyond which old segments are deleted; -1: no limit.",
        at_least(-1),
        broker=(
            "log.retention.ms",
            ("log.retention.minutes", MINUTE_MS),
            ("log.retention.hours", HOUR_MS),
        ),
    )
    segment_bytes: int = _topic(
        INT,
        1_073_741_824,
        "The size of a segment; no batch may be larger.",
        at_least(14),
        broker=("log.segment.bytes",),
    )
    segment_index_bytes: int = _topic(
        INT,
        10_485_760,
        "The largest size of an index file.",
        at_least(4),
        broker=("log.index.size.max.bytes",),
        no_effect="indexes grow as they need",
    )
    segment_jitter_ms: int = _topic(
        LONG,
        0,
        "The random time by which segments are rolled early.",
        at_least(0),
        broker=(
            "log.roll.jitter.ms",
            ("log.roll.jitter.hours", HOUR_MS),
        ),
        no_effect="one broker's partitions need not take turns",
    )
    segment_ms: int = _topic(
        LONG,
        7 * DAY_MS,
        "The age at which a segment that is not full is closed.",
        at_least(1),
        broker=(
            "log.roll.ms",
            ("log.roll.hours", HOUR_MS),
        ),
    )
    unclean_leader_election_enable: bool = _topic(
        BOOLEAN,
        False,
        "Whether a replica that is not in sync may become the leader.",
        broker=("unclean.leader.election.enable",),
        no_effect=ONE_REPLICA,
    )


@dataclass(frozen=True, slots=True)
class TopicSetting:
    """A topic setting, and the broker settings that give its default: (name, factor to the topic setting's unit), the
    first that has a value wins."""

    setting: Setting[object]
    synonyms: tuple[tuple[str, int], ...]


_TABLE: dict[str, _TopicRow[object]] = settings_of(TopicConfig, _TopicRow)
TOPIC_SETTINGS: dict[str, TopicSetting] = {
    name: TopicSetting(row, tuple((s, 1) if isinstance(s, str) else s for s in row.broker))
    for name, row in _TABLE.items()
}
