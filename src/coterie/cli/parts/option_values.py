"""The values of options: numbers and times, with plain names in place of click's "integer range" and "float range", and names
of topics and groups, which a shell completes from the broker that the command line names so far."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from coterie.client import Admin

COMPLETES_MS = "1000"  # longer than that nobody waits for a tab
DEFAULT_SERVER = "127.0.0.1:9092"


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


def complete_topics(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The topics that begin so; internal ones where the text begins with an underscore."""

    async def names(admin: Admin) -> list[str]:
        topics = await admin.describe_topics()
        return [name for name, topic in topics.items() if incomplete.startswith("_") or not topic.is_internal]

    return _names(ctx, param, incomplete, names)


def complete_groups(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The groups that begin so."""

    async def names(admin: Admin) -> list[str]:
        return [group.group_id for group in await admin.list_groups(errors={})]

    return _names(ctx, param, incomplete, names)


def _names(
    ctx: click.Context, param: click.Parameter, incomplete: str, names_of: Callable[[Admin], Awaitable[list[str]]]
) -> list[str]:
    """None where the broker does not respond at once, without a word: the shell shows what is printed here."""
    from coterie.client import Admin
    from coterie.client.errors import ConfigError, KafkaError

    limits = {"default.api.timeout.ms": COMPLETES_MS, "request.timeout.ms": COMPLETES_MS}
    given = {"bootstrap.servers": DEFAULT_SERVER} | (ctx.params.get("client") or {}) | limits
    taken = ctx.params.get(param.name or "") or ()

    async def names() -> list[str]:
        async with asyncio.timeout(int(COMPLETES_MS) / 1000), Admin(given) as admin:
            return await names_of(admin)

    try:
        listed = asyncio.run(names())
    except (KafkaError, ConfigError, TimeoutError, OSError):
        return []
    return sorted(name for name in listed if name.startswith(incomplete) and name not in taken)
