"""The numbers of options: what any text becomes."""

from __future__ import annotations

import math
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.cli.parts.option_values import IntegerRange, NumberRange


@given(st.text() | st.integers().map(str) | st.floats().map(str))
def test_a_text_is_a_number_within_the_range_or_refused(text: str) -> None:
    kinds: list[tuple[Any, float, float]] = [(IntegerRange(-3, 1000), -3, 1000), (NumberRange(0.5, 1e9), 0.5, 1e9)]
    for kind, low, high in kinds:
        try:
            number = kind.convert(text, None, None)
        except click.BadParameter as error:
            message = error.message
        else:
            message = ""
            assert low <= number <= high
        assert "range." not in message


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "NaN", "1e999"])
def test_a_number_without_an_end_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="not a finite number"):
        NumberRange().convert(text, None, None)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_finite_number_is_taken_as_it_is(number: float) -> None:
    assert math.isclose(NumberRange().convert(repr(number), None, None), number)
