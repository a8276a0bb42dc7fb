"""The table of the control API's operations, and its description."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from coterie.testing import ErrorCode, LocalBroker
from coterie.testing.control.operations import LEFT_OUT, OPERATIONS, ControlledBroker, document
from coterie.testing.control.server import KeptRules
from coterie.testing.control.values import FORMS, LAGS, VALUES
from coterie.testing.faults import FaultRule


def test_each_public_method_is_an_operation_or_left_out_with_a_reason() -> None:
    public = {n for n, _ in inspect.getmembers(LocalBroker, inspect.isfunction) if not n.startswith("_")}
    assert public - {one.method for one in OPERATIONS.values()} == LEFT_OUT.keys()
    assert all(LEFT_OUT.values())


def test_each_operation_says_what_it_does() -> None:
    assert [name for name, one in OPERATIONS.items() if not one.text] == []


def test_the_description_names_each_operation_and_its_arguments() -> None:
    paths = document("1")["paths"]
    assert [*paths] == [f"/v1/{name}" for name in OPERATIONS]
    fail = paths["/v1/fail"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert fail["required"] == ["api", "code"]
    assert "NOT_COORDINATOR" in fail["properties"]["code"]["enum"]
    assert "JoinGroup" in fail["properties"]["api"]["enum"]
    assert fail["properties"]["times"] == {"type": "integer", "default": 1}


PASSED_ON: list[tuple[str, object]] = [
    ("str", "ä"),
    ("bytes", b"\xff\x00"),
    ("Mapping[str, str]", {"a": "b"}),
    ("set[int]", {1, 3}),
    ("Mapping[tuple[str, int], int]", {("t", 0): 3, ("t", 1): 0}),
    ("ErrorCode | str", "NOT_COORDINATOR"),
]


@pytest.mark.parametrize(("annotation", "value"), PASSED_ON)
def test_a_value_is_the_same_on_the_other_side(annotation: str, value: object) -> None:
    form, rules = FORMS[annotation], KeptRules()
    assert form.read(form.write(value, rules), rules) == value


def test_a_code_is_passed_by_its_name() -> None:
    assert FORMS["ErrorCode | str"].write(ErrorCode.NOT_COORDINATOR, KeptRules()) == "NOT_COORDINATOR"


def test_a_rule_keeps_its_number() -> None:
    rules, form = KeptRules(), FORMS["FaultRule"]
    one, other = FaultRule("Fetch", None, None, 1), FaultRule("Fetch", None, None, 1)
    numbers = [form.write(rule, rules)["rule"] for rule in (one, other, one)]
    assert numbers == [1, 2, 1]
    assert form.read({"rule": 2}, rules) is other


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"topic": "t", "values": []}, "values must be a list of at least one"),
    ({"topic": "t", "values": "a"}, "values must be a list of at least one"),
    ({"topic": "t", "values": [1]}, 'bytes are a text, or {"base64": "..."}'),
    ({"topic": "t", "values": [{"base64": "?"}]}, "'?' is not base64"),
    ({"topic": "t"}, "produce needs values"),
    ({"topic": "t", "values": ["a"], "kay": "k"}, "produce takes topic, values, key, partition, not kay"),
]


@pytest.mark.parametrize(("arguments", "sentence"), WRONG, ids=[sentence for _, sentence in WRONG])
def test_wrong_arguments_are_refused(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        OPERATIONS["produce"].run(ControlledBroker(), arguments, KeptRules())
    assert str(raised.value) == sentence


def test_lags_are_rows() -> None:
    rows = LAGS.write({("t", 1): 2}, KeptRules())
    assert rows == [{"topic": "t", "partition": 1, "lag": 2}]
    assert LAGS.schema["items"]["required"] == ["topic", "partition", "lag"]
    assert VALUES.schema["minItems"] == 1
