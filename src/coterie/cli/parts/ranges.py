"""The numbers that options take, as people call them: click's own names are "integer range" and "float range"."""

from __future__ import annotations

import math
from typing import Any

import click


class IntegerRange(click.IntRange):
    """A whole number from ``min`` to ``max``, either of them None for none."""

    name = "integer"


class NumberRange(click.FloatRange):
    """A number from ``min`` to ``max``; nan and inf, which compare with nothing or never end, are refused."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Raises BadParameter."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number
