"""AlterConfigs, IncrementalAlterConfigs and DescribeConfigs in a cluster: any broker reads and writes the settings in
ZooKeeper; those of a broker, that broker."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING

from coterie.broker.handlers.administration import cluster_responses
from coterie.broker.handlers.administration.alterations import (
    Alteration,
    Result,
    alter_loggers,
    check_once,
    checked_settings,
    occurrences,
    result_of,
)
from coterie.broker.handlers.administration.cluster_responses import refusal_of, responded_by
from coterie.broker.handlers.services import ConfigServices
from coterie.broker.requests.pending import Pending
from coterie.broker.requests.turns import each_at_once
from coterie.broker.settings.altered_settings import ResourceType
from coterie.controller import nodes
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.zookeeper.operations import ZooKeeperError

if TYPE_CHECKING:
    from coterie.broker.cluster.entity_settings import EntitySettings

_NAMED = {ResourceType.CLIENT_METRICS: nodes.CLIENT_METRICS_KIND, ResourceType.GROUP: nodes.GROUPS_KIND}


def altered(
    broker: ConfigServices,
    entities: EntitySettings,
    alterations: list[Alteration],
    response: Callable[[list[Result]], Message],
) -> Pending:
    """The response comes when the settings and the notification of all brokers are written."""

    async def work() -> Message:
        times = occurrences(alterations)

        async def altered_one(alteration: Alteration) -> Result:
            try:
                check_once(alteration, times)
                await _alter(broker, entities, alteration)
            except (Refusal, ZooKeeperError) as error:
                return result_of(alteration, refusal_of(error))
            return result_of(alteration)

        return response(await each_at_once(alterations, altered_one))

    return responded_by(work())


async def _alter(broker: ConfigServices, entities: EntitySettings, alteration: Alteration) -> None:
    """Raises Refusal, ZooKeeperError."""
    if alteration.resource_type == ResourceType.BROKER_LOGGER:
        alter_loggers(broker, alteration)
        return
    entity = _entity(broker, alteration.resource_type, alteration.name)
    if entity is None:
        checked_settings(broker, alteration, {})
        raise AssertionError(f"settings of {alteration} are in no node, and pass")
    while True:
        current, version = await entities.read(*entity)
        checked = checked_settings(broker, alteration, current)
        if alteration.validate_only or await entities.write(*entity, checked, version):
            return


def _entity(broker: ConfigServices, resource_type: int, name: str) -> tuple[str, str] | None:
    """The kind and the name under which ZooKeeper has the settings; None where there can be none, which is refused."""
    if resource_type == ResourceType.TOPIC:
        return (nodes.TOPICS_KIND, name) if name in broker.topics.by_name else None
    if resource_type == ResourceType.BROKER:
        is_own = name.isascii() and name.isdecimal() and int(name) == broker.node_id
        return (
            (nodes.BROKERS_KIND, str(broker.node_id) if is_own else nodes.DEFAULT_ENTITY)
            if is_own or not name
            else None
        )
    kind = _NAMED.get(ResourceType(resource_type)) if resource_type in _NAMED else None
    if kind is None or not name:
        return None
    if broker.lacks_topic_ids:  # a broker of Kafka 2.6 reads no notification after one of a kind that it does not know
        text = f"{kind} have no settings in a cluster whose inter.broker.protocol.version is below 2.8"
        raise Refusal(ErrorCode.INVALID_REQUEST, text)
    return kind, nodes.sanitized(name)


def refreshed(
    broker: ConfigServices,
    entities: EntitySettings,
    resources: Iterable[tuple[int, str]],
    describing: Generator[None, None, Message],
) -> Pending:
    """Runs ``describing`` once the settings of the resources, by type and name, are here as ZooKeeper has them; where it cannot
    be reached, as they were."""

    async def read_one(resource: tuple[int, str]) -> None:
        resource_type, name = resource
        entity = None if broker.lacks_topic_ids and resource_type in _NAMED else _entity(broker, resource_type, name)
        if entity is not None:
            await entities.read(*entity)
        if resource_type == ResourceType.BROKER and name:
            await entities.read(nodes.BROKERS_KIND, nodes.DEFAULT_ENTITY)

    async def read() -> None:
        await each_at_once(resources, read_one)

    return responded_by(cluster_responses.refreshed(read, describing))
