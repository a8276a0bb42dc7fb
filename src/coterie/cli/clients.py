"""`coterie clients`: what clients push of their own metrics (KIP-714)."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from coterie.cli.parts.exit_codes import end_with
from coterie.cli.parts.invocation import broker_option, json_option, run, show
from coterie.console.terminal import write_line
from coterie.text.quantity import quantity, span

if TYPE_CHECKING:
    from coterie.client import KafkaError, Node, TelemetryClient


@click.command(
    epilog="""\b
Examples:
  coterie clients
  coterie clients anna

\b
Clients push once there is a subscription for them, as by Apache Kafka's tool:
  kafka-client-metrics --alter --name all --metrics '*' --interval 5000
"""
)
@click.argument("client_id", required=False)
@broker_option
@json_option
def clients(client_id: str | None, client: dict[str, str], as_json: bool) -> None:
    """Show the clients that push metrics, or the metrics of one.

    They are those of the brokers' client metrics subscriptions. Works with a coterie broker.
    """
    from coterie.client import Admin

    errors: dict[Node, KafkaError] = {}

    async def call() -> list[TelemetryClient]:
        async with Admin(client) as admin:
            clients = await admin.telemetry_clients(errors=errors)
        if errors and not clients:
            raise next(iter(errors.values()))
        return clients

    pushing: list[TelemetryClient] = run(call())
    wanted = [one for one in pushing if client_id in (None, one.client_id, one.client_instance_id)]
    if client_id is not None and not wanted:
        raise click.ClickException(
            f"there are no metrics of a client {client_id}; `coterie clients` prints the clients that have pushed some"
        )
    if as_json or client_id is None:
        rows = [
            (
                one.client_id,
                one.host,
                one.software,
                one.pushes,
                None if one.last_push_ms is None else f"{span(one.last_push_ms)} ago",
                one.problem or len(one.metrics),
            )
            for one in wanted
        ]
        headers = ["CLIENT", "HOST", "SOFTWARE", "PUSHES", "LAST PUSH", "METRICS"]
        show([asdict(one) for one in wanted], as_json, headers, rows, "no client pushes metrics")
    else:
        _write_metrics(wanted)
    end_with(errors.values())


def _write_metrics(wanted: list[TelemetryClient]) -> None:
    for one in wanted:
        every = f"{quantity(one.pushes, 'push', 'pushes')}, every {span(one.interval_ms)}"
        write_line(f"{one.client_id} at {one.host}, {one.software}: {every}{'; ' + one.problem if one.problem else ''}")
        metrics = [(value_text(m.value), m.name, " ".join(m.attributes)) for m in one.metrics]
        show(None, False, ["VALUE", "METRIC", "OF"], metrics, "it has pushed no metrics")


def value_text(value: float | None) -> str:
    """A number as short as it is exact to a thousandth."""
    return "-" if value is None else f"{value:,.3f}".rstrip("0").rstrip(".")
