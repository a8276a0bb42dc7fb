"""The scenarios of tests/spec: the whole trace of each must be as written. `--rewrite` writes them again."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from itertools import pairwise
from pathlib import Path

import pytest

from coterie.member.consumer.state import CONSUMER_SUCCESSORS
from coterie.member.state import LEGAL_SUCCESSORS
from coterie_conformance.scenarios.assignor_scenario import AssignorScenario
from coterie_conformance.scenarios.authorizer_scenario import AuthorizerScenario
from coterie_conformance.scenarios.cluster_scenario import ClusterScenario
from coterie_conformance.scenarios.groups.consumer_scenario import ConsumerScenario
from coterie_conformance.scenarios.groups.scenario import Run, Scenario, ScenarioRun, parse_scenarios, run_scenario
from coterie_conformance.scenarios.groups.share_group_scenario import ShareGroupScenario
from coterie_conformance.scenarios.groups.streams_scenario import StreamsScenario
from coterie_conformance.scenarios.members.consumer_member_scenario import (
    ConsumerMemberScenario,
    ShareMemberScenario,
)
from coterie_conformance.scenarios.members.member_scenario import MemberScenario
from coterie_conformance.scenarios.observer_scenario import ObserverScenario
from coterie_conformance.scenarios.producer_scenario import ProducerScenario
from coterie_conformance.scenarios.rocketmq_scenario import RocketMQScenario
from coterie_conformance.scenarios.share.share_scenario import ShareScenario
from coterie_conformance.scenarios.transactional_scenario import TransactionalScenario
from coterie_conformance.scenarios.zookeeper_scenario import ZooKeeperScenario

SPEC = Path(__file__).parent / "spec"
WORLDS: dict[str, Callable[[], Run]] = {
    "spec": ScenarioRun,
    "assignors": AssignorScenario,
    "authorizer": AuthorizerScenario,
    "cluster": ClusterScenario,
    "consumer": ConsumerScenario,
    "consumer_member": ConsumerMemberScenario,
    "member": MemberScenario,
    "observe": ObserverScenario,
    "producer": ProducerScenario,
    "share_member": ShareMemberScenario,
    "transactional_producer": TransactionalScenario,
    "zookeeper": ZooKeeperScenario,
    "rocketmq": RocketMQScenario,
    "share": ShareScenario,
    "share_group": ShareGroupScenario,
    "streams": StreamsScenario,
}


@functools.cache
def scenarios_of(path: Path) -> list[Scenario]:
    return parse_scenarios(path.read_text())


FILES = sorted(SPEC.rglob("*.txt"))
CASES = [(path, at) for path in FILES for at in range(len(scenarios_of(path)))]


def _id(case: tuple[Path, int]) -> str:
    path, at = case
    return f"{path.stem}:{scenarios_of(path)[at].names[0]}"


@pytest.mark.parametrize("case", CASES, ids=_id)
def test_scenario(case: tuple[Path, int], request: pytest.FixtureRequest) -> None:
    path, at = case
    scenario = scenarios_of(path)[at]
    came = run_scenario(scenario, WORLDS[path.parent.name])
    if request.config.getoption("--rewrite"):
        _rewrite(path, scenario.names, came)
        return
    assert came == [line.rstrip() for line in scenario.lines]


def _rewrite(path: Path, names: list[str], lines: list[str]) -> None:
    text = path.read_text()
    head, *parts = text.split("\n== ")
    wanted = " ".join(names)
    parts = [
        wanted + "\n" + "\n".join(lines)
        if part.split("\n", 1)[0].replace(",", " ").split() == names
        else part.rstrip("\n")
        for part in parts
    ]
    parts = [part if part.endswith("\n") else part + "\n" for part in parts]
    path.write_text("\n== ".join([head, *parts]).rstrip("\n") + "\n")


def test_every_scenario_has_steps_and_a_trace() -> None:
    for path in FILES:
        for scenario in scenarios_of(path):
            assert list(scenario.steps()), f"{path.name}: {scenario.names} does nothing"
            assert any(line.startswith(" ") for line in scenario.lines), (
                f"{path.name}: {scenario.names} expects nothing"
            )


@pytest.mark.parametrize(("room", "table"), [("member", LEGAL_SUCCESSORS), ("consumer_member", CONSUMER_SUCCESSORS)])
def test_the_scenarios_of_a_member_take_every_transition(room: str, table: Mapping[Enum, Collection[Enum]]) -> None:
    """Each transition of the table of stages stands in some trace, and the traces are compared above."""
    taken: set[tuple[str, str]] = set()
    for path in (SPEC / room).glob("*.txt"):
        for line in path.read_text().splitlines():
            stages = re.findall(r"\b[A-Z_]+\b", line) if line.startswith(" ") and " -> " in line else []
            taken |= set(pairwise(stages))
    assert taken == {(before.name, after.name) for before, afters in table.items() for after in afters}
