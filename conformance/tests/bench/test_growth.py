"""The report of growth measures what it says at each size; how much is not tested."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from coterie_conformance.bench.curves import growth as growth_module
from coterie_conformance.bench.curves.growth import BROKERS, COTERIE, WITHOUT_DELAY, MeasuredBroker, curve, growth
from coterie_conformance.bench.curves.load import AXES, WARM_UP_MEMBERS, Axis
from coterie_conformance.bench.curves.page import AXIS_TEXTS, MEASURES, CostPoint, CurveEnd
from coterie_conformance.bench.measurement import ProcessorMeter, broker
from coterie_conformance.cli import main
from coterie_conformance.servers.programs import NAME as KFAKE

LINUX = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processor times are read from /proc")
COSTS = {
    "connections": {"heartbeat_us"},
    "groups": {"commit_us", "group_listed_us"},
    "partitions": {"partition_created_us", "partition_described_us"},
    "bytes": {"produce_us", "fetch_us"},
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
