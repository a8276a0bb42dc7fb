"""The benchmark's drivers do what they say; how fast is not tested. The churn: visits end, and a level that rises is
reported."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.client import Producer
from coterie.client.errors import KafkaError
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.shard import Shard
from coterie.text.addresses import format_address
from coterie_conformance.bench.churn import ClientVisits, ResourceUse, churn
from coterie_conformance.bench.clients import rate
from coterie_conformance.bench.consumer_groups import (
    ConsumerCrew,
    create_topics,
    heartbeat_rate,
    join_cost,
    settled_consumers,
)
from coterie_conformance.bench.loading import PER_COMMIT, open_log, write_commits
from coterie_conformance.bench.loads import load
from coterie_conformance.bench.measurement import Measurement, broker
from coterie_conformance.bench.rebalance import rebalance_ms, settled_crew

Address = tuple[str, int]


@pytest.fixture
def address(tmp_path: Path) -> Iterator[Address]:
    with broker(tmp_path / "data", initial_delay_ms=200) as (at, _process):
        yield at


def test_a_crew_settles_in_one_generation_and_rebalances(address: Address) -> None:
    crew = settled_crew(address, 8)
    assert len(set(crew.ids)) == 8
    crew.close()
    assert 0 < rebalance_ms(address, 5) < 60_000


def test_joins_and_commits_are_counted(address: Address) -> None:
    load.create_topic(address, 4)
    assert load.joins(address, 3, 1.0) > 0
    load.commit_many(address, 2, 4)


def test_records_are_counted(address: Address) -> None:
    load.create_topic(address)
    records = load.fill(address, 2)
    assert rate("consume", "coterie", format_address(*address), records) > 0
    assert load.produce_singles(address, 3, 0.3) > 0
    load.create_small_partitions(address, 5)
    assert load.fetch_small_partitions(address, 5, 0.3) > 0
    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        load.fetch_small_partitions(address, 6, 0.3)


def test_the_log_that_is_loaded_holds_what_it_says(tmp_path: Path) -> None:
    log, shard = open_log(tmp_path), Shard(CoordinatorConfig())
    write_commits(log, 5_000)
    assert log.load(shard) == 5_000
    assert sum(len(g.offsets) for g in shard.groups.values()) == 500 * PER_COMMIT


def test_a_row_is_better_above_one() -> None:
    assert Measurement("x", 20.0, "1/s", 10.0).ratio == 2
    assert Measurement("x", 20.0, "ms", 10.0, lower_is_better=True, peer="Kafka").ratio == 0.5
    assert Measurement("x", 20.0, "ms").ratio is None


def test_a_group_of_the_consumer_protocol_settles_and_takes_one_more(address: Address) -> None:
    crew = settled_consumers(address, 4)
    assert [m.partitions for m in crew.members] == [2, 2, 2, 2]
    cost = join_cost(crew)
    assert sum(m.partitions for m in crew.members) == 8
    assert {m.epoch for m in crew.members} == {crew.group_epoch} == {8}
    assert cost.requests >= 6  # a heartbeat of each, the newcomer's first, and what is acknowledged
    assert cost.transferred_bytes > 100 * cost.requests
    assert heartbeat_rate(crew, 4, 0.2) > 0
    crew.close()


def test_a_crew_settles_where_the_epoch_rose_for_a_topic(address: Address) -> None:
    first = create_topics(address, "first", 4)
    crew = ConsumerCrew(address, "g", [*first, "later-0"], 8)
    crew.connections.gather(crew.join(2), crew.responded)
    create_topics(address, "later", 4)
    crew.settle()
    assert crew.group_epoch > 1 + len(crew.members)
    crew.close()


def test_clients_that_come_and_go_leave_no_tasks(tmp_path: Path) -> None:
    visits: list[int] = []
    levels = asyncio.run(churn(tmp_path, 2, 0, lambda _, n: visits.append(n), round_s=1.0))
    assert visits[1] > visits[0] > 0
    assert len({level.tasks for level in levels}) == 1, levels


def test_a_client_that_is_never_closed_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[Producer] = []

    async def stays(guests: ClientVisits) -> None:
        left.append(Producer({"bootstrap.servers": guests._address}))
        await left[-1].send("churn-0", b"v")

    for kind in ("_produces", "_consumes", "_transacts", "_administrates", "_hangs_up"):
        monkeypatch.setattr(ClientVisits, kind, stays)

    monkeypatch.setattr("coterie_conformance.bench.churn.SETTLE_S", 0.2)  # nothing that is left open ends

    async def run() -> list[ResourceUse]:
        levels = await churn(tmp_path, 2, 0, lambda *_: None, round_s=0.5)
        for producer in left:
            await producer.close(100)
        return levels

    levels = asyncio.run(run())
    assert levels[-1].descriptors > levels[0].descriptors, levels
