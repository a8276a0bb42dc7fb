"""No replica ever goes through a transition that Kafka's ReplicaStateMachine calls invalid: by the names of
ReplicaStateMachineTest, from each state by everything that may happen in it, and in every scenario of tests/spec/cluster.
The writer of ISRs, and sessions with ZooKeeper that end."""

from __future__ import annotations

import re
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from coterie.controller import nodes
from coterie.controller.isr_writer import IsrRefused, IsrWriter
from coterie.replication.states import PartitionState, WriteIsr
from coterie.zookeeper import paths
from coterie.zookeeper.operations import ConnectionLost, NodeExists, Write
from coterie_conformance.scenarios.cluster_scenario import ClusterScenario
from coterie_conformance.scenarios.groups.scenario import ScenarioError, parse_scenarios
from tests.controller.observed_states import NONEXISTENT, PREVIOUS, ObservedReplicas, Replica, Transition

REPLICA: Replica = ("t-0", 2)
START = ("broker 1 2 3", "controller 1")
LOST = "roles 2 t-0=KAFKA_STORAGE_ERROR"
ONLINE_STEPS = (*START, "topic t 0=2,3")
# what brings the replica into each state
STEPS: dict[str, list[tuple[str, ...]]] = {
    "NonexistentReplica": [START],
    "NewReplica": [("broker 1 3", "controller 1", "topic t 0=2")],
    "OnlineReplica": [ONLINE_STEPS],
    "OfflineReplica": [
        (*ONLINE_STEPS, "kill 2"),
        (*ONLINE_STEPS, "isr t-0 3", "shutdown 2"),
        (*ONLINE_STEPS, LOST),
    ],
    "ReplicaDeletionStarted": [(*ONLINE_STEPS, "delete t")],
    "ReplicaDeletionSuccessful": [(*ONLINE_STEPS, "delete t", "answer 2")],
    "ReplicaDeletionIneligible": [
        (*ONLINE_STEPS, "delete t", "answer 2 KAFKA_STORAGE_ERROR"),
        (*ONLINE_STEPS, "kill 2", "delete t"),
        (*ONLINE_STEPS, LOST, "delete t"),
        (*ONLINE_STEPS, "delete t", LOST),
    ],
}
STIMULI = (
    "answer 2",
    "answer 2 kept",
    "answer 2 KAFKA_STORAGE_ERROR",
    "answer 3",
    "broker 2",
    "kill 2",
    "bounce 2",
    "shutdown 2",
    "delete t",
    "topic t 0=2,3",
    "topic t 1=2",
    "elect preferred t-0",
    "elect unclean t-0",
    "reassign t-0 3,1",
    "reassign t-0 3",
    "cancel t-0",
    "isr t-0 1,2,3",
    "isr t-0 3",
    "roles 2",
    LOST,
    "log-dir-event 2",
)
NAMES = re.findall(
    r"\w+",
    """
testInvalidNonexistentReplicaToOnlineReplicaTransition
testInvalidNonexistentReplicaToOfflineReplicaTransition
testInvalidNonexistentReplicaToReplicaDeletionStartedTransition
testInvalidNonexistentReplicaToReplicaDeletionIneligibleTransition
testInvalidNonexistentReplicaToReplicaDeletionSuccessfulTransition
testInvalidNewReplicaToNonexistentReplicaTransition
testInvalidNewReplicaToReplicaDeletionStartedTransition
testInvalidNewReplicaToReplicaDeletionIneligibleTransition
testInvalidNewReplicaToReplicaDeletionSuccessfulTransition
testInvalidOnlineReplicaToNonexistentReplicaTransition
testInvalidOnlineReplicaToNewReplicaTransition
testInvalidOnlineReplicaToReplicaDeletionStartedTransition
testInvalidOnlineReplicaToReplicaDeletionIneligibleTransition
testInvalidOnlineReplicaToReplicaDeletionSuccessfulTransition
testInvalidOfflineReplicaToNonexistentReplicaTransition
testInvalidOfflineReplicaToNewReplicaTransition
testInvalidOfflineReplicaToReplicaDeletionSuccessfulTransition
testInvalidReplicaDeletionStartedToNonexistentReplicaTransition
testInvalidReplicaDeletionStartedToNewReplicaTransition
testInvalidReplicaDeletionStartedToOnlineReplicaTransition
testInvalidReplicaDeletionStartedToOfflineReplicaTransition
testInvalidReplicaDeletionSuccessfulToNewReplicaTransition
testInvalidReplicaDeletionSuccessfulToOnlineReplicaTransition
testInvalidReplicaDeletionSuccessfulToOfflineReplicaTransition
testInvalidReplicaDeletionSuccessfulToReplicaDeletionStartedTransition
testInvalidReplicaDeletionSuccessfulToReplicaDeletionIneligibleTransition
testInvalidReplicaDeletionIneligibleToNonexistentReplicaTransition
testInvalidReplicaDeletionIneligibleToNewReplicaTransition
testInvalidReplicaDeletionIneligibleToReplicaDeletionStartedTransition
testInvalidReplicaDeletionIneligibleToReplicaDeletionSuccessfulTransition
""",
)
INVALID = [re.fullmatch(r"testInvalid(\w+?)To(\w+)Transition", name) for name in NAMES]
SCENARIOS = [
    (path.stem, scenario)
    for path in sorted((Path(__file__).parents[1] / "spec/cluster").glob("*.txt"))
    for scenario in parse_scenarios(path.read_text())
]
STATE = PartitionState(1, 0, (1,), 1, 3, (1, 2))


def play(steps: tuple[str, ...]) -> tuple[ObservedReplicas, list[str]]:
    """With the scenario's lines; a step that cannot be taken is left out."""
    world, observed, lines = ClusterScenario(), ObservedReplicas(), list[str]()
    for step in steps:
        is_start = step == "broker 2"
        if is_start == (2 in observed.live) and step in ("broker 2", "kill 2", "bounce 2"):
            continue
        try:
            trace = [f"    {line}" for line in world.step(step)]
        except (ScenarioError, NodeExists):  # the ISR of a partition without a state; a topic that is deleted twice
            continue
        for line in (step, *trace):
            lines.append(line)
            observed.line(line)
    return observed, lines


@cache
def seen() -> dict[Transition, list[str]]:
    """Every transition of the replica, with the lines that show it first."""
    transitions: dict[Transition, list[str]] = {}
    for state, starts in STEPS.items():
        for start in starts:
            observed, lines = play(start)
            assert observed.states.get(REPLICA, NONEXISTENT) == state, lines
            for stimuli in product(STIMULI, repeat=2):
                observed, lines = play((*start, *stimuli))
                for _, transition in observed.transitions:
                    transitions.setdefault(transition, lines)
    return transitions


@pytest.mark.parametrize("name", NAMES)
def test_an_invalid_transition_does_not_happen(name: str) -> None:
    match = INVALID[NAMES.index(name)]
    assert match is not None
    before, after = match.groups()
    assert before not in PREVIOUS[after]
    assert (before, after) not in seen(), "\n".join(seen()[before, after])


def test_the_names_are_all_invalid_transitions_but_those_to_the_same_state() -> None:
    named = {match.groups() for match in INVALID if match is not None}
    pairs = {(before, after) for after in PREVIOUS for before in PREVIOUS if before not in PREVIOUS[after]}
    assert {pair for pair in pairs if pair[0] != pair[1]} == named


def test_each_valid_transition_happens() -> None:
    """Else the test above would prove nothing of it."""
    valid = {(before, after) for after, befores in PREVIOUS.items() for before in befores}
    assert valid - set(seen()) == set()


@pytest.mark.parametrize("index", range(len(SCENARIOS)), ids=lambda i: f"{SCENARIOS[i][0]}:{SCENARIOS[i][1].names[0]}")
def test_no_scenario_has_an_invalid_transition(index: int) -> None:
    observed = ObservedReplicas()
    for line in SCENARIOS[index][1].lines:
        observed.line(line)
    invalid = [one for one in observed.transitions if one[1][0] not in PREVIOUS[one[1][1]]]
    assert invalid == []


def of(topic: str) -> tuple[WriteIsr, Write]:
    """A leader's change, and the write of it."""
    path = paths.partition_state(topic, 0)
    return WriteIsr((topic, 0), STATE), Write(path, nodes.state(STATE), STATE.version)


def test_a_write_that_waits_for_a_connection_ends_with_its_session() -> None:
    """The topic was deleted meanwhile, and another of its name was created: the version was right, the state the old topic's.
    The write that waits behind it is not made either."""
    writer, (first, first_write), (second, _), (third, third_write) = IsrWriter(0), of("t"), of("u"), of("v")
    assert writer.next(0) is None
    writer.write(first)
    writer.write(second)
    assert writer.next(0) == first_write
    writer.suspended()
    writer.refuse(ConnectionLost())
    assert writer.next(1) is None
    writer.expired()
    writer.connected()
    assert writer.next(2) == IsrRefused(first)
    writer.respond()
    assert writer.next(3) is None
    writer.registered()
    assert writer.next(4) is None
    writer.write(third)
    assert writer.next(5) == third_write


def test_a_write_that_waits_for_a_connection_goes_on_in_its_session() -> None:
    writer, (first, first_write) = IsrWriter(0), of("t")
    assert writer.next(0) is None
    writer.write(first)
    assert writer.next(0) == first_write
    writer.suspended()
    writer.refuse(ConnectionLost())
    assert writer.next(1) is None
    writer.connected()
    assert writer.next(2) == first_write
