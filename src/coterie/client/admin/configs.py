"""An admin's calls about settings of topics, brokers, groups and client metrics (KIP-226, KIP-339, KIP-1142)."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

from coterie.client import arguments
from coterie.client.admin.calls import Futures, KeyedFutures, nothing, repeated
from coterie.client.admin.cluster_types import ConfigResource, ConfigResourceType, Resource
from coterie.client.admin.older import replace_topic_configs
from coterie.client.admin.results import config_entries
from coterie.client.admin_types import ConfigEntry
from coterie.client.connection.cluster import Cluster
from coterie.client.errors import KafkaError, check
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.settings.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from coterie.wire.messages.settings.incremental_alter_configs import (
    DELETE,
    SET,
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from coterie.wire.messages.settings.list_config_resources import ListConfigResourcesRequest

TYPES_FROM = 1  # the version of ListConfigResources that names types (KIP-1142)
OF_ONE_BROKER = frozenset({ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER})


def _resource(given: object) -> ConfigResource:
    """Raises TypeError, ValueError."""
    if isinstance(given, str):
        return ConfigResource(ConfigResourceType.TOPIC, given)
    if not isinstance(given, ConfigResource):
        raise TypeError(f"what has settings is a topic's name or a ConfigResource, not {given!r}")
    return ConfigResource(ConfigResourceType(given.type), arguments.text(given.name, "the name of a resource"))


def _node_id(resource: ConfigResource) -> int | None:
    """The broker that alone knows the resource; None for any. Raises ValueError."""
    if resource.type not in OF_ONE_BROKER or not resource.name:
        return None
    if not resource.name.isdecimal():
        raise ValueError(f"a broker is named by its id, not {resource.name!r}")
    return int(resource.name)


def _given(resources: Iterable[Resource]) -> list[Resource]:
    """Raises TypeError for a single one."""
    if isinstance(resources, str | bytes | ConfigResource):
        raise TypeError(f"resources must be a list of topics' names and ConfigResources, not {resources!r}")
    return list(resources)


def _by_broker(resources: Iterable[Resource]) -> dict[int | None, dict[ConfigResource, Resource]]:
    """Each as it was given, by the broker that a request is for. Raises TypeError, ValueError."""
    by_broker: dict[int | None, dict[ConfigResource, Resource]] = {}
    for given in resources:
        resource = _resource(given)
        named = by_broker.setdefault(_node_id(resource), {}).setdefault(resource, given)
        if named != given:
            raise ValueError(f"a resource is named twice: {named!r} and {given!r}")
    return by_broker


class EachConfigCalls(KeyedFutures):
    """Of `Each`."""

    def describe_configs(self, resources: Iterable[Resource]) -> Futures[Resource, dict[str, ConfigEntry]]:
        """A future for each topic or `ConfigResource` with its settings by name, as `Admin.describe_configs`, in one request a
        broker."""
        given = _given(resources)
        futures: Futures[Resource, dict[str, ConfigEntry]] = {}
        for node_id, keys in _by_broker(given).items():
            request = DescribeConfigsRequest([DescribeConfigsResource(r.type, r.name, None) for r in keys])
            part = functools.partial(_parts, "results", keys)
            futures |= self._together(keys.values(), self._request(request, node_id), part, config_entries)
        return {key: futures[key] for key in given}

    def incremental_alter_configs(
        self, changes: Mapping[Resource, Mapping[str, str | None]]
    ) -> Futures[Resource, None]:
        """A future for each topic or `ConfigResource`, whose settings are then set, as `Admin.incremental_alter_configs`, in
        one request a broker."""
        checked = {key: arguments.settings(configs, deletes=True) for key, configs in changes.items()}
        futures: Futures[Resource, None] = {}
        for node_id, keys in _by_broker(checked).items():
            altered = self._alter({resource: checked[key] for resource, key in keys.items()}, node_id)
            futures |= self._together(keys.values(), altered, functools.partial(_parts, "responses", keys), nothing)
        return {key: futures[key] for key in checked}

    async def _alter(self, changes: Mapping[ConfigResource, Mapping[str, str | None]], node_id: int | None) -> Any:
        resources = [
            AlterConfigsResource(
                r.type, r.name, [AlterableConfig(k, DELETE if v is None else SET, v) for k, v in configs.items()]
            )
            for r, configs in changes.items()
        ]
        if all(r.type is ConfigResourceType.TOPIC for r in changes):
            return await self._alter_topics({r.name: configs for r, configs in changes.items()}, resources)
        return await self._request(IncrementalAlterConfigsRequest(resources), node_id)

    @repeated
    async def _alter_topics(
        self, changes: Mapping[str, Mapping[str, str | None]], resources: list[AlterConfigsResource]
    ) -> Any:
        if not (await self._cluster.any_connection()).serves(IncrementalAlterConfigsRequest):
            return await replace_topic_configs(self._cluster, changes)
        return await self._cluster.request(IncrementalAlterConfigsRequest(resources))


def _parts(field: str, keys: Mapping[ConfigResource, Resource], response: Any) -> dict[Resource, Any]:
    """The results, in that field of the response, by what was given; one of a resource that was not requested is left out."""
    results = getattr(response, field)
    by_number = {(int(resource.type), resource.name): key for resource, key in keys.items()}
    named = ((by_number.get((result.resource_type, result.resource_name)), result) for result in results)
    return {key: result for key, result in named if key is not None}


class ConfigCalls:
    """Of `Admin`."""

    _cluster: Cluster
    each: EachConfigCalls

    async def describe_configs(self, resource: str | ConfigResource) -> dict[str, ConfigEntry]:
        """Every setting of a topic, or of another `ConfigResource`, by name, defaults included. Raises KafkaError
        UNKNOWN_TOPIC_OR_PARTITION, and INVALID_REQUEST for a broker that is not of the cluster.

        >>> configs = await admin.describe_configs("orders")
        >>> configs["retention.ms"].value, configs["retention.ms"].is_default
        ('604800000', True)
        >>> broker = await admin.describe_configs(ConfigResource(ConfigResourceType.BROKER, "1"))
        >>> broker["num.partitions"].value
        '3'
        """
        return await self.each.describe_configs([resource])[resource]

    async def incremental_alter_configs(
        self, resource: str | ConfigResource, changes: Mapping[str, str | None]
    ) -> None:
        """Sets these settings of a topic, or of another `ConfigResource`, None for the broker's default; the others stay.
        Raises KafkaError INVALID_CONFIG, UNKNOWN_TOPIC_OR_PARTITION.

        >>> await admin.incremental_alter_configs("orders", {"retention.ms": "3600000", "segment.bytes": None})
        >>> (await admin.describe_configs("orders"))["retention.ms"].source
        <ConfigSource.DYNAMIC_TOPIC_CONFIG: 1>
        >>> billing = ConfigResource(ConfigResourceType.GROUP, "billing")
        >>> await admin.incremental_alter_configs(billing, {"consumer.session.timeout.ms": "50000"})
        """
        await self.each.incremental_alter_configs({resource: changes})[resource]

    @repeated
    async def list_config_resources(self, types: Iterable[ConfigResourceType] = ()) -> list[ConfigResource]:
        """What has settings, of these types or of all: every topic and broker, and the groups and subscriptions of client
        metrics that have settings of their own. Raises KafkaError UNSUPPORTED_VERSION before Kafka 4.1, where a broker lists
        subscriptions of client metrics alone.

        >>> await admin.list_config_resources([ConfigResourceType.BROKER])
        [ConfigResource(type=<ConfigResourceType.BROKER: 4>, name='1')]
        """
        wanted = [ConfigResourceType(kind) for kind in types]
        connection = await self._cluster.any_connection()
        is_older = connection.version_of(ListConfigResourcesRequest) < TYPES_FROM
        if is_older and wanted != [ConfigResourceType.CLIENT_METRICS]:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "only Kafka 4.1 or newer lists these resources")
        response = await self._cluster.request(ListConfigResourcesRequest([int(kind) for kind in wanted]))
        check(response.error_code)
        listed = {(part.resource_type, part.resource_name) for part in response.config_resources}
        return [ConfigResource(kind, name) for kind in ConfigResourceType for of, name in sorted(listed) if of == kind]
