"""Settings are altered: IncrementalAlterConfigs changes single ones, AlterConfigs replaces all of a resource."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from coterie.broker.calls import Call
from coterie.broker.handlers.configs import check_broker_name
from coterie.broker.kept_configs import ResourceType
from coterie.broker.loggers import check_level, set_level
from coterie.broker.services import ConfigServices
from coterie.broker.settings import BROKER_SETTINGS, TOPIC_SETTINGS, Kind, Setting, SettingError
from coterie.broker.settings.changes import Change, Operation, changed, check_dynamic, refuse_repeated
from coterie.broker.settings.resource_tables import CLIENT_METRICS_SETTINGS, check_group_settings
from coterie.broker.topic import check_name
from coterie.configuration import UnfitValue
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    ReplacedResource,
    ReplacedResourceResponse,
)
from coterie.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

_KNOWN: dict[int, Mapping[str, Setting[object]]] = {
    ResourceType.TOPIC: {name: topic.setting for name, topic in TOPIC_SETTINGS.items()},
    ResourceType.BROKER: BROKER_SETTINGS,
}


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


def handle_incremental_alter_configs(
    broker: ConfigServices, request: IncrementalAlterConfigsRequest, call: Call
) -> IncrementalAlterConfigsResponse:
    """KIP-339. Each resource for itself: one that is refused leaves the others in force."""
    alterations = [
        _alteration(request, r, [Change(c.name, c.config_operation, c.value) for c in r.configs], replaces=False)
        for r in request.resources
    ]
    results = _alter_each(broker, alterations)
    return IncrementalAlterConfigsResponse(responses=[AlterConfigsResourceResponse(*result) for result in results])


def handle_alter_configs(broker: ConfigServices, request: AlterConfigsRequest, call: Call) -> AlterConfigsResponse:
    """Settings that a resource's entry does not name go back to their defaults; each resource for itself."""
    alterations = [
        _alteration(request, r, [Change(c.name, Operation.SET, c.value) for c in r.configs], replaces=True)
        for r in request.resources
    ]
    results = _alter_each(broker, alterations)
    return AlterConfigsResponse(responses=[ReplacedResourceResponse(*result) for result in results])


def _alteration(
    request: IncrementalAlterConfigsRequest | AlterConfigsRequest,
    resource: AlterConfigsResource | ReplacedResource,
    changes: list[Change],
    *,
    replaces: bool,
) -> Alteration:
    return Alteration(resource.resource_type, resource.resource_name, changes, replaces, request.validate_only)


def _alter_each(broker: ConfigServices, alterations: list[Alteration]) -> list[tuple[int, str | None, int, str]]:
    """(error code, message, resource type, name) of each."""
    every = [(a.resource_type, a.name) for a in alterations]
    results: list[tuple[int, str | None, int, str]] = []
    for alteration, resource in zip(alterations, every, strict=True):
        try:
            if every.count(resource) > 1:
                raise Refusal(ErrorCode.INVALID_REQUEST, "a resource may come only once in a request")
            _ALTER.get(alteration.resource_type, _refuse_type)(broker, alteration)
        except Refusal as refusal:
            results.append((refusal.code, str(refusal), *resource))
        else:
            results.append((ErrorCode.NONE, None, *resource))
    return results


def _refuse_type(broker: ConfigServices, alteration: Alteration) -> None:
    raise Refusal(ErrorCode.INVALID_REQUEST, "resources of this type have no settings that can be altered")


def _alter_topic(broker: ConfigServices, alteration: Alteration) -> None:
    if not alteration.name:
        raise Refusal(ErrorCode.INVALID_REQUEST, "topics have no default resource: name a topic")
    check_name(alteration.name)
    topic = broker.topics.by_name.get(alteration.name)
    configs = alteration.applied_to(topic.configs if topic is not None else {})
    checked = broker.topics.check_configs(configs)  # Kafka's controller validates values before it looks for the topic
    if topic is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {alteration.name}")
    if not alteration.validate_only:
        broker.topics.configure(topic, checked)


def _alter_broker(broker: ConfigServices, alteration: Alteration) -> None:
    name = alteration.name
    if name:
        check_broker_name(broker, name)
    configs = alteration.applied_to(broker.kept_configs.of(ResourceType.BROKER, name))
    check_dynamic(broker.settings, configs, cluster=not name)
    if not alteration.validate_only:
        broker.kept_configs.replace(ResourceType.BROKER, name, configs)
        broker.apply_kept_settings()


def _alter_loggers(broker: ConfigServices, alteration: Alteration) -> None:
    if alteration.replaces:
        raise Refusal(ErrorCode.INVALID_REQUEST, "the levels of loggers are altered one by one, not replaced")
    check_broker_name(broker, alteration.name)
    refuse_repeated(change.name for change in alteration.changes)
    levels = {c.name: c.value if c.operation == Operation.SET else None for c in alteration.changes}
    for change in alteration.changes:
        if change.operation not in (Operation.SET, Operation.DELETE):
            raise Refusal(ErrorCode.INVALID_REQUEST, f"the level of {change.name} can be set or deleted")
        check_level(change.name, levels[change.name])
    if not alteration.validate_only:
        for name, level in levels.items():
            set_level(name, level)


def _alter_client_metrics(broker: ConfigServices, alteration: Alteration) -> None:
    configs = alteration.applied_to(broker.kept_configs.of(ResourceType.CLIENT_METRICS, alteration.name))
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
            setting.parse(text)
        except SettingError as error:
            code = ErrorCode.INVALID_CONFIG if setting.kind == Kind.LIST else ErrorCode.INVALID_REQUEST
            raise Refusal(code, str(error)) from error
    if not alteration.validate_only:
        broker.kept_configs.replace(ResourceType.CLIENT_METRICS, alteration.name, configs)


def _alter_group(broker: ConfigServices, alteration: Alteration) -> None:
    configs = alteration.applied_to(broker.kept_configs.of(ResourceType.GROUP, alteration.name))
    if not alteration.name:
        raise Refusal(ErrorCode.INVALID_REQUEST, "groups have no default resource: name a group")
    try:
        check_group_settings(broker.settings, configs)
    except SettingError as error:
        raise Refusal(ErrorCode.INVALID_CONFIG, str(error)) from error
    if not alteration.validate_only:
        broker.kept_configs.replace(ResourceType.GROUP, alteration.name, configs)
        broker.apply_kept_settings()


_ALTER: dict[int, Callable[[ConfigServices, Alteration], None]] = {
    ResourceType.TOPIC: _alter_topic,
    ResourceType.BROKER: _alter_broker,
    ResourceType.BROKER_LOGGER: _alter_loggers,
    ResourceType.CLIENT_METRICS: _alter_client_metrics,
    ResourceType.GROUP: _alter_group,
}
