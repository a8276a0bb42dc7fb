"""The machinery of `./run conformance --part clients`, with a second coterie in Apache Kafka's place."""

from __future__ import annotations

import sys
from typing import Any

from coterie.conformance.clients.programs import ENDED, NAMES, compare, is_whole, run_script
from coterie.testing import LocalBroker

AIOKAFKA = [sys.executable, "-m", "coterie.conformance.clients.aiokafka_client"]


def test_a_client_returns_the_same_on_two_brokers_of_ours() -> None:
    runs = []
    for _ in range(2):
        with LocalBroker({"auto.create.topics.enable": "false"}) as broker:
            runs.append(run_script(AIOKAFKA, broker.bootstrap_servers))
    assert is_whole(runs[0]), runs[0][-1]
    assert not [d for d in compare("4.3.0", *runs) if not d.reason]
    by_name = {step["step"]: step for step in runs[0]}
    assert by_name["delete too many records"]["raised"] == "OffsetOutOfRangeError"
    assert len(by_name["consume as a group"]["returned"]) == 10


def differing(theirs: Any, ours: Any, version: str = "4.3.0") -> list[tuple[str, bool]]:
    """(path, whether it is accepted) of each difference of one step."""
    differences = compare(version, [{"step": "s", "returned": theirs}], [{"step": "s", "returned": ours}])
    return [(d.path, bool(d.reason)) for d in differences]


def test_what_is_compared() -> None:
    assert differing({"a": 1}, {"a": 1}) == []
    assert differing({"a": 1}, {"a": 2}) == [("/returned/a", False)]
    assert differing({"a": 1}, {}) == [("/returned/a", False)]
    assert differing([1, 2], [1]) == [("/returned", False)]
    assert differing([{"name": "b"}, {"name": "a", "x": 1}], [{"name": "a", "x": 1}, {"name": "b"}]) == []
    assert differing(["a", "__consumer_offsets"], ["a"]) == []
    for name in NAMES:
        assert differing([{name: "b"}, {name: "a"}], [{name: "a"}, {name: "b"}]) == []
    assert differing({"cluster_id": "a"}, {"cluster_id": "b"}) == []
    assert differing({"error_message": "a"}, {"error_message": "b"}) == [("/returned/error_message", True)]
    operations = {"authorized_operations": ["READ"]}, {"authorized_operations": []}
    assert differing(*operations) == [("/returned/authorized_operations", False)]
    assert differing(*operations, version="3.9.1") == [("/returned/authorized_operations", True)]


def test_a_step_that_raises_or_is_missing_is_a_difference() -> None:
    right = {"step": "s", "returned": None}
    assert len(compare("4.3.0", [right], [{"step": "s", "raised": "Error"}])) == 2
    assert compare("4.3.0", [right], []) != []
    assert compare("4.3.0", [], [right]) != []
    assert not is_whole([right, {"step": ENDED, "returned": [1, "Traceback"]}])
