"""The clients that push metrics (KIP-714), with what each pushed last, as the API and HTTP return them."""

from __future__ import annotations

import base64
from typing import Any

from coterie.broker.clients.otlp import DataPoint, NoMetrics, pushed_metrics
from coterie.broker.clients.telemetry import Instance, Telemetry
from coterie.records.compression import CompressionError, decompress

UNFOLDED_BYTES = 8 * 1024 * 1024


def telemetry_clients(telemetry: Telemetry, now_ms: int) -> list[dict[str, Any]]:
    """As JSON, sorted by client id: the names of `coterie.client.TelemetryClient`."""
    rows = [_row(instance_id, instance, now_ms) for instance_id, instance in telemetry.instances()]
    return sorted(rows, key=lambda row: (row["client_id"], row["client_instance_id"]))


def as_json(metric: DataPoint) -> dict[str, Any]:
    """The names of `coterie.client.PushedMetric`."""
    return {"name": metric.name, "attributes": list(metric.attributes), "value": metric.value}


def last_metrics(instance: Instance) -> tuple[list[DataPoint], str | None]:
    """What the client pushed last, and why that cannot be read."""
    try:
        return pushed_metrics(decompress(instance.compression_type, instance.metrics, UNFOLDED_BYTES)), None
    except (NoMetrics, CompressionError) as error:
        return [], str(error)


def _row(instance_id: bytes, instance: Instance, now_ms: int) -> dict[str, Any]:
    metrics, problem = last_metrics(instance)
    return {
        "client_instance_id": base64.urlsafe_b64encode(instance_id).decode().rstrip("="),
        "client_id": instance.client_id,
        "host": instance.host,
        "software": instance.software,
        "subscribed": list(instance.subscription.metrics),
        "interval_ms": instance.subscription.interval_ms,
        "pushes": instance.pushes,
        "last_push_ms": None if instance.pushed_ms < 0 else max(now_ms - instance.pushed_ms, 0),
        "metrics": [as_json(metric) for metric in metrics],
        "problem": problem,
    }
