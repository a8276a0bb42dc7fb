"""Waiting for what must come true, with a bound and without sleeping for luck."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

PATIENCE_S = 20.0


async def until(done: Callable[[], Awaitable[bool]], what: str = "what the test waits for") -> None:
    """Asks until it is so; ``what`` is said when it never is."""
    deadline_s = asyncio.get_running_loop().time() + PATIENCE_S
    while not await done():
        assert asyncio.get_running_loop().time() < deadline_s, f"not within {PATIENCE_S:g} s: {what}"
        await asyncio.sleep(0.005)
