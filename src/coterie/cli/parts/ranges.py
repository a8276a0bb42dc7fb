"""The numbers and times that options take, as people call them: click's own names are "integer range" and "float range"."""

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


class Duration(click.ParamType):  # type: ignore[type-arg]
    """``8s``, ``500ms``, ``2m``; a number without a unit is of seconds. In ms."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Raises BadParameter."""
        if isinstance(value, int):
            return value
        text = str(value).strip()
        units = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000}
        number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
        factor = units.get(text[len(number) :] or "s")
        if factor is None or not number.strip().replace(".", "", 1).isdecimal():
            self.fail(f"{text!r} is not a time such as 8s or 500ms.", param, ctx)
        return round(float(number) * factor)
