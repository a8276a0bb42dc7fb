"""`coterie.values`: what a value is at run time, and that the compiled edition freezes each."""

from __future__ import annotations

import ast
import dataclasses

import pytest

import compiled_modules
import compiled_text
from coterie.coordinator.state import Cause
from coterie.values import value

COMPILED = compiled_modules.module_files()


@value
class Pair:
    left: int
    right: list[int] = dataclasses.field(default_factory=list)


def test_a_value_has_slots_a_hash_and_is_equal_by_its_fields() -> None:
    assert Cause("joined", "m") == Cause("joined", "m") != Cause("left", "m")
    assert len({Cause("joined"), Cause("joined"), Cause("left")}) == 2
    assert Pair.__slots__ == ("left", "right")  # type: ignore[attr-defined]
    assert dataclasses.replace(Cause("joined"), member_id="m") == Cause("joined", "m")
    assert Pair(1) == Pair(1, [])
    with pytest.raises(AttributeError):
        Pair(1).middle = 2  # type: ignore[attr-defined]


def values_of(source: str) -> list[str]:
    classes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)]
    return [node.name for node in classes if any(ast.unparse(d) == "value" for d in node.decorator_list)]


@pytest.mark.parametrize("file", COMPILED)
def test_the_compiled_edition_has_frozen_dataclasses_in_the_place_of_values(file: str) -> None:
    source = (compiled_modules.SOURCE / file).read_text("utf-8")
    written = compiled_text.write_out(source)
    assert values_of(written) == []
    classes = {node.name: node for node in ast.walk(ast.parse(written)) if isinstance(node, ast.ClassDef)}
    for name in values_of(source):
        (decorator,) = map(ast.unparse, classes[name].decorator_list)
        assert decorator.startswith("dataclass(")
        assert "frozen=True, slots=True" in decorator


def test_every_module_with_values_is_compiled() -> None:
    """Elsewhere a frozen dataclass costs too little to matter."""
    others = [
        path
        for path in compiled_modules.SOURCE.rglob("*.py")
        if str(path.relative_to(compiled_modules.SOURCE)) not in COMPILED
    ]
    assert [path.name for path in others if values_of(path.read_text("utf-8"))] == []
