"""The values in force: what was given at the start, over it what was altered at run time, under both the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import IntEnum
from itertools import dropwhile

from coterie.broker.process.patterns import subscription_problem
from coterie.broker.settings.groups import (
    check_consumer_group_settings,
    check_share_group_settings,
    check_streams_group_settings,
    server_assignors,
)
from coterie.broker.settings.tables.broker_table import BROKER_SETTINGS, OWN_SETTINGS, BrokerConfig
from coterie.broker.settings.tables.group_table import SHARE_SETTINGS, STREAMS_SETTINGS, ShareConfig, StreamsConfig
from coterie.broker.settings.tables.security_table import SECURITY_SETTINGS, SecurityConfig, listener_setting, prefixes
from coterie.broker.settings.tables.topic_table import TOPIC_SETTINGS, TopicConfig
from coterie.configuration import SettingError, format_value, unknown_setting, with_values
from coterie.coordinator.consumer.state import MigrationPolicy
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.log.config import NO_LIMIT, LogConfig
from coterie.records.compression import CODEC_BY_NAME, GZIP, LZ4, NONE, ZSTD

# The settings that the group coordinator has under the same name, and in the same unit.
COORDINATOR_SETTINGS = frozenset(f.name for f in fields(BrokerConfig)) & {f.name for f in fields(CoordinatorConfig)}
SHARE_COORDINATOR_SETTINGS = frozenset(f.name for f in fields(ShareConfig)) & {
    f.name for f in fields(CoordinatorConfig)
}
_STREAMS_SETTINGS = frozenset(f.name for f in fields(StreamsConfig)) & {f.name for f in fields(CoordinatorConfig)}
# The same setting under two names: where one is given, the other follows.
_ALIASES = {"broker.id": "node.id", "node.id": "broker.id"}
# Settings of the same thing in different units: DescribeConfigs shows all of them as synonyms of each.
_FAMILIES = [[name for name, _factor in topic.synonyms] for topic in TOPIC_SETTINGS.values() if len(topic.synonyms) > 1]
_BROKER_SYNONYMS = {name: family for family in _FAMILIES for name in family}


class Source(IntEnum):
    """Where a value comes from, numbered as DescribeConfigs numbers it; the lower number wins."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


@dataclass(frozen=True, slots=True)
class Synonym:
    """One of the values that a setting could have; the first of a list is in force."""

    name: str
    value: str
    source: Source


class BrokerSettings:
    """The broker's settings. ``current`` has the values in force of what the broker uses, ``share`` those
    of share groups, ``streams`` those of streams groups, ``topic_defaults`` those of a topic
    without settings of its own; ``settings[NAME]`` is the value of any broker setting."""

    def __init__(self, given: Mapping[str, object] | None = None) -> None:
        """``given``: texts, or Python values. Raises SettingError for an unknown name or a bad value."""
        every = dict(given or {})
        for name in list(every):
            if name in _ALIASES:
                every.setdefault(_ALIASES[name], every[name])
        parsed = {name: _broker_setting_value(name, value) for name, value in every.items()}
        texts = {n: value if isinstance(value, str) else format_value(parsed[n]) for n, value in every.items()}
        self.given = {name: text for name, text in texts.items() if text is not None}
        self.dynamic: dict[str, str] = {}  # of this broker, as altered at run time
        self.dynamic_default: dict[str, str] = {}  # of every broker
        self._at_start = {name: setting.default for name, setting in BROKER_SETTINGS.items()}
        self._at_start |= parsed
        self._values = self._at_start
        self._apply()

    def __getitem__(self, name: str) -> object:
        return self._values[name]

    @property
    def joins_cluster(self) -> bool:
        """Whether the broker is one of the cluster on its ZooKeeper. Without an id it is alone, and ZooKeeper has a copy of its
        topics, for consumers of Kafka 0.8's kind."""
        return bool(self.current.zookeeper_connect) and "broker.id" in self.given

    def _apply(self) -> None:
        self.current: BrokerConfig = with_values(BrokerConfig, {name: self._values[name] for name in OWN_SETTINGS})
        self.share: ShareConfig = with_values(ShareConfig, {name: self._values[name] for name in SHARE_SETTINGS})
        self.streams = with_values(StreamsConfig, {name: self._values[name] for name in STREAMS_SETTINGS})
        self.topic_defaults = self.topic({})

    def security(self, listener: str, mechanism: str | None = None) -> SecurityConfig:
        """The settings of TLS and SASL of one listener, or of one of its mechanisms: its own, else those of all. Raises
        SettingError."""
        values = {name: self._values[name] for name in SECURITY_SETTINGS}
        for prefix in prefixes(listener, mechanism)[1:]:
            for name, setting in SECURITY_SETTINGS.items():
                text = self._of_listeners.get(prefix + name)
                if text is not None:
                    values[name] = setting.parse(text)
        return with_values(SecurityConfig, values)

    @property
    def _of_listeners(self) -> Mapping[str, str]:
        return self.given | self.dynamic_default | self.dynamic

    def given_otherwise(self, values: Mapping[str, str]) -> None:
        """Puts in force what the broker was given by another way than its settings, such as `--listen`. DescribeConfigs returns
        it as a value of the start."""
        self.given |= values
        self._at_start |= {name: BROKER_SETTINGS[name].parse(text) for name, text in values.items()}
        self.alter(self.dynamic_default, self.dynamic)

    def alter(self, dynamic_default: Mapping[str, str], dynamic: Mapping[str, str]) -> None:
        """Puts altered settings in force in place of those before: of every broker, and of this one, which win.

        Names that are no setting of the broker are kept, as by Kafka. Raises SettingError for a bad value."""
        values = dict(self._at_start)
        for layer in (dynamic_default, dynamic):
            values |= {n: BROKER_SETTINGS[n].parse(text) for n, text in layer.items() if n in BROKER_SETTINGS}
        self.dynamic_default, self.dynamic, self._values = dict(dynamic_default), dict(dynamic), values
        self._apply()

    def coordinator(self) -> CoordinatorConfig:
        """The settings of the group coordinator. Raises SettingError where two of them conflict."""
        own = self.current
        check_consumer_group_settings(own)
        check_share_group_settings(self.share)
        check_streams_group_settings(self.streams)
        return CoordinatorConfig(
            **{name: getattr(own, name) for name in COORDINATOR_SETTINGS},
            **{name: getattr(self.share, name) for name in SHARE_COORDINATOR_SETTINGS},
            **{name: getattr(self.streams, name) for name in _STREAMS_SETTINGS},
            offsets_retention_ms=own.offsets_retention_minutes * 60_000,
            sync_timeout_enabled=own.coterie_group_sync_timeout_enable,
            pending_leave_rebalances=own.coterie_group_pending_leave_rebalance_enable,
            consumer_group_assignors=server_assignors(own.group_consumer_assignors),
            consumer_group_migration_policy=MigrationPolicy(own.group_consumer_migration_policy.lower()),
            regex_problem=subscription_problem,
        )

    def topic_value(self, name: str, configs: Mapping[str, str]) -> object:
        """A topic setting's value: the topic's own, else that of the first of its broker settings that has one."""
        topic = TOPIC_SETTINGS[name]
        if name in configs:
            return topic.setting.parse(configs[name])
        for synonym, factor in topic.synonyms:
            value = self._values[synonym]
            if isinstance(value, int) and factor > 1:
                return -1 if value < 0 else value * factor  # log.retention.hours=-1 is no limit, as with milliseconds
            if value is not None:
                return value
        return topic.setting.default

    def broker_synonyms(self, name: str) -> list[Synonym]:
        """The values of a broker setting and of its synonyms, from the one in force to the default.

        The order is that of Kafka's ConfigHelper: what comes before the setting's own first value is left out."""
        every = self._layered(_BROKER_SYNONYMS.get(name, [name]))
        return list(dropwhile(lambda synonym: synonym.name != name, every))

    def _layered(self, names: list[str]) -> list[Synonym]:
        known = [BROKER_SETTINGS[n] for n in names if n in BROKER_SETTINGS]
        defaults = {s.name: text for s in known if (text := format_value(s.default)) is not None}
        layers = (
            (Source.DYNAMIC_BROKER, self.dynamic),
            (Source.DYNAMIC_DEFAULT_BROKER, self.dynamic_default),
            (Source.STATIC_BROKER, self.given),
            (Source.DEFAULT, defaults),
        )
        return [Synonym(n, layer[n], source) for source, layer in layers for n in names if n in layer]

    def topic_synonyms(self, name: str, configs: Mapping[str, str]) -> list[Synonym]:
        """The values of a topic setting, from the one in force to the broker's default."""
        topic = TOPIC_SETTINGS[name]
        of_broker = self.broker_synonyms(topic.synonyms[0][0]) if topic.synonyms else []
        if name not in configs:
            return of_broker
        return [Synonym(name, str(format_value(topic.setting.parse(configs[name]))), Source.TOPIC), *of_broker]

    def topic_source(self, name: str, configs: Mapping[str, str]) -> Source:
        """Where a topic setting's value comes from as CreateTopics reports it: any of the broker's settings counts."""
        if name in configs:
            return Source.TOPIC
        every = self._layered([synonym for synonym, _factor in TOPIC_SETTINGS[name].synonyms])
        return every[0].source if every else Source.DEFAULT

    def check_topic_configs(self, configs: Mapping[str, str]) -> None:
        """Raises SettingError for a topic setting that does not exist, a value it cannot have, or two that conflict."""
        for name, text in configs.items():
            topic = TOPIC_SETTINGS.get(name)
            if topic is None:
                raise unknown_setting("topic setting", name, TOPIC_SETTINGS)
            topic.setting.parse(text)
        topic_config = self.topic(configs)
        shortest_ms, longest_ms = topic_config.min_compaction_lag_ms, topic_config.max_compaction_lag_ms
        if shortest_ms > longest_ms:
            raise SettingError(
                f"min.compaction.lag.ms must be at most max.compaction.lag.ms ({longest_ms}), not {shortest_ms}"
            )

    def topic(self, configs: Mapping[str, str]) -> TopicConfig:
        """The values of every setting of a topic with ``configs`` of its own. Raises SettingError."""
        return with_values(TopicConfig, {name: self.topic_value(name, configs) for name in TOPIC_SETTINGS})

    def log_config(self, configs: Mapping[str, str]) -> LogConfig:
        """What the logs of a topic with these settings need."""
        topic = self.topic(configs)
        codec = None if topic.compression_type == "producer" else _CODECS[topic.compression_type]
        either_way_ms = topic.message_timestamp_difference_max_ms
        return LogConfig(
            segment_bytes=topic.segment_bytes,
            segment_ms=topic.segment_ms,
            retention_bytes=topic.retention_bytes,
            retention_ms=topic.retention_ms,
            max_message_bytes=topic.max_message_bytes,
            max_decompressed_message_bytes=topic.max_decompressed_message_bytes,
            index_interval_bytes=topic.index_interval_bytes,
            flush_messages=topic.flush_messages,
            flush_ms=topic.flush_ms,
            append_time=topic.message_timestamp_type == "LogAppendTime",
            cleanup_delete="delete" in topic.cleanup_policy,
            cleanup_compact="compact" in topic.cleanup_policy,
            delete_retention_ms=topic.delete_retention_ms,
            min_cleanable_dirty_ratio=topic.min_cleanable_dirty_ratio,
            min_compaction_lag_ms=topic.min_compaction_lag_ms,
            max_compaction_lag_ms=topic.max_compaction_lag_ms,
            compression=codec,
            level=_level(codec, topic),
            timestamp_before_max_ms=_limit(topic.message_timestamp_before_max_ms, either_way_ms),
            timestamp_after_max_ms=_limit(topic.message_timestamp_after_max_ms, either_way_ms),
            downconversion=topic.message_downconversion_enable,
            preallocate=topic.preallocate,
        )


_CODECS = CODEC_BY_NAME | {"uncompressed": NONE}


def _level(codec: int | None, topic: TopicConfig) -> int | None:
    """The level of the topic's own codec, where it has one."""
    levels = {
        GZIP: topic.compression_gzip_level,
        LZ4: topic.compression_lz4_level,
        ZSTD: topic.compression_zstd_level,
    }
    return None if codec is None else levels.get(codec)


def _limit(one_way_ms: int, either_way_ms: int) -> int:
    """A limit of timestamps; the older setting for both ways holds where there is none."""
    return either_way_ms if one_way_ms == NO_LIMIT else one_way_ms


def _broker_setting_value(name: str, value: object) -> object:
    setting = BROKER_SETTINGS.get(name) or listener_setting(name)
    if setting is None:
        raise unknown_setting("setting", name, BROKER_SETTINGS)
    return setting.parse(value)
