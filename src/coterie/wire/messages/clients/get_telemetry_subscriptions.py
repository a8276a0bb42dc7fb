"""GetTelemetrySubscriptions (key 71, KIP-714): which metrics a client shall push, and how often."""

from __future__ import annotations

from coterie.wire.declaration import Message, array, boolean, field, int8, int16, int32, message, string, uuid


@message(api_key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsRequest(Message):
    client_instance_id: bytes = field(uuid)


@message(api_key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsResponse(Message):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    client_instance_id: bytes = field(uuid)
    subscription_id: int = field(int32)
    accepted_compression_types: list[int] = field(array(int8))
    push_interval_ms: int = field(int32)
    telemetry_max_bytes: int = field(int32)
    delta_temporality: bool = field(boolean)
    requested_metrics: list[str] = field(array(string))
