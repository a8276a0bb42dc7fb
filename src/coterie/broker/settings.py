"""The broker's settings: one table with Kafka's names, kinds and defaults; topic settings beside it.

An unknown or bad one is refused with a sentence that names the nearest known (`SettingError`).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from coterie.coordinator.outcome import CoordinatorConfig
from coterie.log.partition_log import LogConfig

MAX_LONG = 2**63 - 1
MAX_INT = 2**31 - 1


class SettingError(ValueError):
    """A setting that does not exist, or a value that it cannot have."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its default, its kind (bool, int, string) and, for numbers, its bounds."""

    name: str
    default: bool | int | str
    minimum: int = -MAX_LONG
    maximum: int = MAX_LONG
    choices: tuple[str, ...] = ()
    text: str = ""

    def parse(self, value: str) -> bool | int | str:
        """The value as its kind. Raises SettingError."""
        if isinstance(self.default, bool):
            if value.lower() not in ("true", "false"):
                raise SettingError(f"{self.name} must be true or false, not {value!r}")
            return value.lower() == "true"
        if isinstance(self.default, int):
            try:
                number = int(value)
            except ValueError:
                raise SettingError(f"{self.name} must be a whole number, not {value!r}") from None
            if not self.minimum <= number <= self.maximum:
                raise SettingError(f"{self.name} must be from {self.minimum} to {self.maximum}, not {number}")
            return number
        if self.choices and value not in self.choices:
            raise SettingError(f"{self.name} must be one of {', '.join(self.choices)}, not {value!r}")
        return value


def _table(*settings: Setting) -> dict[str, Setting]:
    return {s.name: s for s in settings}


BROKER_SETTINGS = _table(
    Setting("node.id", 1, 0, MAX_INT, text="this broker's id"),
    Setting("num.partitions", 1, 1, 100_000, text="partitions of a topic that is created by itself or with -1"),
    Setting("auto.create.topics.enable", True, text="whether asking for a topic's metadata creates it"),
    Setting("default.replication.factor", 1, 1, 1, text="one broker: always 1"),
    Setting("delete.topic.enable", True),
    Setting(
        "advertised.listeners", "", text="HOST:PORT that clients are told to connect to; empty: where they came in"
    ),
    Setting("socket.request.max.bytes", 104_857_600, 1024, MAX_INT, text="largest request; a larger one is cut off"),
    Setting("max.connections", 10_000, 1, MAX_INT, text="connections beyond it are closed at once"),
    Setting("connections.max.idle.ms", 600_000, -1, text="idle connections are closed after it; -1: never"),
    Setting("message.max.bytes", 1_048_588, 1, MAX_INT, text="largest record batch"),
    Setting("log.segment.bytes", 1_073_741_824, 1024, MAX_INT),
    Setting("log.roll.ms", 604_800_000, 1),
    Setting("log.retention.ms", 604_800_000, -1, text="-1: for ever"),
    Setting("log.retention.bytes", -1, -1, text="-1: no limit"),
    Setting("log.retention.check.interval.ms", 300_000, 1),
    Setting("log.index.interval.bytes", 4096, 0, MAX_INT),
    Setting(
        "log.flush.interval.messages", MAX_LONG, 1, text="flush to disk after so many records; 1: before each answer"
    ),
    Setting("log.flush.interval.ms", MAX_LONG, 1, text="flush to disk at least so often"),
    Setting("log.cleaner.backoff.ms", 15_000, 1, text="how often compaction looks for logs of which half is new to it"),
    Setting("log.cleaner.delete.retention.ms", 86_400_000, 0, text="for how long a compacted topic keeps tombstones"),
    Setting("log.cleanup.policy", "delete", choices=("delete", "compact", "compact,delete", "delete,compact")),
    Setting("log.message.timestamp.type", "CreateTime", choices=("CreateTime", "LogAppendTime")),
    Setting("compression.type", "producer", choices=("producer",), text="batches are kept as they come"),
    Setting("fetch.max.bytes", 57_671_680, 1024, MAX_INT, text="largest fetch answer"),
    Setting("group.min.session.timeout.ms", 6_000, 1, MAX_INT),
    Setting("group.max.session.timeout.ms", 1_800_000, 1, MAX_INT),
    Setting("group.initial.rebalance.delay.ms", 3_000, 0, MAX_INT),
    Setting("group.max.size", MAX_INT, 1, MAX_INT),
    Setting("offset.metadata.max.bytes", 4_096, 0, MAX_INT),
    Setting("offsets.topic.num.partitions", 50, 1, 10_000),
    Setting("transaction.state.log.num.partitions", 50, 1, 10_000),
    Setting("transaction.max.timeout.ms", 900_000, 1),
    Setting("transaction.abort.timed.out.transaction.cleanup.interval.ms", 10_000, 1),
    Setting("offsets.topic.replication.factor", 1, 1, 3, text="one broker: any value counts as 1"),
    Setting("offsets.topic.segment.bytes", 104_857_600, 1024, MAX_INT),
    Setting("offsets.retention.minutes", 10_080, 1, MAX_INT),
    Setting("offsets.retention.check.interval.ms", 600_000, 1),
    Setting("producer.id.expiration.ms", 86_400_000, 1, MAX_INT),
    Setting(
        "zookeeper.connect",
        "",
        text="HOST:PORT[/chroot] to register in, for consumers of Kafka 0.8's kind; empty: none",
    ),
    Setting("zookeeper.session.timeout.ms", 6_000, 100, MAX_INT),
    Setting("zookeeper.connection.timeout.ms", 6_000, 100, MAX_INT),
    Setting("coterie.journal.enable", True, text="whether group events go to the topic __coterie_journal"),
    Setting(
        "coterie.group.sync.timeout.enable",
        True,
        text="off: Kafka 2.6, where a member that never syncs blocks its group",
    ),
    Setting(
        "coterie.group.pending.leave.rebalance.enable",
        True,
        text="off: Kafka before 4, where a member id that was never used leaves a settled group in peace",
    ),
)

# topic setting -> (the broker setting that is its default, the setting itself)
TOPIC_SETTINGS: dict[str, tuple[str, Setting]] = {
    name: (source, Setting(name, *rest))
    for name, source, *rest in (
        ("cleanup.policy", "log.cleanup.policy", "delete"),
        ("compression.type", "compression.type", "producer"),
        ("delete.retention.ms", "log.cleaner.delete.retention.ms", 86_400_000, 0),
        ("flush.messages", "log.flush.interval.messages", MAX_LONG, 1),
        ("flush.ms", "log.flush.interval.ms", MAX_LONG, 1),
        ("index.interval.bytes", "log.index.interval.bytes", 4096, 0, MAX_INT),
        ("max.message.bytes", "message.max.bytes", 1_048_588, 1, MAX_INT),
        ("message.timestamp.type", "log.message.timestamp.type", "CreateTime"),
        ("retention.bytes", "log.retention.bytes", -1, -1),
        ("retention.ms", "log.retention.ms", 604_800_000, -1),
        ("segment.bytes", "log.segment.bytes", 1_073_741_824, 1024, MAX_INT),
        ("segment.ms", "log.roll.ms", 604_800_000, 1),
    )
}


def nearest(name: str, known: Iterable[str]) -> str:
    """Words that help with a name that nobody knows."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else ""


class BrokerSettings:
    """The values in force. ``settings["num.partitions"]`` is typed as its default is."""

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        """Raises SettingError for an unknown name or a bad value."""
        self.given: dict[str, bool | int | str] = {}
        for name, value in (given or {}).items():
            setting = BROKER_SETTINGS.get(name)
            if setting is None:
                raise SettingError(f"there is no setting {name}{nearest(name, BROKER_SETTINGS)}")
            self.given[name] = setting.parse(value)

    def __getitem__(self, name: str) -> Any:
        return self.given.get(name, BROKER_SETTINGS[name].default)

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
        """A topic setting's value: the topic's own, else the broker's."""
        source, setting = TOPIC_SETTINGS[name]
        return setting.parse(configs[name]) if name in configs else self[source]

    def log_config(self, configs: Mapping[str, str]) -> LogConfig:
        value: Callable[[str], Any] = lambda name: self.topic_value(name, configs)  # noqa: E731
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
            cleanup_delete="delete" in str(value("cleanup.policy")),
            cleanup_compact="compact" in str(value("cleanup.policy")),
            delete_retention_ms=value("delete.retention.ms"),
        )


def check_topic_configs(configs: Mapping[str, str | None]) -> dict[str, str]:
    """A topic's settings, checked; None stands for the default. Raises SettingError."""
    checked: dict[str, str] = {}
    for name, value in configs.items():
        known = TOPIC_SETTINGS.get(name)
        if known is None:
            raise SettingError(f"there is no topic setting {name}{nearest(name, TOPIC_SETTINGS)}")
        if value is not None:
            BROKER_SETTINGS[known[0]].parse(value)
            known[1].parse(value)
            checked[name] = value
    return checked


def read_properties(text: str) -> dict[str, str]:
    """Java properties, as in Kafka's server.properties: NAME=VALUE a line, # or ! begins a comment."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line[0] in "#!":
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise SettingError(f"line {number} of the properties is not NAME=VALUE: {line!r}")
        found[name.strip()] = value.strip()
    return found
