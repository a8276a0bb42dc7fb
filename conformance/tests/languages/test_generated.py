"""What is generated of the clients in other languages is what is committed, and covers every operation."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.testing.control.operations import OPERATIONS
from coterie_conformance.languages.generated import sources
from coterie_conformance.languages.shapes import calls, camel, kind_of, pascal

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("path", sorted(sources()))
def test_it_is_committed_as_it_is_generated(path: str) -> None:
    """`python -m coterie_conformance.languages` writes it."""
    assert (ROOT / path).read_text() == sources()[path]


def test_each_operation_is_in_each_language() -> None:
    assert [call.name for call in calls()] == [*OPERATIONS]
    for path, text in sources().items():
        missing = [name for name in OPERATIONS if f'"{name}"' not in text]
        assert missing == [], path


def test_what_cannot_be_told_from_zero_is_nullable() -> None:
    nullable = {(c.name, one.name) for c in calls() for one in c.optional if one.is_nullable}
    assert nullable == {("produce", "partition"), ("until_lag", "at_most"), ("until_stable", "members")}


def test_names() -> None:
    assert (camel("create_topic"), pascal("create_topic")) == ("createTopic", "CreateTopic")
    assert kind_of({"type": "array", "items": {"type": "integer"}}) == "ids"
