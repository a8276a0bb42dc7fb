"""Connections to brokers in virtual time."""

from __future__ import annotations

from coterie.client.connection.connection import Connection
from coterie.testing.simulated import WorldBroker
from coterie.text.addresses import parse_address

REQUEST_S = 30.0


async def connections(broker: WorldBroker, client_id: str = "test") -> list[Connection]:
    """One to each broker."""
    addresses = map(parse_address, broker.bootstrap_servers.split(","))
    return [await Connection.connect(host, port, client_id, REQUEST_S) for host, port in addresses]
