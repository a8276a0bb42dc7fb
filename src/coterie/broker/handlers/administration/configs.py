"""Settings described and listed: DescribeConfigs and ListConfigResources."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import replace

from coterie.broker.handlers.administration.alterations import check_broker_name
from coterie.broker.handlers.services import ConfigServices, Handler
from coterie.broker.process.loggers import logger_levels
from coterie.broker.requests.calls import Call
from coterie.broker.requests.pending import Pending
from coterie.broker.requests.turns import distinct
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
from coterie.broker.settings.altered_settings import ResourceType
from coterie.broker.settings.tables.resource_tables import CLIENT_METRICS_SETTINGS, GROUP_SETTINGS
from coterie.broker.storage.topic import check_name
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.settings.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from coterie.wire.messages.settings.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    ListedConfigResource,
)
from coterie.wire.messages.topics.create_topics import CreatableTopicConfigs

Described = DescribeConfigsResourceResult


def handle_describe_configs(broker: ConfigServices, request: DescribeConfigsRequest, call: Call) -> Message | Pending:
    """Each resource once; INVALID_REQUEST for all where one is of a type without settings."""
    describing = _describe_configs(broker, request)
    if broker.entity_settings is None:
        return broker.turns.run(describing)
    from coterie.broker.handlers.administration.cluster_configs import refreshed  # of a broker in a cluster only

    resources = dict.fromkeys((r.resource_type, r.resource_name) for r in request.resources)
    return refreshed(broker, broker.entity_settings, resources, describing)


def _describe_configs(broker: ConfigServices, request: DescribeConfigsRequest) -> Generator[None, None, Message]:
    response = DescribeConfigsResponse()
    has_settings = all(resource.resource_type in _DESCRIBE for resource in request.resources)
    for resource in distinct(request.resources, lambda r: (r.resource_type, r.resource_name)):
        result = DescribeConfigsResult(ErrorCode.NONE, "", resource.resource_type, resource.resource_name)
        try:
            describe = _DESCRIBE[resource.resource_type] if has_settings else _refuse_type
            described = describe(broker, resource.resource_name)
        except Refusal as refusal:
            result.error_code = refusal.code
            # As Kafka, which has a message for every code but this one.
            result.error_message = "" if refusal.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else str(refusal)
        else:
            keys = set(resource.configuration_keys or ())  # none, or an empty list: all
            result.configs = [_requested(config, request) for config in described if not keys or config.name in keys]
        response.results.append(result)
        yield
    return response


def _requested(config: Described, request: DescribeConfigsRequest) -> Described:
    """Without the parts that are not requested."""
    return replace(
        config,
        synonyms=config.synonyms if request.include_synonyms else [],
        documentation=config.documentation if request.include_documentation or not config.documentation else None,
    )


def _refuse_type(broker: ConfigServices, name: str) -> list[Described]:
    raise Refusal(ErrorCode.INVALID_REQUEST, "the request names a resource of a type that has no settings")


def _describe_topic(broker: ConfigServices, name: str) -> list[Described]:
    check_name(name)
    topic = broker.topics.by_name.get(name)
    if topic is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return describe_topic(broker.settings, topic.configs)


def describe_topic(settings: BrokerSettings, configs: Mapping[str, str]) -> list[Described]:
    """Every setting of a topic that has ``configs`` of its own."""
    return [
        _described(topic.setting, settings.topic_value(name, configs), settings.topic_synonyms(name, configs))
        for name, topic in TOPIC_SETTINGS.items()
    ]


def created_configs(settings: BrokerSettings, configs: dict[str, str]) -> list[CreatableTopicConfigs]:
    """Every setting of a topic that was created with these."""
    return [
        CreatableTopicConfigs(
            c.name,
            configs.get(c.name, c.value),
            c.read_only,
            settings.topic_source(c.name, configs),
            c.is_sensitive,
        )
        for c in describe_topic(settings, configs)
    ]


def _describe_broker(broker: ConfigServices, name: str) -> list[Described]:
    """Every setting of this broker; of the default of all brokers ("") only the altered settings."""
    settings = broker.settings
    if name:
        check_broker_name(broker, name)
        known = [
            _described(setting, settings[n], settings.broker_synonyms(n), setting.update == Update.READ_ONLY)
            for n, setting in BROKER_SETTINGS.items()
        ]
        unknown = {**settings.dynamic_default, **settings.dynamic}.keys() - BROKER_SETTINGS.keys()
        return [*known, *(_unknown(n, settings.broker_synonyms(n)[0].source) for n in sorted(unknown))]
    described = []
    for n, text in settings.dynamic_default.items():
        source = Source.DYNAMIC_DEFAULT_BROKER
        if n not in BROKER_SETTINGS:
            described.append(_unknown(n, source))
            continue
        setting = BROKER_SETTINGS[n]
        described.append(_described(setting, setting.parse(text), [Synonym(n, text, source)]))
    return described


def _unknown(name: str, source: Source) -> Described:
    """An altered setting that is unknown to the broker: it may be a secret, so its value is not returned."""
    synonyms = [DescribeConfigsSynonym(name, None, source)]
    return Described(name, None, True, config_source=source, is_sensitive=True, synonyms=synonyms, documentation=None)


def _describe_loggers(broker: ConfigServices, name: str) -> list[Described]:
    if not name:
        raise Refusal(ErrorCode.INVALID_REQUEST, "loggers are a broker's: name the broker")
    check_broker_name(broker, name)
    source = Source.BROKER_LOGGER
    return [Described(n, level, config_source=source, documentation="") for n, level in logger_levels().items()]


def _describe_client_metrics(broker: ConfigServices, name: str) -> list[Described]:
    if not name:
        raise Refusal(ErrorCode.INVALID_REQUEST, "a subscription to client metrics needs a name")
    kept = broker.kept_configs.of(ResourceType.CLIENT_METRICS, name)
    described = []
    for n, setting in CLIENT_METRICS_SETTINGS.items():
        value = setting.parse(kept[n]) if n in kept else setting.default
        own = [Synonym(n, str(format_value(value)), Source.CLIENT_METRICS)] if n in kept else []
        described.append(_described(setting, value, own))
    return described


def _describe_group(broker: ConfigServices, name: str) -> list[Described]:
    if not name:
        raise Refusal(ErrorCode.INVALID_REQUEST, "a group needs a name")
    kept = broker.kept_configs.of(ResourceType.GROUP, name)
    described = []
    for n, (setting, broker_setting) in GROUP_SETTINGS.items():
        of_broker = broker.settings.broker_synonyms(broker_setting) if broker_setting in BROKER_SETTINGS else []
        default = of_broker or [Synonym(n, str(format_value(setting.default)), Source.DEFAULT)]
        own = [Synonym(n, str(format_value(setting.parse(kept[n]))), Source.GROUP)] if n in kept else []
        synonyms = [*own, *default]
        described.append(_described(setting, setting.parse(synonyms[0].value), synonyms))
    return described


_DESCRIBE: dict[int, Callable[[ConfigServices, str], list[Described]]] = {
    ResourceType.TOPIC: _describe_topic,
    ResourceType.BROKER: _describe_broker,
    ResourceType.BROKER_LOGGER: _describe_loggers,
    ResourceType.CLIENT_METRICS: _describe_client_metrics,
    ResourceType.GROUP: _describe_group,
}


def _described(setting: Setting[object], value: object, synonyms: list[Synonym], read_only: bool = False) -> Described:
    sensitive = setting.is_sensitive
    source = synonyms[0].source if synonyms else Source.DEFAULT
    return Described(
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


def handle_list_config_resources(
    broker: ConfigServices, request: ListConfigResourcesRequest, call: Call
) -> ListConfigResourcesResponse:
    """Version 0 knows subscriptions of client metrics alone (KIP-714, KIP-1142); UNSUPPORTED_VERSION for other
    types."""
    kept = broker.kept_configs
    names = {
        ResourceType.TOPIC: sorted(broker.topics.by_name),
        ResourceType.BROKER: [str(broker.node_id)],
        ResourceType.BROKER_LOGGER: [str(broker.node_id)],
        ResourceType.CLIENT_METRICS: kept.names(ResourceType.CLIENT_METRICS),
        ResourceType.GROUP: kept.names(ResourceType.GROUP),
    }
    wanted = request.resource_types or list(ResourceType)
    if call.api_version == 0:
        wanted = [ResourceType.CLIENT_METRICS]
    if any(kind not in names for kind in wanted):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    resources = [ListedConfigResource(name, kind) for kind, every in names.items() if kind in wanted for name in every]
    return ListConfigResourcesResponse(config_resources=resources)


HANDLERS: dict[int, Handler] = {32: handle_describe_configs, 74: handle_list_config_resources}
