"""Reads server-sent events."""

from __future__ import annotations

import json
from typing import Any

import aiohttp


async def events(session: aiohttp.ClientSession, url: str, count: int) -> list[tuple[str, Any]]:
    """The first events of a stream."""
    seen: list[tuple[str, Any]] = []
    async with session.get(url, timeout=aiohttp.ClientTimeout(30), read_bufsize=2**24) as response:
        assert response.headers["Content-Type"].startswith("text/event-stream")
        name = ""
        async for raw in response.content:
            text = raw.decode().rstrip("\n")
            if text.startswith("event: "):
                name = text.removeprefix("event: ")
            elif text.startswith("data: "):
                seen.append((name, json.loads(text.removeprefix("data: "))))
                if len(seen) == count:
                    break
    return seen
