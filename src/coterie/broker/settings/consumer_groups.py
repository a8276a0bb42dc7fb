"""Settings of consumer groups (KIP-848) and share groups (KIP-932): the broker's that must fit together, and a group's own in
their place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from coterie.assignors.server_side import SERVER_ASSIGNORS, ServerAssignor
from coterie.broker.settings.broker_table import KAFKA_ASSIGNORS, BrokerConfig
from coterie.broker.settings.share_table import ShareConfig
from coterie.broker.settings.streams_table import StreamsConfig, streams_values_of_group
from coterie.configuration import SettingError
from coterie.configuration.value_types import INT
from coterie.coordinator.outcome import CoordinatorConfig

# A group's own settings that its coordinator uses; each takes the place of the broker's, whose name is group. before it.
_OF_COORDINATOR = ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
# Those of share groups that the leaders of partitions use.
_OF_LEADERS = ("delivery.count.limit", "record.lock.duration.ms", "partition.max.record.locks")


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


def _check(protocol: str, broker: BrokerConfig | ShareConfig, names: Iterable[str]) -> None:
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
    values = streams_values_of_group(streams, own)
    for protocol, settings in (("consumer", broker), ("share", share)):
        for name in _OF_COORDINATOR:
            text = own.get(f"{protocol}.{name}")
            if text is not None:
                least, most = _bounds(protocol, settings, name)
                values[f"group_{protocol}_{name.replace('.', '_')}"] = min(max(INT.parse(text), least), most)
    return replace(config, **values)


def _value(protocol: str, broker: BrokerConfig | ShareConfig, name: str) -> int:
    value: int = getattr(broker, f"group_{protocol}_{name.replace('.', '_')}")
    return value


def _bounds(protocol: str, broker: BrokerConfig | ShareConfig, name: str) -> tuple[int, int]:
    return _value(protocol, broker, f"min.{name}"), _value(protocol, broker, f"max.{name}")
