"""Every argument of every public method of LocalBroker and LocalZooKeeper is checked at the call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from coterie.testing import ErrorCode, LocalBroker, LocalProxy, allow
from coterie.testing.argument_checks import CHECKS
from coterie.testing.faults import FaultRule
from coterie.testing.local_zookeeper import LocalZooKeeper


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as running:
        running.create_topic("t")
        yield running


# By parameter a value that fits, and others that do not.
VALUES: dict[str, tuple[Any, list[Any]]] = {
    "acls": ([allow("READ", topic="t")], ["READ", 7, ["READ"], [None]]),
    **dict.fromkeys(
        (
            "client_id",
            "group",
            "member",
            "mechanism",
            "name",
            "principal",
            "topic",
            "transactional_id",
            "upstream",
            "user",
        ),
        ("t", [7, b"t", ["t"]]),
    ),
    **dict.fromkeys(
        ("at_least", "at_most", "broker_id", "count", "members", "ms", "partition", "times"), (1, ["1", 1.5, True, -1])
    ),
    "operation": ("READ", [7, None, "EAT"]),
    "api": ("JoinGroup", [7, None, "joingroup"]),
    "brokers": (1, ["3", 0, True]),
    "code": ("NOT_COORDINATOR", [16, None, "NOT_COORDINATR", "not coordinator", TimeoutError]),
    "configs": ({}, ["cleanup.policy=compact", {"retention.ms": 5}, {1: "x"}]),
    "folder": (Path("x"), [None, 7]),
    "key": (b"k", ["k", 7]),
    "listen": ("127.0.0.1:0", [7, "nowhere", "127.0.0.1"]),
    "offsets": ({("t", 0): 1}, [[("t", 0, 1)], {"t": 1}, {("t", 0): "1"}, {("t", 0): -1}]),
    "outlives": (False, [1, "no"]),
    "partitions": (1, ["1", 1.5, None]),
    "port": (0, ["9092", 70_000, -1]),
    "racks": (["a"], ["a", 7, [7]]),
    "rule": (FaultRule("Fetch", None, None, 1), ["Fetch", None]),
    "sasl": ({"alice": "secret"}, ["alice", {"alice": 1}, ["alice"]]),
    "settings": ({}, [["num.partitions"], "num.partitions=3", {7: 3}]),
    "tick_ms": (500, ["500", 0]),
    "tls": (False, [1, "no"]),
    "timeout_s": (0, ["1", None, -1, float("nan")]),
    "to": ([1], [1, "1", [], ["1"]]),
    "values": ((b"v",), [("v",), (7,)]),
}


def methods_of(kind: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    yield kind.__name__, kind
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith("_"):
            yield name, method


WRONG = [
    pytest.param(method, parameter, value, id=f"{kind.__name__}-{name}-{parameter}-{value!r}")
    for kind in (LocalBroker, LocalProxy, LocalZooKeeper)
    for name, method in methods_of(kind)
    for parameter in inspect.signature(method).parameters
    if parameter != "self"
    for value in VALUES[parameter][1]
    if value is not None or inspect.signature(method).parameters[parameter].default is not None
]


@pytest.mark.parametrize(("method", "parameter", "value"), WRONG)
def test_a_wrong_argument_is_refused_at_the_call(
    broker: LocalBroker, method: Callable[..., Any], parameter: str, value: Any
) -> None:
    parameters = inspect.signature(method).parameters
    given = {name: VALUES[name][0] for name in parameters if name != "self"} | {parameter: value}
    values = given.pop("values", ())
    positional = [broker] if "self" in parameters else []
    positional += [given.pop("topic"), *values] if "values" in parameters else []
    rules = list(broker.faults.rules)
    with pytest.raises((TypeError, ValueError)) as raised:
        method(*positional, **given)
    assert "there is one broker here" not in str(raised.value), "not checked before it is looked whether it can be done"
    assert broker.faults.rules == rules


def test_each_parameter_has_a_check() -> None:
    """But `self`: one of a new name needs a row in `CHECKS`, and its values here."""
    parameters = {
        parameter
        for kind in (LocalBroker, LocalProxy, LocalZooKeeper)
        for _, method in methods_of(kind)
        for parameter in inspect.signature(method).parameters
    }
    assert parameters - {"self"} == CHECKS.keys() == VALUES.keys()


def test_a_code_may_be_given_by_its_name(broker: LocalBroker) -> None:
    rule = broker.fail("JoinGroup", "NOT_COORDINATOR", group="nobody")
    assert rule.code is ErrorCode.NOT_COORDINATOR
    broker.faults.rules.remove(rule)
    with pytest.raises(
        ValueError, match=r"^Kafka has no error code 'not_coordinator'; did you mean NOT_COORDINATOR\?$"
    ):
        broker.fail("JoinGroup", "not_coordinator")
    with pytest.raises(TypeError, match=r"^code must be an ErrorCode or its name, not 16$"):
        broker.fail("JoinGroup", 16)  # type: ignore[arg-type]
