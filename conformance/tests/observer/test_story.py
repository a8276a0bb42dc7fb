"""The part's machinery, with a coterie broker in Kafka's place. What is inferred depends on how long members and machine take:
tests/observer/test_stories.py holds that in virtual time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from coterie_conformance.observer.story import STEPS, ObservedLife, ObservedStep
from tests.broker_process import BrokerProcess


def test_a_step_without_its_cause_is_wrong() -> None:
    killed = STEPS[1]
    assert not ObservedStep(killed, []).is_right
    assert not ObservedStep(killed, ["member_gone (unknown)", "session_timeout (observed)"]).is_right
    assert ObservedStep(killed, ["member_gone (unknown)", "session_timeout (inferred)"]).is_right


@pytest.mark.slow
def test_a_life_beside_coterie(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "broker")
    try:
        life = asyncio.run(ObservedLife(broker.address, "classic").run())
    finally:
        broker.stop()
    assert [seen.step for seen in life] == list(STEPS)
    assert [seen.step.name for seen in life if not seen.causes] == []
    stated = [seen for seen in life if seen.step.evidence != "inferred"]
    assert len(stated) == 4
    assert [(seen.step.name, seen.causes) for seen in stated if not seen.is_right] == []
