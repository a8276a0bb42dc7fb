"""A client's parts share what it knows of coordinators."""

from __future__ import annotations

import asyncio

from coterie.client.connection.cluster import TRANSACTION, Cluster, Coordinator
from coterie.client.settings.settings import client_settings
from coterie.testing import LocalBroker


async def test_a_coordinator_is_looked_up_once_for_every_part_of_a_client(coterie_broker: LocalBroker) -> None:
    cluster = Cluster(client_settings({"bootstrap.servers": coterie_broker.bootstrap_servers}))
    first, second = Coordinator(cluster, "g"), Coordinator(cluster, "g")
    transactions = Coordinator(cluster, "g", TRANSACTION)
    try:
        async with asyncio.timeout(20):
            assert await first.node() == await second.node() == await transactions.node()
            assert coterie_broker.requested("FindCoordinator") == 2, "one of each kind"
            second.forget()
            await transactions.node()
            assert coterie_broker.requested("FindCoordinator") == 2
            await first.node()
            assert coterie_broker.requested("FindCoordinator") == 3
    finally:
        cluster.close()
