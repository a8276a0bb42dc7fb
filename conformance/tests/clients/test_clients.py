"""The machinery of `./run conformance --part clients`, with a second coterie in Apache Kafka's place."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from coterie.testing import LocalBroker
from coterie_conformance.clients.programs import (
    ENDED,
    HERE,
    NAMES,
    PROGRAMS,
    ProgramDifference,
    compare,
    environment,
    is_of_several_brokers,
    is_whole,
    run_script,
    script_words,
)
from coterie_conformance.servers.kafka import VERSIONS, CannotRun

AIOKAFKA = [sys.executable, "-m", "coterie_conformance.clients.aiokafka_client"]


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
    for own in ("cluster_id", "clusterId", "ClusterID"):
        assert differing({own: "a"}, {own: "b"}) == []
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


def test_a_script_has_the_topic_settings_of_its_kafka() -> None:
    older, newer = script_words("3.9.1")["settings"], script_words("4.3.0")["settings"]
    assert {*older} - {*newer} == {
        "message.downconversion.enable",
        "message.format.version",
        "message.timestamp.difference.max.ms",
    }
    assert {*newer} < {*older}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_programs_files_and_versions_exist(program: Any) -> None:
    script = program.script if "." in program.script else f"{program.script}.py"
    assert all((HERE / name).is_file() for name in (script, *program.beside))
    assert {*program.versions} <= {*VERSIONS}


def test_without_node_or_with_an_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = next(p for p in PROGRAMS if p.name == "platformatic-kafka")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(CannotRun, match="apt-get install npm"):
        environment(program)
    for name, text in (("npm", "exit 1"), ("node", "echo v18.20.4")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    with pytest.raises(CannotRun, match=r"platformatic-kafka needs node 20\.19 or newer, .* v18\.20\.4"):
        environment(program)


def test_what_differs_because_there_are_several_brokers() -> None:
    """Which broker leads or has something, and nothing that a client reads or commits."""
    differ = [
        ("describe the topic", "/returned/0/partitions/1/isr_nodes/0"),
        ("describe the topic", "/returned/0/partitions/1/leader"),
        ("describe the cluster", "/returned/brokers"),
        ("log dirs", "/returned"),
    ]
    same = [("read to the end", "/returned/0/offset"), ("describe the group", "/returned/members/0"), ("commit", "")]
    assert all(is_of_several_brokers(ProgramDifference(step, path, "1", "2")) for step, path in differ)
    assert not any(is_of_several_brokers(ProgramDifference(step, path, "1", "2")) for step, path in same)
