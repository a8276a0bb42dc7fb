"""One real ZooKeeper for the tests that ask both it and the laboratory's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coterie.pipeline.session import JavaMissing
from coterie.testing.local_zookeeper import LocalZooKeeper
from tests.zookeeper.connections import Connection, RealConnection, SimulatedConnection


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalZooKeeper]:
    server = LocalZooKeeper(tmp_path_factory.mktemp("zookeeper"))
    try:
        server.start()
    except JavaMissing as reason:
        pytest.skip(f"NO JAVA, NO ZOOKEEPER: {reason}")
    yield server
    server.stop()


@pytest.fixture(params=["simulated", "real"])
def connection(request: pytest.FixtureRequest) -> Iterator[Connection]:
    if request.param == "simulated":
        yield SimulatedConnection()
        return
    made = RealConnection(request.getfixturevalue("zookeeper").address)
    yield made
    made.clear()
    made.close()
