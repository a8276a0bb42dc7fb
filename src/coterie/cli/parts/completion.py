"""The names that a shell completes: topics and groups of the broker that the command line names so far.

A broker that does not respond at once has none, without a word: the shell shows what is printed here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from coterie.client import Admin

COMPLETES_MS = "1000"  # longer than that nobody waits for a tab
DEFAULT_SERVER = "127.0.0.1:9092"


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
