"""An admin's calls about brokers: their features (KIP-584) and log directories (KIP-113); what each of them responds to for
itself, and so the clients that push metrics to a coterie broker (KIP-714), with what each pushed last."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from coterie import __version__
from coterie.client import arguments
from coterie.client.admin.calls import repeated
from coterie.client.admin.cluster_types import (
    FeatureMetadata,
    FeatureUpgradeType,
    LogDirDescription,
    ReplicaInfo,
    VersionRange,
)
from coterie.client.admin.group_explanation import PushedMetric, read_json
from coterie.client.admin_types import Node
from coterie.client.connection.cluster import Cluster
from coterie.client.connection.handshake import SOFTWARE_NAME
from coterie.client.errors import KafkaError, check
from coterie.client.types import TopicPartition
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.clients.api_versions import ApiVersionsRequest
from coterie.wire.messages.clients.list_clients import ListClientsRequest, ListClientsResponse
from coterie.wire.messages.logs.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResult
from coterie.wire.messages.settings.update_features import FeatureUpdateKey, UpdateFeaturesRequest

R = TypeVar("R")


class BrokerCalls:
    """Of `Admin`."""

    _cluster: Cluster

    @repeated
    async def describe_features(self) -> FeatureMetadata:
        """The features of a broker, whichever responds.

        >>> features = await admin.describe_features()
        >>> features.finalized["group.version"]
        VersionRange(min_version=1, max_version=1)
        """
        response = await self._cluster.request(ApiVersionsRequest(SOFTWARE_NAME, __version__))
        check(response.error_code)
        epoch = response.finalized_features_epoch
        return FeatureMetadata(
            {f.name: VersionRange(f.min_version_level, f.max_version_level) for f in response.finalized_features},
            None if epoch < 0 else epoch,
            {f.name: VersionRange(f.min_version, f.max_version) for f in response.supported_features},
        )

    @repeated
    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        upgrade_type: FeatureUpgradeType = FeatureUpgradeType.UPGRADE,
        validate_only: bool = False,
    ) -> None:
        """Sets the levels of features, 0 to switch one off; all of them or none. ``validate_only``: changes nothing. Raises
        KafkaError INVALID_UPDATE_VERSION, CLUSTER_AUTHORIZATION_FAILED.

        >>> await admin.update_features({"group.version": 1}, validate_only=True)
        """
        updates = [
            FeatureUpdateKey(
                arguments.text(name, "the name of a feature"),
                arguments.whole_number(level, f"the level of {name}", 0, 2**15 - 1),
                upgrade_type is not FeatureUpgradeType.UPGRADE,
                FeatureUpgradeType(upgrade_type),
            )
            for name, level in levels.items()
        ]
        request = UpdateFeaturesRequest(feature_updates=updates, validate_only=validate_only)
        response = await self._cluster.request_controller(request, lambda responded: [responded])
        check(response.error_code, response.error_message)
        for result in response.results:
            check(result.error_code, result.error_message, subject=f"feature {result.feature}")

    @repeated
    async def describe_log_dirs(
        self, brokers: Iterable[int] | None = None, *, errors: dict[Node, KafkaError] | None = None
    ) -> dict[int, tuple[LogDirDescription, ...]]:
        """The log directories of every broker, or of ``brokers``, by broker id, with the size of each replica. ``errors`` as in
        `list_groups`. Raises KafkaError CLUSTER_AUTHORIZATION_FAILED of a broker.

        >>> (directory,) = (await admin.describe_log_dirs())[1]
        >>> directory.replicas[TopicPartition("orders", 1)]
        ReplicaInfo(size=0, offset_lag=0, is_future=False)
        """

        async def of(node_id: int) -> tuple[LogDirDescription, ...]:
            response = await self._cluster.request(DescribeLogDirsRequest(None), node_id)
            check(response.error_code, subject=f"broker {node_id}")
            return tuple(map(_log_dir, response.results))

        wanted = None if brokers is None else arguments.broker_ids(brokers, "brokers")
        return await of_each_broker(self._cluster, of, errors, wanted)


def _log_dir(result: DescribeLogDirsResult) -> LogDirDescription:
    replicas = {
        TopicPartition(topic.name, p.partition_index): ReplicaInfo(p.partition_size, p.offset_lag, p.is_future_key)
        for topic in result.topics
        for p in topic.partitions
    }
    total, usable = (None if size < 0 else size for size in (result.total_bytes, result.usable_bytes))
    return LogDirDescription(result.log_dir, error_of(result.error_code), replicas, total, usable)


@dataclass(frozen=True, slots=True)
class TelemetryClient:
    """A client that requested a subscription of metrics: ``subscribed`` has the prefixes of their names ("*" for all),
    ``last_push_ms`` how long ago it pushed (None: not yet), ``problem`` why its ``metrics`` cannot be read."""

    client_instance_id: str
    client_id: str
    host: str
    software: str
    subscribed: tuple[str, ...]
    interval_ms: int
    pushes: int
    last_push_ms: int | None
    metrics: tuple[PushedMetric, ...]
    problem: str | None


@dataclass(frozen=True, slots=True)
class _Document:
    clients: tuple[TelemetryClient, ...]


async def telemetry_clients(cluster: Cluster, errors: dict[Node, KafkaError] | None) -> list[TelemetryClient]:
    """Those of every broker, by client id; a client that pushes to several is there once for each. Raises KafkaError;
    ``errors`` receives that of a broker instead."""
    of_brokers = await of_each_broker(cluster, lambda node: _of_broker(cluster, node), errors)
    clients = [client for of_broker in of_brokers.values() for client in of_broker]
    return sorted(clients, key=lambda client: (client.client_id, client.client_instance_id))


async def _of_broker(cluster: Cluster, node: int) -> tuple[TelemetryClient, ...]:
    response = await cluster.request_unadvertised(ListClientsRequest(), ListClientsResponse, node)
    check(response.error_code, subject=f"broker {node}")
    try:
        return read_json(_Document, {"clients": json.loads(response.document)}, "the document").clients
    except (ValueError, RecursionError) as error:
        text = f"the clients of broker {node} cannot be read: {error}"
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text) from error


async def of_each_broker(
    cluster: Cluster,
    one: Callable[[int], Awaitable[R]],
    errors: dict[Node, KafkaError] | None,
    node_ids: Collection[int] | None = None,
) -> dict[int, R]:
    """What ``one`` returns of each broker of the newest metadata, or of those named. Raises KafkaError; ``errors`` receives
    that of a broker instead."""
    await cluster.refresh(())
    wanted = list(cluster.node_ids() if node_ids is None else node_ids)
    results: dict[int, R] = {}
    for node_id, result in zip(wanted, await asyncio.gather(*map(one, wanted), return_exceptions=True), strict=True):
        if not isinstance(result, BaseException):
            results[node_id] = result
        elif errors is None or not isinstance(result, KafkaError):
            raise result
        else:
            errors[Node(node_id, *(cluster.address(node_id) or ("", -1)))] = result
    return results
