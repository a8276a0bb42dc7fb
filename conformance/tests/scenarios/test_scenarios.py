"""The language of the producer's scenarios: what is no step is refused, and its checks can fail. The language of the
assignors' scenarios: what is no step is refused, and its checks can fail."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from coterie.assignors import ASSIGNORS, AssignableTopics, Assignment, AssignorSpec, RebalanceProtocol, Subscriber
from coterie.producing.partition_queue import PartitionQueue, PartitionSequence
from coterie_conformance.scenarios.assignor_scenario import AssignorScenario
from coterie_conformance.scenarios.groups.scenario import ScenarioError
from coterie_conformance.scenarios.producer_scenario import ProducerScenario
from coterie_conformance.scenarios.transactional_scenario import TransactionalScenario

BOTH = frozenset(RebalanceProtocol)


def run(scenario: ProducerScenario, *steps: str) -> list[str]:
    """The trace of the last step."""
    trace: list[str] = []
    for line in steps:
        trace = scenario.step(line)
    return trace


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        (["sing"], "'sing' is not a step"),
        (["config patience=3"], "there is no setting patience"),
        (["response 1 NONE offset=0"], "there is no request 1 without a response"),
    ],
)
def test_what_is_no_step_is_refused(steps: list[str], text: str) -> None:
    with pytest.raises(ScenarioError, match=text):
        run(ProducerScenario(), *steps)


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        (["answer"], "there is no request of the transaction"),
        (["init", "answer"], "a look-up is answered by `coordinator`"),
        (["init", "coordinator 1", "coordinator 1"], "no coordinator is looked up"),
    ],
)
def test_what_is_no_step_of_a_transaction_is_refused(steps: list[str], text: str) -> None:
    with pytest.raises(ScenarioError, match=text):
        run(TransactionalScenario(), *steps)


def test_a_number_of_two_records_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    take = PartitionSequence.take
    monkeypatch.setattr(PartitionSequence, "take", lambda self, count: (0, take(self, count)[1]))
    steps = "producer-id 7 0", "leaders t-0:1", "append t-0 a", "response 1 NONE offset=0", "append t-0 b"
    with pytest.raises(AssertionError, match=r"7/0: 0 is \['a'\] and b"):
        run(ProducerScenario(), *steps)


def test_a_batch_that_is_sent_too_early_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without numbers a batch may not go out while another one of its partition is in flight."""
    monkeypatch.setattr(PartitionQueue, "next_to_send", lambda self, now_ms, most_in_flight: self.candidate())
    scenario = ProducerScenario()
    for line in ("config is_idempotent=no", "leaders t-0:1", "append t-0 a"):
        scenario.step(line)
    assert scenario.step("append t-0 b") == ["Produce 2 to node 1: t-0 [b]"], (
        "the traces of tests/spec/producer have none"
    )


def run_assignor(*steps: str) -> None:
    scenario = AssignorScenario()
    for line in steps:
        scenario.step(line)


@pytest.mark.parametrize(
    ("step", "text"), [("sing", "'sing' is not a step"), ("assign fairly", "there is no assignor fairly")]
)
def test_what_is_no_step_of_assignors_is_refused(step: str, text: str) -> None:
    with pytest.raises(ScenarioError, match=text):
        run_assignor(step)


@pytest.mark.parametrize(
    ("shares", "text"),
    [
        ({"a": {"t": [0, 1]}}, "every member has a share"),
        ({"a": {"t": [0, 1]}, "b": {"t": [1]}}, "has two owners"),
        ({"a": {"t": [0]}, "b": {}}, "have no owner"),
        ({"a": {"t": [0, 1]}, "b": {"u": [0]}}, "b does not subscribe to"),
    ],
)
def test_a_wrong_assignment_is_seen(shares: Assignment, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ASSIGNORS, "range", AssignorSpec(lambda topics, members: shares))
    with pytest.raises(AssertionError, match=text):
        run_assignor("topics t:2 u:1", "member a t", "member b t", "assign range")


def test_a_move_in_one_step_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def assign(topics: AssignableTopics, members: Sequence[Subscriber]) -> Assignment:
        return {"a": {"t": [1]}, "b": {"t": [0]}}

    monkeypatch.setitem(ASSIGNORS, "cooperative-sticky", AssignorSpec(assign, BOTH))
    steps = "topics t:2", "member a t owned=t-0,t-1 generation=1", "member b t generation=1"
    with pytest.raises(AssertionError, match="moves in one step"):
        run_assignor(*steps, "assign cooperative-sticky")
