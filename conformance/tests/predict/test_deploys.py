"""The part's machinery, with a coterie broker in Kafka's place and our members; and what is near."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from coterie.laboratory.prediction import CostSpread, PredictedCost
from coterie_conformance.predict import deploys
from coterie_conformance.predict.deploys import DeployedSetUp, Deploys, MeasuredDeploy, SetUp
from coterie_conformance.predict.processes import OURS
from tests.broker_process import BrokerProcess


def measured(predicted_s: float, *measured_s: float) -> MeasuredDeploy:
    none = CostSpread(0, 0, 0)
    cost = PredictedCost("s", "", none, CostSpread(predicted_s, predicted_s, predicted_s), none, none, none)
    return MeasuredDeploy(SetUp(OURS, "eager"), cost, list(measured_s))


def test_a_prediction_is_near_within_a_fifth_of_what_is_measured() -> None:
    assert measured(4.0, 4.5, 5.5).is_near
    assert not measured(3.9, 5.0).is_near
    assert not measured(6.1, 5.0).is_near
    assert measured(0.0, 0.09).is_near  # of no matter


def test_a_record_that_is_delivered_again_is_a_duplicate() -> None:
    one = DeployedSetUp(SetUp(OURS, "eager"), lambda client: pytest.fail(client))
    for first, last in ((0, 9), (10, 14), (12, 19), (5, 6), (20, 20)):
        one.reads(0, first, last)
    one.reads(1, 7, 9)  # committed before
    assert one.duplicates == 3 + 2


@pytest.mark.slow
@pytest.mark.parametrize("removal", ["leave", "kill"])
def test_a_deploy_beside_coterie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, removal: str) -> None:
    """Whether it is near hangs on how busy the machine is, as does whether two of the four rebalances are one; that it restarts
    everybody does not."""
    monkeypatch.setattr(deploys, "SETTLED_S", 1.0)
    set_up = SetUp(OURS, "eager", members=2, partitions=2, removal=removal)
    broker = BrokerProcess(tmp_path / "broker")
    try:
        (row,) = asyncio.run(Deploys(broker.address, tmp_path, [set_up]).run(1, lambda _: None))
    finally:
        broker.stop()
    assert len(row.unowned_s) == 1
    assert row.unowned_s[0] > 0
    assert row.rebalances[0] >= 2
    assert row.predicted.rebalances.highest == (4 if removal == "leave" else 2)
    assert (row.duplicates[0] > 0) == (removal == "kill")
