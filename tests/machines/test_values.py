"""`coterie.machines.values`: what a value is at run time."""

from __future__ import annotations

import dataclasses

import pytest

from coterie.coordinator.state import Cause
from coterie.machines.values import value


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
