"""Settings of consumer groups (KIP-848): the broker's that must fit together, and a group's own in their place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from coterie.assignors.server_side import SERVER_ASSIGNORS, ServerAssignor
from coterie.broker.settings.broker_table import KAFKA_ASSIGNORS, BrokerConfig
from coterie.configuration import SettingError
from coterie.configuration.value_types import INT
from coterie.coordinator.outcome import CoordinatorConfig

# A group's own settings; each takes the place of the broker's, whose name is group. before it.
_OF_GROUP = ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms", "consumer.assignment.interval.ms")


def server_assignors(names: Iterable[str]) -> dict[str, ServerAssignor]:
    """The assignors of group.consumer.assignors by their own names, in its order."""
    own = [KAFKA_ASSIGNORS.get(name, name) for name in names]
    return {name: SERVER_ASSIGNORS[name] for name in own}


def check_consumer_group_settings(broker: BrokerConfig) -> None:
    """Kafka's checks of GroupCoordinatorConfig. Raises SettingError."""
    for name in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"):
        least, most = _bounds(broker, name)
        value = _value(broker, name)
        if not least <= value <= most:
            text = f"between group.consumer.min.{name} ({least}) and group.consumer.max.{name} ({most})"
            raise SettingError(f"group.consumer.{name} must be {text}, not {value}")
    if broker.group_consumer_heartbeat_interval_ms >= broker.group_consumer_session_timeout_ms:
        raise SettingError(
            "group.consumer.heartbeat.interval.ms must be less than group.consumer.session.timeout.ms "
            f"({broker.group_consumer_session_timeout_ms}), not {broker.group_consumer_heartbeat_interval_ms}"
        )
    if not broker.group_consumer_assignors:
        raise SettingError("group.consumer.assignors must name at least one assignor")


def config_of_group(config: CoordinatorConfig, broker: BrokerConfig, own: Mapping[str, str]) -> CoordinatorConfig:
    """The coordinator's settings for a group with settings of its own, which the broker's bounds may cut
    (Kafka's GroupConfig.evaluate): they were checked against bounds that may have changed since."""
    values = {}
    for name in _OF_GROUP:
        if name in own:
            least, most = _bounds(broker, name.removeprefix("consumer."))
            values["group_" + name.replace(".", "_")] = min(max(INT.parse(own[name]), least), most)
    return replace(config, **values)  # type: ignore[arg-type]


def _value(broker: BrokerConfig, name: str) -> int:
    value: int = getattr(broker, "group_consumer_" + name.replace(".", "_"))
    return value


def _bounds(broker: BrokerConfig, name: str) -> tuple[int, int]:
    return _value(broker, f"min.{name}"), _value(broker, f"max.{name}")
