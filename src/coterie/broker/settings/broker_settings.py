"""The values in force: what was given at the start, over it what was altered at run time, under both the defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from itertools import dropwhile
from typing import Any

from coterie.broker.settings.broker_table import BROKER_SETTINGS
from coterie.broker.settings.setting import SettingError, Value, format_value, nearest
from coterie.broker.settings.topic_table import TOPIC_SETTINGS
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.log.config import NO_LIMIT, LogConfig
from coterie.records.compression import CODEC_BY_NAME, GZIP, LZ4, NONE, ZSTD

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
    """The broker's settings. ``settings["num.partitions"]`` is the value in force, of the setting's kind."""

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        """Raises SettingError for an unknown name or a bad value."""
        self.given: dict[str, str] = dict(given or {})
        for name in list(self.given):
            if name in _ALIASES:
                self.given.setdefault(_ALIASES[name], self.given[name])
        self.dynamic: dict[str, str] = {}  # of this broker, as altered at run time
        self.dynamic_default: dict[str, str] = {}  # of every broker
        self._at_start = {name: setting.default for name, setting in BROKER_SETTINGS.items()}
        self._at_start |= {name: _broker_setting_value(name, text) for name, text in self.given.items()}
        self._values = self._at_start

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def alter(self, dynamic_default: Mapping[str, str], dynamic: Mapping[str, str]) -> None:
        """Puts altered settings in force in place of those before: of every broker, and of this one, which win.

        Names that are no setting of the broker are kept, as by Kafka. Raises SettingError for a bad value."""
        values = dict(self._at_start)
        for layer in (dynamic_default, dynamic):
            values |= {n: BROKER_SETTINGS[n].parse(text) for n, text in layer.items() if n in BROKER_SETTINGS}
        self.dynamic_default, self.dynamic, self._values = dict(dynamic_default), dict(dynamic), values

    def coordinator(self) -> CoordinatorConfig:
        return CoordinatorConfig(
            group_min_session_timeout_ms=self["group.min.session.timeout.ms"],
            group_max_session_timeout_ms=self["group.max.session.timeout.ms"],
            group_initial_rebalance_delay_ms=self["group.initial.rebalance.delay.ms"],
            group_max_size=self["group.max.size"],
            offset_metadata_max_bytes=self["offset.metadata.max.bytes"],
            offsets_retention_ms=self["offsets.retention.minutes"] * 60_000,
            sync_timeout_enabled=self["coterie.group.sync.timeout.enable"],
            pending_leave_rebalances=self["coterie.group.pending.leave.rebalance.enable"],
        )

    def topic_value(self, name: str, configs: Mapping[str, str]) -> Any:
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
        """The values of a broker setting and of those that stand in for it, from the one in force to the default.

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
                raise SettingError(f"there is no topic setting {name}{nearest(name, TOPIC_SETTINGS)}")
            topic.setting.parse(text)
        shortest, longest = (self.topic_value(f"{which}.compaction.lag.ms", configs) for which in ("min", "max"))
        if shortest > longest:
            raise SettingError(
                f"min.compaction.lag.ms must be at most max.compaction.lag.ms ({longest}), not {shortest}"
            )

    def log_config(self, configs: Mapping[str, str]) -> LogConfig:
        """What the logs of a topic with these settings need."""
        value: Callable[[str], Any] = lambda name: self.topic_value(name, configs)  # noqa: E731
        codec = None if value("compression.type") == "producer" else _CODECS[value("compression.type")]
        level = None if codec is None else _LEVELS.get(codec)
        either_way = value("message.timestamp.difference.max.ms")
        return LogConfig(
            segment_bytes=value("segment.bytes"),
            segment_ms=value("segment.ms"),
            retention_bytes=value("retention.bytes"),
            retention_ms=value("retention.ms"),
            max_message_bytes=value("max.message.bytes"),
            index_interval_bytes=value("index.interval.bytes"),
            flush_messages=value("flush.messages"),
            flush_ms=value("flush.ms"),
            append_time=value("message.timestamp.type") == "LogAppendTime",
            cleanup_delete="delete" in value("cleanup.policy"),
            cleanup_compact="compact" in value("cleanup.policy"),
            delete_retention_ms=value("delete.retention.ms"),
            min_cleanable_dirty_ratio=value("min.cleanable.dirty.ratio"),
            min_compaction_lag_ms=value("min.compaction.lag.ms"),
            max_compaction_lag_ms=value("max.compaction.lag.ms"),
            compression=codec,
            level=None if level is None else value(level),
            timestamp_before_max_ms=_limit(value("message.timestamp.before.max.ms"), either_way),
            timestamp_after_max_ms=_limit(value("message.timestamp.after.max.ms"), either_way),
            downconversion=value("message.downconversion.enable"),
            preallocate=value("preallocate"),
        )


_CODECS = CODEC_BY_NAME | {"uncompressed": NONE}
_LEVELS = {GZIP: "compression.gzip.level", LZ4: "compression.lz4.level", ZSTD: "compression.zstd.level"}


def _limit(one_way_ms: int, either_way_ms: int) -> int:
    """A limit of timestamps; the older setting for both ways holds where there is none."""
    return either_way_ms if one_way_ms == NO_LIMIT else one_way_ms


def _broker_setting_value(name: str, text: str) -> Value:
    setting = BROKER_SETTINGS.get(name)
    if setting is None:
        raise SettingError(f"there is no setting {name}{nearest(name, BROKER_SETTINGS)}")
    return setting.parse(text)
