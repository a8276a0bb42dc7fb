"""A broker that is gone, or accepts connections and says nothing, holds nobody up while another lives."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from coterie.client import KafkaError
from coterie.client.admin.admin import Admin
from coterie.client.connection.cluster import NEXT_BROKER_S, Cluster
from coterie.client.settings.settings import client_settings
from coterie.testing import LocalBroker

NO_HEDGE_S = 5.0  # a connection may take 10 s


@asynccontextmanager
async def silent() -> AsyncIterator[str]:
    """The address of a broker that was stopped with SIGSTOP: the system accepts connections."""
    accepted: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda reader, writer: accepted.append(writer), "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for writer in accepted:
            writer.transport.abort()


@pytest.fixture(autouse=True)
def in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of bootstrap.servers is tried first."""
    monkeypatch.setattr(random, "sample", lambda population, k: list(population)[:k])


def test_another_broker_is_tried_beside_a_silent_one() -> None:
    async def story(address: str) -> None:
        async with silent() as dead, Admin({"bootstrap.servers": f"{dead},{address}"}) as admin:
            started_s = time.monotonic()
            assert len((await admin.describe_cluster()).nodes) == 1
            assert NEXT_BROKER_S / 2 < time.monotonic() - started_s < NO_HEDGE_S

    with LocalBroker() as broker:
        asyncio.run(story(broker.bootstrap_servers))


def test_a_refused_connection_is_followed_by_the_next_at_once() -> None:
    async def story(address: str) -> None:
        async with silent() as dead:
            pass
        async with Admin({"bootstrap.servers": f"{dead},{address}"}) as admin:
            started_s = time.monotonic()
            await admin.describe_cluster()
            assert time.monotonic() - started_s < NEXT_BROKER_S

    with LocalBroker() as broker:
        asyncio.run(story(broker.bootstrap_servers))


def test_an_open_connection_is_used_before_another_is_opened() -> None:
    async def story(addresses: str) -> None:
        cluster = Cluster(client_settings({"bootstrap.servers": addresses}))
        await cluster.metadata([])
        last = cluster.node_ids()[-1]
        opened = await cluster.connection(last)
        assert await cluster.any_connection() is opened
        opened.abort()
        assert await cluster.any_connection() is not opened
        cluster.close()

    with LocalBroker(brokers=3) as brokers:
        asyncio.run(story(brokers.bootstrap_servers))


async def test_nobody_answers_is_one_error() -> None:
    async with silent() as one, silent() as two:
        admin = Admin({"bootstrap.servers": f"{one},{two}", "request.timeout.ms": "700"})
        with pytest.raises(KafkaError, match=r"no broker answers within 0\.7 s"):
            await admin.describe_cluster()
        admin.close()
    async with Admin({"bootstrap.servers": f"{one},{two}"}) as admin:  # both are closed now
        with pytest.raises(KafkaError, match="NETWORK_EXCEPTION"):
            await admin.describe_cluster()
