"""Settings are altered: IncrementalAlterConfigs changes single ones, AlterConfigs replaces all of a resource."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from coterie.broker.calls import Call
from coterie.broker.handlers.alterations import (
    Alteration,
    Result,
    alter_loggers,
    check_once,
    checked_settings,
    result_of,
)
from coterie.broker.kept_configs import ResourceType
from coterie.broker.pending import Pending
from coterie.broker.services import ConfigServices, Handler
from coterie.broker.settings.changes import Change, Operation
from coterie.wire.declaration import Message
from coterie.wire.errors import Refusal
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


def handle_incremental_alter_configs(
    broker: ConfigServices, request: IncrementalAlterConfigsRequest, call: Call
) -> Message | Pending:
    """KIP-339. Each resource for itself: one that is refused leaves the others in force."""
    alterations = [
        _alteration(request, r, [Change(c.name, c.config_operation, c.value) for c in r.configs], replaces=False)
        for r in request.resources
    ]

    def response(results: list[Result]) -> Message:
        return IncrementalAlterConfigsResponse(responses=[AlterConfigsResourceResponse(*result) for result in results])

    return _altered(broker, alterations, response)


def handle_alter_configs(broker: ConfigServices, request: AlterConfigsRequest, call: Call) -> Message | Pending:
    """Settings that a resource's entry does not name go back to their defaults; each resource for itself."""
    alterations = [
        _alteration(request, r, [Change(c.name, Operation.SET, c.value) for c in r.configs], replaces=True)
        for r in request.resources
    ]

    def response(results: list[Result]) -> Message:
        return AlterConfigsResponse(responses=[ReplacedResourceResponse(*result) for result in results])

    return _altered(broker, alterations, response)


def _alteration(
    request: IncrementalAlterConfigsRequest | AlterConfigsRequest,
    resource: AlterConfigsResource | ReplacedResource,
    changes: list[Change],
    *,
    replaces: bool,
) -> Alteration:
    return Alteration(resource.resource_type, resource.resource_name, changes, replaces, request.validate_only)


def _altered(
    broker: ConfigServices, alterations: list[Alteration], response: Callable[[list[Result]], Message]
) -> Message | Pending:
    if broker.entity_settings is not None:
        from coterie.broker.handlers.cluster_configs import altered  # of a broker in a cluster only

        return altered(broker, broker.entity_settings, alterations, response)
    every = [(a.resource_type, a.name) for a in alterations]
    results: list[Result] = []
    for alteration in alterations:
        try:
            check_once(alteration, every)
            _alter(broker, alteration)
        except Refusal as refusal:
            results.append(result_of(alteration, refusal))
        else:
            results.append(result_of(alteration))
    return response(results)


def _alter(broker: ConfigServices, alteration: Alteration) -> None:
    if alteration.resource_type == ResourceType.BROKER_LOGGER:
        alter_loggers(broker, alteration)
        return
    checked = checked_settings(broker, alteration, _current(broker, alteration))
    if alteration.validate_only:
        return
    if alteration.resource_type == ResourceType.TOPIC:
        broker.topics.configure(broker.topics.by_name[alteration.name], checked)
        return
    kind = ResourceType(alteration.resource_type)
    broker.kept_configs.replace(kind, alteration.name, checked)
    if kind is not ResourceType.CLIENT_METRICS:
        broker.apply_kept_settings()


def _current(broker: ConfigServices, alteration: Alteration) -> Mapping[str, str]:
    if alteration.resource_type == ResourceType.TOPIC:
        topic = broker.topics.by_name.get(alteration.name)
        return {} if topic is None else topic.configs
    if alteration.resource_type not in ResourceType.__members__.values():
        return {}
    return broker.kept_configs.of(ResourceType(alteration.resource_type), alteration.name)


HANDLERS: dict[int, Handler] = {33: handle_alter_configs, 44: handle_incremental_alter_configs}
