"""Settings of consumer groups (KIP-848), share groups (KIP-932) and streams groups (KIP-1071): the broker's that must fit
together, and a group's own in their place; of a share group also those of its share partitions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, ClassVar

from coterie.assignors.server_side import SERVER_ASSIGNORS, ServerAssignor
from coterie.broker.settings.tables.broker_table import KAFKA_ASSIGNORS, BrokerConfig
from coterie.broker.settings.tables.group_table import ShareConfig, StreamsConfig
from coterie.configuration import SettingError
from coterie.configuration.value_types import BOOLEAN, INT, LIST
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.share.partition import ShareLimits

GroupsConfig = BrokerConfig | ShareConfig | StreamsConfig

# A group's own settings that its coordinator uses; each takes the place of the broker's, whose name is group. before it.
_OF_COORDINATOR = ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
# Those of share groups that the leaders of partitions use.
_OF_LEADERS = ("delivery.count.limit", "record.lock.duration.ms", "partition.max.record.locks")
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE)
_UNITS_MS = (86_400_000, 3_600_000, 60_000, 1_000)


def server_assignors(names: Iterable[str]) -> dict[str, ServerAssignor]:
    """The assignors of group.consumer.assignors by their own names, in its order."""
    own = [KAFKA_ASSIGNORS.get(name, name) for name in names]
    return {name: SERVER_ASSIGNORS[name] for name in own}


def check_consumer_group_settings(broker: BrokerConfig) -> None:
    """Kafka's checks of GroupCoordinatorConfig. Raises SettingError."""
    _check("consumer", broker, _OF_COORDINATOR)
    if not broker.group_consumer_assignors:
        raise SettingError("group.consumer.assignors must name at least one assignor")


def check_share_group_settings(share: ShareConfig) -> None:
    """Kafka's checks of GroupCoordinatorConfig and ShareGroupConfig. Raises SettingError."""
    _check("share", share, (*_OF_COORDINATOR, *_OF_LEADERS))
    if len(share.group_share_assignors) != 1:
        raise SettingError("group.share.assignors must name exactly one assignor")


def check_streams_group_settings(streams: StreamsConfig) -> None:
    """Kafka's checks of GroupCoordinatorConfig. Raises SettingError."""
    _check("streams", streams, _OF_COORDINATOR)
    replicas, most = streams.group_streams_num_standby_replicas, streams.group_streams_max_standby_replicas
    if replicas > most:
        text = f"must be at most group.streams.max.standby.replicas ({most}), not {replicas}"
        raise SettingError(f"group.streams.num.standby.replicas {text}")
    if not streams.group_streams_assignors:
        raise SettingError("group.streams.assignors must name at least one assignor")


def _check(protocol: str, broker: GroupsConfig, names: Iterable[str]) -> None:
    for name in names:
        least, most = _bounds(protocol, broker, name)
        value = _value(protocol, broker, name)
        if not least <= value <= most:
            text = f"between group.{protocol}.min.{name} ({least}) and group.{protocol}.max.{name} ({most})"
            raise SettingError(f"group.{protocol}.{name} must be {text}, not {value}")
    interval, timeout = (_value(protocol, broker, name) for name in ("heartbeat.interval.ms", "session.timeout.ms"))
    if interval >= timeout:
        text = f"must be less than group.{protocol}.session.timeout.ms ({timeout}), not {interval}"
        raise SettingError(f"group.{protocol}.heartbeat.interval.ms {text}")


def config_of_group(
    config: CoordinatorConfig,
    broker: BrokerConfig,
    share: ShareConfig,
    streams: StreamsConfig,
    own: Mapping[str, str],
) -> CoordinatorConfig:
    """The coordinator's settings for a group with settings of its own, which the broker's bounds may cut
    (Kafka's GroupConfig.evaluate): they were checked against bounds that may have changed since."""
    values = _streams_values(streams, own)
    groups: tuple[tuple[str, GroupsConfig], ...] = (("consumer", broker), ("share", share), ("streams", streams))
    for protocol, settings in groups:
        for name in _OF_COORDINATOR:
            text = own.get(f"{protocol}.{name}")
            if text is not None:
                values[f"group_{protocol}_{name.replace('.', '_')}"] = _bounded(protocol, settings, name, text)
    return replace(config, **values)


def _streams_values(streams: StreamsConfig, own: Mapping[str, str]) -> dict[str, Any]:
    """What streams groups alone have of their own."""
    values: dict[str, Any] = {}
    if "streams.initial.rebalance.delay.ms" in own:
        values["group_streams_initial_rebalance_delay_ms"] = INT.parse(own["streams.initial.rebalance.delay.ms"])
    if "streams.num.standby.replicas" in own:
        wanted = INT.parse(own["streams.num.standby.replicas"])
        values["group_streams_num_standby_replicas"] = min(wanted, streams.group_streams_max_standby_replicas)
    if "streams.rack.aware.assignment.tags" in own:
        values["group_streams_rack_aware_assignment_tags"] = LIST.parse(own["streams.rack.aware.assignment.tags"])
    if "streams.assignor.name" in own:
        values["streams_assignor_name"] = own["streams.assignor.name"]
    return values


class ResetKind(Enum):
    """The words of share.auto.offset.reset."""

    EARLIEST = "earliest"
    LATEST = "latest"
    BY_DURATION = "by_duration"


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """share.auto.offset.reset; ``duration_ms`` before now is where by_duration begins."""

    Kind: ClassVar[type[ResetKind]] = ResetKind
    kind: ResetKind
    duration_ms: int = 0


@dataclass(frozen=True, slots=True)
class ShareGroupSettings:
    """The settings of one group. ``dead_letter_topic``: "" where it has none (KIP-1191)."""

    limits: ShareLimits
    offset_reset: OffsetReset
    reads_committed: bool
    dead_letter_topic: str
    copies_dead_letters: bool


def is_offset_reset(text: str) -> bool:
    """Whether the text is a value of share.auto.offset.reset."""
    kind, _, duration = text.partition(":")
    if kind == ResetKind.BY_DURATION.value:
        return _DURATION.fullmatch(duration) is not None and duration[-1] not in "PpTt"
    return text in ("earliest", "latest")


def offset_reset(text: str) -> OffsetReset:
    """Of earliest, latest or by_duration:P…, which was checked when it was set."""
    kind, _, duration = text.partition(":")
    match = _DURATION.fullmatch(duration) if duration else None
    parts = match.groups() if match else ()
    ms = sum(float(part or 0) * unit for part, unit in zip(parts, _UNITS_MS, strict=False))
    return OffsetReset(ResetKind(kind), int(ms))


def share_group_settings(broker: ShareConfig, own: Mapping[str, str], *, dead_letters: bool) -> ShareGroupSettings:
    """Of a group with settings of its ``own``, which the broker's bounds may cut (Kafka's GroupConfig.evaluate).
    ``dead_letters``: whether share.version admits them."""
    delivery_count_limit, record_lock_duration_ms, max_record_locks = (
        _value("share", broker, name)
        if (text := own.get(f"share.{name}")) is None
        else _bounded("share", broker, name, text)
        for name in _OF_LEADERS
    )
    limits = ShareLimits(
        delivery_count_limit=delivery_count_limit,
        max_record_locks=max_record_locks,
        record_lock_duration_ms=record_lock_duration_ms,
        renewals=BOOLEAN.parse(own.get("share.renew.acknowledge.enable", "true")),
        dead_letters=dead_letters and bool(own.get("errors.deadletterqueue.topic.name")),
    )
    return ShareGroupSettings(
        limits,
        offset_reset(own.get("share.auto.offset.reset", "latest")),
        own.get("share.isolation.level", "read_uncommitted") == "read_committed",
        own.get("errors.deadletterqueue.topic.name", ""),
        BOOLEAN.parse(own.get("errors.deadletterqueue.copy.record.enable", "false")),
    )


def _value(protocol: str, broker: GroupsConfig, name: str) -> int:
    value: int = getattr(broker, f"group_{protocol}_{name.replace('.', '_')}")
    return value


def _bounds(protocol: str, broker: GroupsConfig, name: str) -> tuple[int, int]:
    return _value(protocol, broker, f"min.{name}"), _value(protocol, broker, f"max.{name}")


def _bounded(protocol: str, broker: GroupsConfig, name: str, text: str) -> int:
    least, most = _bounds(protocol, broker, name)
    return min(max(INT.parse(text), least), most)
