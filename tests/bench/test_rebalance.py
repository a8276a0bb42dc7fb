"""The benchmark's drivers do what they say; how fast is not tested."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.bench import load
from coterie.bench.loading import PER_COMMIT, open_log, write_commits
from coterie.bench.measurement import Measurement, broker
from coterie.bench.rebalance import rebalance_ms, settled_crew
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.shard import Shard

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


def test_the_log_that_is_loaded_holds_what_it_says(tmp_path: Path) -> None:
    log, shard = open_log(tmp_path), Shard(CoordinatorConfig())
    write_commits(log, 5_000)
    assert log.load(shard) == 5_000
    assert sum(len(g.offsets) for g in shard.groups.values()) == 500 * PER_COMMIT


def test_a_row_is_better_above_one() -> None:
    assert Measurement("x", 20.0, "1/s", 10.0).ratio == 2
    assert Measurement("x", 20.0, "ms", 10.0, lower_is_better=True, peer="Kafka").ratio == 0.5
    assert Measurement("x", 20.0, "ms").ratio is None
