"""Settings are altered: IncrementalAlterConfigs changes single ones, AlterConfigs replaces all of a resource."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass

from coterie.broker.handlers.administration.alterations import (
    Alteration,
    Result,
    alter_loggers,
    check_once,
    checked_settings,
    occurrences,
    result_of,
)
from coterie.broker.handlers.services import ConfigServices, Handler
from coterie.broker.requests.calls import Call
from coterie.broker.requests.pending import Pending
from coterie.broker.settings.altered_settings import Change, Operation, Resource, ResourceType
from coterie.broker.storage.topic import Topic
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.settings.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    ReplacedResource,
    ReplacedResourceResponse,
)
from coterie.wire.messages.settings.incremental_alter_configs import (
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
        from coterie.broker.handlers.administration.cluster_configs import altered  # of a broker in a cluster only

        return altered(broker, broker.entity_settings, alterations, response)
    return broker.turns.run(_alter(broker, alterations, response))


@dataclass(slots=True)
class _Checked:
    """An alteration that is in order: ``after`` it the resource has these settings, provided that it has those ``before``."""

    alteration: Alteration
    before: Mapping[str, str]
    after: dict[str, str]


def _alter(
    broker: ConfigServices, alterations: list[Alteration], response: Callable[[list[Result]], Message]
) -> Generator[None, None, Message]:
    """All are checked, and then kept with one write of each file."""
    times = occurrences(alterations)
    refusals: dict[int, Refusal] = {}  # by the position in the request
    checked: dict[int, _Checked] = {}
    for position, alteration in enumerate(alterations):
        try:
            check_once(alteration, times)
            if alteration.resource_type == ResourceType.BROKER_LOGGER:
                alter_loggers(broker, alteration)
            else:
                before = _current(broker, alteration)
                checked[position] = _Checked(alteration, before, checked_settings(broker, alteration, before))
        except Refusal as refusal:
            refusals[position] = refusal
        yield
    wanted = {position: of for position, of in checked.items() if not of.alteration.validate_only}
    refusals |= _recheck(broker, wanted)
    refusals |= yield from _keep(broker, {p: of for p, of in wanted.items() if p not in refusals})
    return response([result_of(alteration, refusals.get(p)) for p, alteration in enumerate(alterations)])


def _recheck(broker: ConfigServices, checked: dict[int, _Checked]) -> dict[int, Refusal]:
    """Another request may have altered a resource, or deleted a topic, since its alteration was checked."""
    refusals = {}
    for position, of in checked.items():
        now = _current(broker, of.alteration)
        is_gone = of.alteration.resource_type == ResourceType.TOPIC and of.alteration.name not in broker.topics.by_name
        if now != of.before or is_gone:
            try:
                of.after = checked_settings(broker, of.alteration, now)
            except Refusal as refusal:
                refusals[position] = refusal
    return refusals


def _keep(broker: ConfigServices, checked: dict[int, _Checked]) -> Generator[None, None, dict[int, Refusal]]:
    """Writes the settings to disk and puts them in force; returns a refusal for each that cannot be written."""
    topics: dict[int, tuple[Topic, dict[str, str]]] = {}
    others: dict[int, tuple[Resource, dict[str, str]]] = {}
    for position, of in checked.items():
        kind, name = ResourceType(of.alteration.resource_type), of.alteration.name
        if kind is ResourceType.TOPIC:
            topics[position] = broker.topics.by_name[name], of.after
        else:
            others[position] = (kind, name), of.after
    refusals: dict[int, Refusal] = {}
    if others:
        altered = dict(others.values())
        try:
            broker.kept_configs.replace(altered)
        except OSError as error:
            text = f"the settings cannot be written: {error.strerror}"
            refusals |= dict.fromkeys(others, Refusal(ErrorCode.KAFKA_STORAGE_ERROR, text))
        else:
            yield from broker.apply_kept_settings(altered)
    if topics:
        try:
            yield from broker.topics.configuring(topics.values())
        except Refusal as refusal:
            refusals |= dict.fromkeys(topics, refusal)
    return refusals


def _current(broker: ConfigServices, alteration: Alteration) -> Mapping[str, str]:
    if alteration.resource_type == ResourceType.TOPIC:
        topic = broker.topics.by_name.get(alteration.name)
        return {} if topic is None else topic.configs
    if alteration.resource_type not in ResourceType.__members__.values():
        return {}
    return broker.kept_configs.of(ResourceType(alteration.resource_type), alteration.name)


HANDLERS: dict[int, Handler] = {33: handle_alter_configs, 44: handle_incremental_alter_configs}
