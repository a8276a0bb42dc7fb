"""Client telemetry: what the requests say in terms of `clients.telemetry`."""

from __future__ import annotations

import json

from coterie.broker.clients.telemetry import COMPRESSION_TYPES, Push, telemetry_clients
from coterie.broker.handlers.services import ClientServices, Handler
from coterie.broker.requests.calls import Call
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.clients.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from coterie.wire.messages.clients.list_clients import ListClientsRequest, ListClientsResponse
from coterie.wire.messages.clients.push_telemetry import PushTelemetryRequest, PushTelemetryResponse


def handle_get_telemetry_subscriptions(
    broker: ClientServices, request: GetTelemetrySubscriptionsRequest, call: Call
) -> GetTelemetrySubscriptionsResponse:
    """KIP-714. THROTTLING_QUOTA_EXCEEDED for a client that comes before its interval is over."""
    telemetry = broker.clients.telemetry
    try:
        instance_id, subscription = telemetry.subscribe(request.client_instance_id, call, broker.clock.now_ms())
    except Refusal as refusal:
        return GetTelemetrySubscriptionsResponse(error_code=refusal.code)
    return GetTelemetrySubscriptionsResponse(
        error_code=ErrorCode.NONE,
        client_instance_id=instance_id,
        subscription_id=subscription.subscription_id,
        accepted_compression_types=list(COMPRESSION_TYPES),
        push_interval_ms=subscription.interval_ms,
        telemetry_max_bytes=telemetry.max_bytes,
        delta_temporality=True,
        requested_metrics=list(subscription.metrics),
    )


def handle_push_telemetry(broker: ClientServices, request: PushTelemetryRequest, call: Call) -> PushTelemetryResponse:
    """KIP-714. The client's last push is kept; the errors are those of `Telemetry.push`."""
    push = Push(request.subscription_id, request.terminating, request.compression_type, request.metrics)
    try:
        broker.clients.telemetry.push(request.client_instance_id, call, push, broker.clock.now_ms())
    except Refusal as refusal:
        return PushTelemetryResponse(error_code=refusal.code)
    return PushTelemetryResponse()


def handle_list_clients(broker: ClientServices, request: ListClientsRequest, call: Call) -> ListClientsResponse:
    """An API of coterie's own (`wire/messages/clients/list_clients.py`)."""
    document = json.dumps(telemetry_clients(broker.clients.telemetry, broker.clock.now_ms()))
    return ListClientsResponse(ErrorCode.NONE, document.encode())


HANDLERS: dict[int, Handler] = {
    71: handle_get_telemetry_subscriptions,
    72: handle_push_telemetry,
    30001: handle_list_clients,
}
