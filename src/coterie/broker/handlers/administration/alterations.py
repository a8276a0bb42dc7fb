"""The outcome of an alteration of settings: checked for each type of resource, by broker and cluster alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from coterie.broker.handlers.services import ConfigServices
from coterie.broker.process.loggers import check_level, logger_levels, set_level
from coterie.broker.settings import BROKER_SETTINGS, TOPIC_SETTINGS, Kind, Setting, SettingError
from coterie.broker.settings.altered_settings import (
    Change,
    Operation,
    ResourceType,
    changed,
    check_dynamic,
    refuse_repeated,
)
from coterie.broker.settings.tables.resource_tables import (
    CLIENT_METRICS_SETTINGS,
    check_group_settings,
    check_patterns,
)
from coterie.broker.storage.topic import check_name
from coterie.configuration import UnfitValue
from coterie.wire.errors import ErrorCode, Refusal

_KNOWN: dict[int, Mapping[str, Setting[object]]] = {
    ResourceType.TOPIC: {name: topic.setting for name, topic in TOPIC_SETTINGS.items()},
    ResourceType.BROKER: BROKER_SETTINGS,
}
Result = tuple[int, str | None, int, str]  # error code, message, resource type, name


@dataclass(frozen=True, slots=True)
class Alteration:
    """A request's changes of one resource. ``replaces``: settings that it does not name go back to their defaults."""

    resource_type: int
    name: str
    changes: list[Change]
    replaces: bool
    validate_only: bool

    def applied_to(self, current: Mapping[str, str]) -> dict[str, str]:
        """The settings of the resource after it. Raises Refusal."""
        known = _KNOWN.get(self.resource_type, {})  # Kafka takes APPEND and SUBTRACT on topics and brokers only
        return changed({} if self.replaces else current, self.changes, known)


def check_broker_name(broker: ConfigServices, name: str) -> None:
    """Raises Refusal unless it is this broker's id."""
    if not name.removeprefix("-").isdecimal():
        raise Refusal(ErrorCode.INVALID_REQUEST, f"a broker's id is a whole number, not {name!r}")
    if int(name) != broker.node_id:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"this is broker {broker.node_id}, not {name}")


def occurrences(alterations: Iterable[Alteration]) -> Counter[tuple[int, str]]:
    """How often a request names each resource, by its type and name."""
    return Counter((alteration.resource_type, alteration.name) for alteration in alterations)


def check_once(alteration: Alteration, times: Counter[tuple[int, str]]) -> None:
    """``times``: the `occurrences` of the request. Raises Refusal."""
    if times[alteration.resource_type, alteration.name] > 1:
        raise Refusal(ErrorCode.INVALID_REQUEST, "a resource may come only once in a request")


def result_of(alteration: Alteration, refusal: Refusal | None = None) -> Result:
    """The alteration's row of the response."""
    code, text = (ErrorCode.NONE, None) if refusal is None else (refusal.code, str(refusal))
    return code, text, alteration.resource_type, alteration.name


def checked_settings(broker: ConfigServices, alteration: Alteration, current: Mapping[str, str]) -> dict[str, str]:
    """The resource's own settings after the alteration of the ``current`` ones. Raises Refusal."""
    check = _CHECKS.get(alteration.resource_type)
    if check is None:
        raise Refusal(ErrorCode.INVALID_REQUEST, "resources of this type have no settings that can be altered")
    return check(broker, alteration, current)


def _check_topic(broker: ConfigServices, alteration: Alteration, current: Mapping[str, str]) -> dict[str, str]:
    if not alteration.name:
        raise Refusal(ErrorCode.INVALID_REQUEST, "topics have no default resource: name a topic")
    check_name(alteration.name)
    # Kafka's controller validates values before it looks for the topic.
    checked = broker.topics.check_configs(alteration.applied_to(current))
    if alteration.name not in broker.topics.by_name:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {alteration.name}")
    return checked


def _check_broker(broker: ConfigServices, alteration: Alteration, current: Mapping[str, str]) -> dict[str, str]:
    if alteration.name:
        check_broker_name(broker, alteration.name)
    configs = alteration.applied_to(current)
    check_dynamic(broker.settings, configs, cluster=not alteration.name)
    return configs


def alter_loggers(broker: ConfigServices, alteration: Alteration) -> None:
    """The levels of this broker's loggers. Raises Refusal."""
    if alteration.replaces:
        raise Refusal(ErrorCode.INVALID_REQUEST, "the levels of loggers are altered one by one, not replaced")
    check_broker_name(broker, alteration.name)
    refuse_repeated(change.name for change in alteration.changes)
    levels = {c.name: c.value if c.operation == Operation.SET else None for c in alteration.changes}
    known = logger_levels()
    for change in alteration.changes:
        if change.operation not in (Operation.SET, Operation.DELETE):
            raise Refusal(ErrorCode.INVALID_REQUEST, f"the level of {change.name} can be set or deleted")
        check_level(change.name, levels[change.name], known)
    if not alteration.validate_only:
        for name, level in levels.items():
            set_level(name, level)


def _check_client_metrics(broker: ConfigServices, alteration: Alteration, current: Mapping[str, str]) -> dict[str, str]:
    configs = alteration.applied_to(current)
    if not alteration.name:
        raise Refusal(ErrorCode.INVALID_REQUEST, "a subscription to client metrics needs a name")
    for name, text in configs.items():
        setting = CLIENT_METRICS_SETTINGS.get(name)
        if setting is None:
            known = ", ".join(CLIENT_METRICS_SETTINGS)
            raise Refusal(ErrorCode.INVALID_REQUEST, f"there is no setting {name} of client metrics; there are {known}")
        try:
            setting.value_type.parse(text)
        except UnfitValue as error:
            raise Refusal(ErrorCode.INVALID_CONFIG, f"{name} {error}") from error
        try:
            value = setting.parse(text)
            if name == "match" and isinstance(value, tuple):
                check_patterns(value)
        except SettingError as error:
            code = ErrorCode.INVALID_CONFIG if setting.kind == Kind.LIST else ErrorCode.INVALID_REQUEST
            raise Refusal(code, str(error)) from error
    return configs


def _check_group(broker: ConfigServices, alteration: Alteration, current: Mapping[str, str]) -> dict[str, str]:
    configs = alteration.applied_to(current)
    if not alteration.name:
        raise Refusal(ErrorCode.INVALID_REQUEST, "groups have no default resource: name a group")
    try:
        check_group_settings(broker.settings, configs)
    except SettingError as error:
        raise Refusal(ErrorCode.INVALID_CONFIG, str(error)) from error
    return configs


_CHECKS: dict[int, Callable[[ConfigServices, Alteration, Mapping[str, str]], dict[str, str]]] = {
    ResourceType.TOPIC: _check_topic,
    ResourceType.BROKER: _check_broker,
    ResourceType.CLIENT_METRICS: _check_client_metrics,
    ResourceType.GROUP: _check_group,
}
