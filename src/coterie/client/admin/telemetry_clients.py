"""The clients that push metrics to a coterie broker (KIP-714), with what each pushed last."""

from __future__ import annotations

import json
from dataclasses import dataclass

from coterie.client.admin.each_broker import of_each_broker
from coterie.client.admin.group_explanation import PushedMetric, read_json
from coterie.client.admin_types import Node
from coterie.client.connection.cluster import Cluster
from coterie.client.errors import KafkaError, check
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.clients.list_clients import ListClientsRequest, ListClientsResponse


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
