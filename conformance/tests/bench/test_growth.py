"""The report of growth measures what it says at each size; how much is not tested. The page of growth: slopes are those
of the curves, and every point is in a picture and in a table."""

from __future__ import annotations

import json
import os
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from coterie_conformance.bench.curves import growth as growth_module
from coterie_conformance.bench.curves.growth import BROKERS, COTERIE, WITHOUT_DELAY, MeasuredBroker, curve, growth
from coterie_conformance.bench.curves.load import AXES, WARM_UP_MEMBERS, Axis
from coterie_conformance.bench.curves.page import (
    AXIS_TEXTS,
    MEASURES,
    CostPoint,
    CurveEnd,
    markdown,
    pictures,
    slope,
    slope_text,
)
from coterie_conformance.bench.measurement import ProcessorMeter, broker
from coterie_conformance.cli import main
from coterie_conformance.cli.bench import write_growth_page
from coterie_conformance.servers.programs import NAME as KFAKE

LINUX = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processor times are read from /proc")
COSTS = {
    "connections": {"heartbeat_us"},
    "groups": {"commit_us", "group_listed_us"},
    "partitions": {"partition_created_us", "partition_described_us"},
    "bytes": {"produce_us", "fetch_us"},
}
RESULTS: dict[str, Any] = {
    "command": "./run bench --report",
    "date": "2026-11-22",
    "machine": {"cores": 2, "system": "Linux x86_64", "python": "3.11.7"},
    "load": [1.2, 5.0],
    "points": [
        {
            "axis": "groups",
            "broker": broker,
            "size": size,
            "costs": {"commit_us": 20.0 * by, "memory_mb": size / 10 * by},
        }
        for broker, by in (("coterie", 1), ("Kafka 4.3.0", 2))
        for size in (10, 100, 1_000, 10_000)
        if broker == "coterie" or size < 10_000
    ],
    "ends": [{"axis": "groups", "broker": "Kafka 4.3.0", "size": 10_000, "reason": "the size before took 99 s"}],
}


@LINUX
def test_every_axis_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # Other tests need the cores as well.
    monkeypatch.setattr("coterie_conformance.bench.curves.growth.bind", lambda core: None)
    monkeypatch.setattr("coterie_conformance.bench.beside.bind", lambda core, pid: None)
    results = list(growth(tmp_path, 10, 0.05, peers=(), axes=COSTS))
    assert [(r.axis, r.size) for r in results] == [
        ("connections", 1), ("connections", 10), ("groups", 10), ("partitions", 10), ("bytes", 10),
    ]  # fmt: skip
    for result in results:
        assert isinstance(result, CostPoint), result
        assert set(result.costs) == COSTS[result.axis] | {"memory_mb"}
        assert result.costs["memory_mb"] > 10


@LINUX
def test_a_rebalance_is_measured(tmp_path: Path) -> None:
    with broker(tmp_path, initial_delay_ms=200) as (address, process):
        meter = ProcessorMeter(process.pid)
        AXES["members"].load(address, 5, 0.1, meter)
    assert set(meter.costs) == {"join_us", "rebalance_ms"}
    assert 0 < meter.costs["rebalance_ms"] < 60_000


@LINUX
def test_a_broker_without_the_delay_has_no_curve_over_members(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(BROKERS, COTERIE, BROKERS[KFAKE])
    monkeypatch.setattr(growth_module, "kfake", lambda program: nullcontext((("127.0.0.1", 1), os.getpid())))
    monkeypatch.setattr(growth_module, "kfake_program", Path)
    monkeypatch.setattr(growth_module, "bind", lambda core: None)
    monkeypatch.setitem(AXES, "members", replace(AXES["members"], load=lambda *_: None, warm_up=lambda *_: None))
    results = list(growth(tmp_path, 10, 0.1, [KFAKE], ["members"]))
    assert [type(r) for r in results] == [CostPoint, CurveEnd]
    assert results[1] == CurveEnd("members", KFAKE, 10, WITHOUT_DELAY[KFAKE])


def test_the_page_knows_every_axis_and_measure() -> None:
    assert set(AXES) == set(AXIS_TEXTS)
    assert WARM_UP_MEMBERS not in AXES["members"].sizes, "both would be one group"
    assert set.union(*COSTS.values(), {"join_us", "rebalance_ms", "memory_mb"}) == set(MEASURES)


@LINUX
def test_a_curve_ends_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(address: tuple[str, int], size: int, seconds: float, meter: ProcessorMeter) -> None:
        if size >= 100:
            raise OSError("no more than 10")
        meter.begin()
        meter.end("commit", size)

    monkeypatch.setitem(AXES, "groups", Axis((), failing, lambda address, seconds: None))
    broker, sizes = MeasuredBroker("coterie", ("127.0.0.1", 1), os.getpid()), (1, 10, 100, 1_000)
    results = list(curve(broker, "groups", sizes, 0.1))
    assert [r.size for r in results] == [1, 10, 100]
    assert results[-1] == CurveEnd("groups", "coterie", 100, "no more than 10")
    monkeypatch.setattr(growth_module, "SIZE_S", -1.0)
    assert [r.size for r in curve(broker, "groups", sizes, 0.1)] == [1]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [(["--report", "--json"], "stands alone"), (["--report", "--quick"], "needs --out FOLDER"),
     (["--out", "x"], "belong to --report")],
)  # fmt: skip
def test_options_that_do_not_go_together(arguments: list[str], sentence: str) -> None:
    result = CliRunner().invoke(main, ["bench", *arguments])
    assert result.exit_code == 2
    assert sentence in result.output


@given(st.floats(-2, 3), st.floats(0.001, 1e6), st.lists(st.integers(1, 10**6), min_size=2, max_size=6, unique=True))
def test_the_slope_of_a_power_is_its_exponent(exponent: float, factor: float, sizes: list[int]) -> None:
    measured = slope([(size, factor * size**exponent) for size in sizes])
    assert measured == pytest.approx(exponent, abs=1e-6)


def test_the_fixed_part_of_a_cost_is_not_fitted() -> None:
    floor = [(10**n, max(30.0, 10**n / 1_000)) for n in range(8)]
    assert slope(floor) == pytest.approx(1)
    assert slope(floor[:1]) is None


@pytest.mark.parametrize(
    ("exponent", "text"),
    [(0.05, "constant (0.05)"), (-0.5, "falls (-0.50)"), (0.5, "less than linear (0.50)"), (1.02, "linear (1.02)"),
     (1.3, "more than linear (1.30)"), (None, "too few points")],
)  # fmt: skip
def test_a_slope_has_a_name(exponent: float | None, text: str) -> None:
    assert slope_text(exponent) == text


def test_a_broker_in_memory_is_noted() -> None:
    assert "keeps everything in memory" not in markdown(RESULTS, "performance")
    with_kfake = RESULTS | {"points": [*RESULTS["points"], RESULTS["points"][0] | {"broker": "kfake 2026-09-18"}]}
    assert "kfake, the broker of franz-go's tests, keeps everything in memory" in markdown(with_kfake, "performance")


def test_the_page_has_every_slope_point_and_end() -> None:
    page = markdown(RESULTS, "performance")
    assert "load averages of 1.2 at the start and 5 at the end" in page
    assert "| processor time of a commit | groups | constant (0.00) | constant (0.00) |" in page
    assert "| resident memory of the broker | groups | linear (1.00) | linear (1.00) |" in page
    assert "| 10,000 | 20 | – | 1,000 | – |" in page
    assert "No point of Kafka 4.3.0 with 10,000 groups or more: the size before took 99 s." in page
    drawn = pictures([CostPoint(**point) for point in RESULTS["points"]])
    assert list(drawn) == ["groups-commit-us", "groups-memory-mb"]
    assert all(f"(performance/{name}.svg)" in page for name in drawn)
    assert drawn["groups-memory-mb"].count("<title>coterie, ") == 4
    assert ">groups</text>" in drawn["groups-memory-mb"]


def test_the_page_is_written_from_its_results(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "growth.json").write_text(json.dumps(RESULTS))
    page = write_growth_page(tmp_path)
    assert page.read_text() == markdown(RESULTS, "performance")
    assert len(list((tmp_path / "performance").glob("*.svg"))) == 2


def test_the_committed_page_is_that_of_the_committed_results(tmp_path: Path) -> None:
    docs = Path(__file__).parents[3] / "docs"
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "growth.json").write_text((docs / "results" / "growth.json").read_text())
    assert write_growth_page(tmp_path).read_text() == (docs / "performance.md").read_text()
    drawn, committed = (
        {picture.name: picture.read_text() for picture in (folder / "performance").iterdir()}
        for folder in (tmp_path, docs)
    )
    assert drawn == committed
