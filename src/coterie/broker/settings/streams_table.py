"""The broker settings of streams groups (KIP-1071, KIP-1357), with Kafka's names, and a group's own in their place. Facts:
Kafka 4.4's GroupCoordinatorConfig and GroupConfig."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from coterie.broker.settings.setting import BrokerSetting, Update
from coterie.configuration import INT, LIST, Rule, SettingError, ValueType, at_least, declared, one_of, settings_of

T = TypeVar("T")


def _streams(
    value_type: ValueType[T], default: T, documentation: str, rule: Rule | None, update: Update = Update.READ_ONLY
) -> T:
    return declared(BrokerSetting("", value_type, default, rule, documentation, update=update))


@dataclass(frozen=True, slots=True)
class StreamsConfig:
    """The values of the settings of streams groups; names, units and defaults are Kafka's. The bounds are those of what a group
    may set for itself."""

    group_streams_session_timeout_ms: int = _streams(
        INT, 45_000, "The session timeout of members of streams groups.", at_least(1)
    )
    group_streams_min_session_timeout_ms: int = _streams(INT, 45_000, "The shortest session timeout.", at_least(1))
    group_streams_max_session_timeout_ms: int = _streams(INT, 60_000, "The longest session timeout.", at_least(1))
    group_streams_heartbeat_interval_ms: int = _streams(
        INT, 5_000, "How often members of streams groups send heartbeats.", at_least(1)
    )
    group_streams_min_heartbeat_interval_ms: int = _streams(INT, 5_000, "The shortest heartbeat interval.", at_least(1))
    group_streams_max_heartbeat_interval_ms: int = _streams(INT, 15_000, "The longest heartbeat interval.", at_least(1))
    group_streams_assignment_interval_ms: int = _streams(
        INT,
        1_000,
        "The least time between two target assignments of a streams group.",
        at_least(0),
        Update.CLUSTER_WIDE,
    )
    group_streams_min_assignment_interval_ms: int = _streams(INT, 0, "The shortest assignment interval.", at_least(0))
    group_streams_max_assignment_interval_ms: int = _streams(
        INT, 15_000, "The longest assignment interval.", at_least(0)
    )
    group_streams_initial_rebalance_delay_ms: int = _streams(
        INT, 3_000, "How long the first target assignment of an empty group waits for further members.", at_least(0)
    )
    group_streams_max_size: int = _streams(INT, 2**31 - 1, "The most members of a streams group.", at_least(1))
    group_streams_num_standby_replicas: int = _streams(
        INT, 0, "The standby copies of each task that has state.", at_least(0)
    )
    group_streams_max_standby_replicas: int = _streams(
        INT, 2, "The most standby copies that a group may set.", at_least(0)
    )
    group_streams_rack_aware_assignment_tags: tuple[str, ...] = _streams(
        LIST, (), "The client tags over whose values the standby copies of a task are spread.", None
    )
    group_streams_assignors: tuple[str, ...] = _streams(
        LIST,
        ("sticky",),
        "The task assignors, by name; the first is that of groups that name none.",
        one_of("sticky"),
    )


STREAMS_SETTINGS: dict[str, BrokerSetting[object]] = settings_of(StreamsConfig, BrokerSetting)
_INTERVALS = ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")


def check_streams_settings(config: StreamsConfig) -> None:
    """Kafka's checks of GroupCoordinatorConfig. Raises SettingError."""
    for name in _INTERVALS:
        least, most = _bounds(config, name)
        value = _value(config, name)
        if not least <= value <= most:
            text = f"between group.streams.min.{name} ({least}) and group.streams.max.{name} ({most})"
            raise SettingError(f"group.streams.{name} must be {text}, not {value}")
    if config.group_streams_heartbeat_interval_ms >= config.group_streams_session_timeout_ms:
        raise SettingError(
            "group.streams.heartbeat.interval.ms must be less than group.streams.session.timeout.ms "
            f"({config.group_streams_session_timeout_ms}), not {config.group_streams_heartbeat_interval_ms}"
        )
    most = config.group_streams_max_standby_replicas
    if config.group_streams_num_standby_replicas > most:
        raise SettingError(
            f"group.streams.num.standby.replicas must be at most group.streams.max.standby.replicas ({most}), "
            f"not {config.group_streams_num_standby_replicas}"
        )
    if not config.group_streams_assignors:
        raise SettingError("group.streams.assignors must name at least one assignor")


def streams_values_of_group(config: StreamsConfig, own: Mapping[str, str]) -> dict[str, Any]:
    """The coordinator's settings that a group has of its own, cut by the broker's bounds (Kafka's GroupConfig.evaluate)."""
    values: dict[str, Any] = {}
    for name in _INTERVALS:
        if f"streams.{name}" in own:
            least, most = _bounds(config, name)
            values["group_streams_" + name.replace(".", "_")] = min(max(INT.parse(own[f"streams.{name}"]), least), most)
    if "streams.initial.rebalance.delay.ms" in own:
        values["group_streams_initial_rebalance_delay_ms"] = INT.parse(own["streams.initial.rebalance.delay.ms"])
    if "streams.num.standby.replicas" in own:
        wanted = INT.parse(own["streams.num.standby.replicas"])
        values["group_streams_num_standby_replicas"] = min(wanted, config.group_streams_max_standby_replicas)
    if "streams.rack.aware.assignment.tags" in own:
        values["group_streams_rack_aware_assignment_tags"] = LIST.parse(own["streams.rack.aware.assignment.tags"])
    if "streams.assignor.name" in own:
        values["streams_assignor_name"] = own["streams.assignor.name"]
    return values


def _value(config: StreamsConfig, name: str) -> int:
    value: int = getattr(config, "group_streams_" + name.replace(".", "_"))
    return value


def _bounds(config: StreamsConfig, name: str) -> tuple[int, int]:
    return _value(config, f"min.{name}"), _value(config, f"max.{name}")
