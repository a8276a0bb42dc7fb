"""The drivers of `bench --part cluster` on three coterie brokers; Apache Kafka's are started the same way. The observer's
row of the benchmark, on a few groups. The proxy's rows of the benchmark, in a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.client import Admin
from coterie_conformance.bench.loads import cluster_load
from coterie_conformance.bench.loads.cluster_load import create_topic, ends, outage, produced, produced_singles
from coterie_conformance.bench.loads.load import batch_of
from coterie_conformance.bench.observer import observer
from coterie_conformance.cluster.mixed import BrokerKind, MixedCluster, in_turn, mixed_cluster, wait_until
from coterie_conformance.proxy.overhead import proxy_rows
from coterie_conformance.servers.kafka import CannotRun

QUICK = {"zookeeper.session.timeout.ms": "2000"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MixedCluster]:
    pytest.importorskip("kazoo")
    pytest.importorskip("pyspark")
    try:
        with mixed_cluster(tmp_path, dict.fromkeys((1, 2, 3), BrokerKind.COTERIE), QUICK) as brokers:
            yield brokers
    except CannotRun as reason:
        pytest.skip(str(reason))


async def known(cluster: MixedCluster) -> dict[int, set[int]]:
    """The brokers that each broker describes."""
    described = cluster.ask_each(Admin.describe_cluster)
    return {broker.broker_id: {node.id for node in cluster.nodes} async for broker, cluster in described}


def test_each_leader_is_sent_records_and_a_coordinator_dies(cluster: MixedCluster) -> None:
    assert asyncio.run(known(cluster)) == {number: {1, 2, 3} for number in (1, 2, 3)}
    leaders = create_topic(cluster, "bench")
    assert len(set(leaders)) == 3
    assert [cluster.leader(("bench", number)) for number in range(3)] == [1, 2, 3]
    rate = produced(cluster, "bench", leaders, 1024, 0.3)
    _, count = batch_of(1024)
    assert ends(cluster, "bench") >= rate * 0.3 > count
    assert produced_singles(cluster, "bench", leaders, 6, 0.3) > 0
    controller = cluster.controller()
    took = outage(cluster)
    assert 0 < took.after_expiry_ms < took.total_ms
    assert controller in cluster.running()
    assert len(cluster.running()) == 2
    cluster.restore()
    asyncio.run(wait_until(cluster.is_whole, "the broker is back"))


def test_records_that_were_not_replicated_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that refuses answers as fast as one that appends."""
    monkeypatch.setattr(cluster_load, "ends", lambda *_: 5)
    cluster_load._check(None, "bench", 0, 5.0)  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="5 records of 100 are in bench"):
        cluster_load._check(None, "bench", 0, 100.0)  # type: ignore[arg-type]


def test_each_broker_leads_in_turn() -> None:
    assert in_turn((1, 2, 3), 4) == {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2], 3: [1, 2, 3]}


@pytest.mark.slow
def test_a_small_cluster(tmp_path: Path) -> None:
    rows = list(observer(tmp_path, groups=100, commits=5_000))
    assert len(rows) == 7
    assert all(row.value > 0 for row in rows[1:4])
    assert rows[4].value < rows[5].value  # it reads before it has described every group


@pytest.mark.slow
def test_a_few_requests(tmp_path: Path) -> None:
    rows = list(proxy_rows(tmp_path, round_trips=20, seconds=0.2))
    assert [row.unit for row in rows] == ["ms", "ms", "MB/s"]
    assert rows[1].value > 0
    assert rows[2].value > 0
