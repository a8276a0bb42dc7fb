"""Settings are described and altered: DescribeConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from coterie.broker.server import Call
from coterie.broker.settings import (
    BROKER_SETTINGS,
    TOPIC_SETTINGS,
    BrokerSettings,
    Setting,
    Source,
    Synonym,
    Update,
    format_value,
)
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from coterie.wire.messages.incremental_alter_configs import (
    DELETE,
    SET,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from coterie.broker.broker import Broker

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4


def handle_describe_configs(broker: Broker, request: DescribeConfigsRequest, call: Call) -> DescribeConfigsResponse:
    response = DescribeConfigsResponse()
    for resource in request.resources:
        result = DescribeConfigsResult(ErrorCode.NONE, "", resource.resource_type, resource.resource_name)
        try:
            described = _describe(broker, resource)
        except Refusal as refusal:
            result.error_code, result.error_message = refusal.code, str(refusal)
        else:
            result.configs = [_as_asked(config, request) for config in described]
        response.results.append(result)
    return response


def _describe(broker: Broker, resource: DescribeConfigsResource) -> Iterable[DescribeConfigsResourceResult]:
    """What there is to say of the settings that the request names, or of all where it names none."""
    keys = resource.configuration_keys
    name = resource.resource_name
    if resource.resource_type == TOPIC_RESOURCE:
        topic = broker.topics.by_name.get(name)
        if topic is None:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such topic")
        every = describe_topic(broker.settings, topic.configs)
    elif resource.resource_type == BROKER_RESOURCE:
        if name not in ("", str(broker.node_id)):
            raise Refusal(ErrorCode.INVALID_REQUEST, f"this is broker {broker.node_id}, not {name}")
        every = describe_broker(broker.settings)
    else:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"resources of type {resource.resource_type} have no settings here")
    return [config for config in every if not keys or config.name in keys]


def _as_asked(config: DescribeConfigsResourceResult, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    return replace(
        config,
        synonyms=config.synonyms if request.include_synonyms else [],
        documentation=config.documentation if request.include_documentation else None,
    )


def describe_topic(settings: BrokerSettings, configs: Mapping[str, str]) -> list[DescribeConfigsResourceResult]:
    """Every setting of a topic that has ``configs`` of its own."""
    return [
        _described(topic.setting, settings.topic_value(name, configs), settings.topic_synonyms(name, configs))
        for name, topic in TOPIC_SETTINGS.items()
    ]


def describe_broker(settings: BrokerSettings) -> list[DescribeConfigsResourceResult]:
    """Every setting of the broker."""
    return [
        _described(
            setting,
            settings[name],
            settings.broker_synonyms(name),
            read_only=setting.update == Update.READ_ONLY,
        )
        for name, setting in BROKER_SETTINGS.items()
    ]


def _described(
    setting: Setting,
    value: bool | int | float | str | tuple[str, ...] | None,
    synonyms: list[Synonym],
    *,
    read_only: bool = False,
) -> DescribeConfigsResourceResult:
    sensitive = setting.is_sensitive
    source = synonyms[0].source if synonyms else Source.DEFAULT
    return DescribeConfigsResourceResult(
        setting.name,
        None if sensitive else format_value(value),
        read_only=read_only,
        is_default=source == Source.DEFAULT,
        config_source=source,
        is_sensitive=sensitive,
        synonyms=[DescribeConfigsSynonym(s.name, None if sensitive else s.value, s.source) for s in synonyms],
        config_type=setting.kind,
        documentation=setting.full_documentation,
    )


def handle_incremental_alter_configs(
    broker: Broker, request: IncrementalAlterConfigsRequest, call: Call
) -> IncrementalAlterConfigsResponse:
    """Settings of topics; a broker's are given at its start."""
    response = IncrementalAlterConfigsResponse()
    for resource in request.resources:
        result = AlterConfigsResourceResponse(0, None, resource.resource_type, resource.resource_name)
        try:
            _alter(broker, resource, request.validate_only)
        except Refusal as refusal:
            result.error_code, result.error_message = refusal.code, str(refusal)
        response.responses.append(result)
    return response


def _alter(broker: Broker, resource: AlterConfigsResource, validate_only: bool) -> None:
    if resource.resource_type != TOPIC_RESOURCE:
        raise Refusal(ErrorCode.INVALID_REQUEST, "only settings of topics can be altered while the broker runs")
    topic = broker.topics.by_name.get(resource.resource_name)
    if topic is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    changes: dict[str, str | None] = {}
    for config in resource.configs:
        if config.config_operation not in (SET, DELETE):
            raise Refusal(ErrorCode.INVALID_CONFIG, f"{config.name} is no list: it can be set or deleted")
        changes[config.name] = config.value if config.config_operation == SET else None
    broker.topics.configure(topic, changes, validate_only=validate_only)
