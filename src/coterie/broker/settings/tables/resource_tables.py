"""Settings of the resources that are neither topic nor broker: subscriptions to client metrics (KIP-714) and groups of
the newer protocols (KIP-848, KIP-932, KIP-1071). Facts: Kafka 4.4's ClientMetricsConfigs and GroupConfig.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from coterie.broker.process.patterns import BadPattern, matcher
from coterie.broker.settings.broker_settings import BrokerSettings
from coterie.broker.settings.groups import is_offset_reset
from coterie.broker.settings.tables.broker_table import BROKER_SETTINGS
from coterie.configuration import (
    BOOLEAN,
    INT,
    LIST,
    STRING,
    Rule,
    Setting,
    SettingError,
    ValueType,
    at_least,
    declared,
    one_of,
    read_settings,
    settings_of,
    unknown_setting,
)

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_MATCHED = (
    "client_instance_id|client_id|client_software_name|client_software_version|client_source_address|client_source_port"
)
_PATTERN = rf"({_MATCHED})\s*=.+"


def _are_patterns(value: object) -> bool:
    assert isinstance(value, tuple)
    return all(re.fullmatch(_PATTERN, item) for item in value)


def check_patterns(items: tuple[str, ...]) -> None:
    """Raises SettingError for an item of ``match`` that is not NAME=PATTERN with a regular expression: of Python's or of RE2's,
    as Java's are much like both. (A kept one that is none matches no client.)"""
    for item in items:
        _, *patterns = item.rstrip("=").split("=")
        if len(patterns) != 1 or not _is_expression(patterns[0].strip()):
            raise SettingError(f"match must have NAME=PATTERN with a regular expression, not {item!r}")


def _is_expression(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        try:
            matcher(text)
        except BadPattern:
            return False
    return True


_PATTERNS = Rule("a list of NAME=PATTERN with the names client_id, client_software_name and the like", _are_patterns)
_OFFSET_RESET = Rule(
    "earliest, latest or by_duration:PnDTnHnMn.nS",
    lambda value: is_offset_reset(str(value)),
)

_NOT_INTERNAL = Rule("a name that does not begin with __", lambda value: not str(value).startswith("__"))


def _metrics(value_type: ValueType[T], default: T, documentation: str, rule: Rule | None = None) -> T:
    return declared(Setting("", value_type, default, rule, documentation))


@dataclass(frozen=True, slots=True)
class ClientMetricsConfig:
    """The values of a subscription to client metrics."""

    interval_ms: int = _metrics(INT, 300_000, "How often clients push their metrics.", at_least(100, 3_600_000))
    match: tuple[str, ...] = _metrics(LIST, (), "Which clients the subscription is for; empty: all.", _PATTERNS)
    metrics: tuple[str, ...] = _metrics(LIST, (), "Prefixes of the names of the metrics to push; *: all.")


CLIENT_METRICS_SETTINGS: dict[str, Setting[object]] = settings_of(ClientMetricsConfig, Setting)


def client_metrics_config(configs: Mapping[str, str]) -> ClientMetricsConfig:
    """The values of a subscription with these settings. Raises SettingError."""
    return read_settings(ClientMetricsConfig, CLIENT_METRICS_SETTINGS, configs, "setting of client metrics")


@dataclass(frozen=True, slots=True)
class _GroupRow(Setting[T_co]):
    """``broker``: the broker setting that is its default; empty where it has none."""

    broker: str = ""


def _of_broker(value_type: ValueType[T], name: str) -> T:
    """A group setting whose default is that of a broker setting."""
    default = value_type.parse(BROKER_SETTINGS[name].default)
    return declared(_GroupRow("", value_type, default, None, f"{name} of this group.", "", broker=name))


def _first_of(value_type: ValueType[T], default: T, broker: str) -> T:
    """A group setting whose default is the first value of a broker setting."""
    return declared(_GroupRow("", value_type, default, None, f"The first of {broker}.", broker=broker))


def _share(value_type: ValueType[T], default: T, documentation: str, rule: Rule | None = None) -> T:
    return declared(_GroupRow("", value_type, default, rule, documentation))


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """The values of a group's settings, for the newer protocols."""

    consumer_assignment_interval_ms: int = _of_broker(INT, "group.consumer.assignment.interval.ms")
    consumer_heartbeat_interval_ms: int = _of_broker(INT, "group.consumer.heartbeat.interval.ms")
    consumer_session_timeout_ms: int = _of_broker(INT, "group.consumer.session.timeout.ms")
    share_assignment_interval_ms: int = _of_broker(INT, "group.share.assignment.interval.ms")
    share_delivery_count_limit: int = _of_broker(INT, "group.share.delivery.count.limit")
    share_heartbeat_interval_ms: int = _of_broker(INT, "group.share.heartbeat.interval.ms")
    share_partition_max_record_locks: int = _of_broker(INT, "group.share.partition.max.record.locks")
    share_record_lock_duration_ms: int = _of_broker(INT, "group.share.record.lock.duration.ms")
    share_session_timeout_ms: int = _of_broker(INT, "group.share.session.timeout.ms")
    streams_assignment_interval_ms: int = _of_broker(INT, "group.streams.assignment.interval.ms")
    streams_heartbeat_interval_ms: int = _of_broker(INT, "group.streams.heartbeat.interval.ms")
    streams_initial_rebalance_delay_ms: int = _of_broker(INT, "group.streams.initial.rebalance.delay.ms")
    streams_num_standby_replicas: int = _of_broker(INT, "group.streams.num.standby.replicas")
    streams_session_timeout_ms: int = _of_broker(INT, "group.streams.session.timeout.ms")
    share_auto_offset_reset: str = _share(
        STRING, "latest", "Where a share group begins in a partition that it has not read.", _OFFSET_RESET
    )
    share_isolation_level: str = _share(
        STRING,
        "read_uncommitted",
        "Whether records of aborted transactions are delivered.",
        one_of("read_committed", "read_uncommitted"),
    )
    share_renew_acknowledge_enable: bool = _share(BOOLEAN, True, "Whether members may renew the locks of records.")
    errors_deadletterqueue_copy_record_enable: bool = _share(
        BOOLEAN, False, "Whether a dead letter has the key and the value of its record."
    )
    errors_deadletterqueue_topic_name: str = _share(
        STRING,
        "",
        "The topic of a share group's dead letters: records that were rejected, or delivered too often. Empty: none.",
        _NOT_INTERNAL,
    )
    streams_assignor_name: str = _first_of(STRING, "sticky", "group.streams.assignors")
    streams_rack_aware_assignment_tags: tuple[str, ...] = _of_broker(LIST, "group.streams.rack.aware.assignment.tags")


_GROUP_TABLE: dict[str, _GroupRow[object]] = settings_of(GroupConfig, _GroupRow)
# setting -> the broker setting that is its default, or its own name
GROUP_SETTINGS: dict[str, tuple[Setting[object], str]] = {
    name: (row, row.broker or name) for name, row in _GROUP_TABLE.items()
}


def check_group_settings(settings: BrokerSettings, configs: Mapping[str, str]) -> None:
    """The settings of one group together. Raises SettingError for a name that is not a group setting, for a value that it
    cannot have, be it by the broker's group.PROTOCOL.min... and group.PROTOCOL.max..., and for a session that a heartbeat
    interval would outlast."""
    for name, text in configs.items():
        _check_group_setting(settings, name, text)
    for protocol in ("consumer", "share", "streams"):
        timeout, interval = (
            _group_value(settings, configs, f"{protocol}.{name}")
            for name in ("session.timeout.ms", "heartbeat.interval.ms")
        )
        if timeout <= interval:
            names = f"{protocol}.session.timeout.ms", f"{protocol}.heartbeat.interval.ms"
            raise SettingError(f"{names[0]} must be greater than {names[1]} ({interval}), not {timeout}")


def _group_value(settings: BrokerSettings, configs: Mapping[str, str], name: str) -> int:
    setting, broker = GROUP_SETTINGS[name]
    value = setting.parse(configs[name]) if name in configs else settings[broker]
    assert isinstance(value, int)
    return value


def _check_group_setting(settings: BrokerSettings, name: str, text: str) -> None:
    if name not in GROUP_SETTINGS:
        raise unknown_setting("group setting", name, GROUP_SETTINGS)
    value = GROUP_SETTINGS[name][0].parse(text)
    if name == "streams.assignor.name" and value not in settings.streams.group_streams_assignors:
        raise SettingError(
            f"{name} must be one of {', '.join(settings.streams.group_streams_assignors)}, not {value!r}"
        )
    if not isinstance(value, int):
        return
    if value < 0:
        raise SettingError(f"{name} must be at least 0, not {value}")
    protocol, _, rest = name.partition(".")
    for bound, text_of, breaks in (("min", "at least", int.__lt__), ("max", "at most", int.__gt__)):
        limit = f"group.{protocol}.{bound}.{rest.removeprefix('num.')}"
        most = settings[limit] if limit in BROKER_SETTINGS else None
        if isinstance(most, int) and breaks(value, most):
            raise SettingError(f"{name} must be {text_of} {limit} ({most}), not {value}")
