"""The same drivers over kazoo and a real ZooKeeper: replication, a session that is over, a server that is started again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.broker.cluster.zookeeper.session import ClusterSession, KazooSession, SessionEvents
from coterie.pipeline.session import JavaMissing
from coterie.runtime.zookeeper_session import ZooKeeperSession, connect
from coterie.testing.local_zookeeper import LocalZooKeeper
from coterie.zookeeper.operations import ConnectionLost, Operation
from tests.awaiting import until
from tests.broker.cluster.harness import CONFIG, Cluster, RunningBroker, running

pytestmark = pytest.mark.slow

SESSION_MS = 2_000
CONNECT_MS = 10_000
ALL = {0: (1, 2, 3)}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalZooKeeper]:
    pytest.importorskip("kazoo")
    folder: Path = tmp_path_factory.mktemp("zookeeper")
    try:
        with LocalZooKeeper(folder, tick_ms=200) as zookeeper:
            yield zookeeper
    except JavaMissing as missing:
        pytest.skip(str(missing))


class OfTheTest:
    """The test's own session; another one where it expired while the server was away."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.session = self._opened()

    def _opened(self) -> ZooKeeperSession:
        return ZooKeeperSession(connect(self.address, SESSION_MS, CONNECT_MS), lambda _: None, lambda _: None)

    def apply(self, operation: Operation) -> object:
        try:
            return self.session.apply(operation)
        except ConnectionLost:
            self.session.close()
            self.session = self._opened()
            return self.session.apply(operation)


class OnKazoo(RunningBroker):
    """A broker whose session is a real one."""

    async def _open_session(self, events: SessionEvents) -> ClusterSession:
        assert isinstance(self.cluster.zookeeper, OfTheTest)
        self.kazoo = await KazooSession(events).open(self.cluster.zookeeper.address, SESSION_MS, CONNECT_MS)
        return self.kazoo

    async def _die(self) -> None:
        await self.kazoo.close()

    def expire(self) -> None:
        """A second connection of the same session ends it."""
        from kazoo.client import KazooClient

        assert isinstance(self.cluster.zookeeper, OfTheTest)
        own = self.kazoo._session._client
        other = KazooClient(self.cluster.zookeeper.address, client_id=own.client_id)
        other.start(CONNECT_MS / 1000)
        other.stop()
        other.close()


def test_a_cluster_on_a_real_zookeeper(server: LocalZooKeeper) -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create_topic(ALL)
        first = await cluster.leader()
        assert isinstance(first, OnKazoo)
        await first.append(b"0")
        await asyncio.to_thread(first.expire)
        second = await cluster.leader(not_of=1)
        await second.append(b"1")
        await until(lambda: cluster.isr() == {1, 2, 3}, "the ISR to be whole")
        await cluster.until_equal(1, 2, 3)
        await asyncio.to_thread(server.kill)
        await second.append(b"without ZooKeeper")
        await asyncio.to_thread(server.start)
        controller = await cluster.controller()
        await controller.stop()
        await cluster.controller(not_of=controller.number)
        leader = await cluster.leader()
        await leader.append(b"2")
        await controller.start()
        await until(lambda: cluster.isr() == {1, 2, 3}, "the ISR to be whole")
        await cluster.until_equal(1, 2, 3)

    async def with_cluster() -> None:
        zookeeper = OfTheTest(server.address)
        async with running(CONFIG, OnKazoo, zookeeper) as cluster:
            await story(cluster)
        zookeeper.session.close()

    asyncio.run(with_cluster())
