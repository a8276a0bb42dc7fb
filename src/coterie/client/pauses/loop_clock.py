"""The only places where a client sleeps on the event loop: for a pause of a policy, and until a machine's deadline.
What can be woken waits for an event instead. Spark's tasks, which have no loop, use `clock` alone."""

from __future__ import annotations

import asyncio
import contextlib

from coterie.client.pauses.clock import now_ms


async def pause(seconds: float) -> None:
    """Sleeps before another attempt."""
    await asyncio.sleep(seconds)


async def until_due(due_ms: float) -> None:
    """Until a machine's deadline, which no input can bring forward."""
    await asyncio.sleep(max(due_ms - now_ms(), 0) / 1000)


async def until_woken(woken: asyncio.Event, limit_s: float | None) -> None:
    """Until an input, or for so long; None: until an input. The event is clear then."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            await woken.wait()
    woken.clear()
