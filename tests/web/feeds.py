"""A feed that a test fills by hand, and a client of the console over it. Reads server-sent events."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

from coterie.coordinator.journal.line import JournalLine
from coterie.text.phrase import Phrase
from coterie.web.group_memory import GroupMemory
from coterie.web.live_rows import LiveRow
from coterie.web.server import ConsoleServer


class HandFeed:
    """A `GroupFeed` with fixed explanations."""

    def __init__(self) -> None:
        self.memory = GroupMemory()
        self.client: dict[str, Any] = {"bootstrap.servers": "127.0.0.1:1"}
        self.trouble: Phrase | None = None
        self.explanations: dict[str, dict[str, Any]] = {}

    def figures(self) -> dict[str, Any] | None:
        return {
            "connections": 2,
            "memory_bytes": 40_000_000,
            "appended": 1_000,
            "clients": [{"software": "<b>lib</b> 1.0", "client_id": "anna", "connections": 2}],
        }

    async def explain(self, group: str) -> dict[str, Any] | None:
        return self.explanations.get(group)


def row(group: str, **changes: Any) -> LiveRow:
    made: LiveRow = {
        "group": group,
        "kind": "classic",
        "state": "Stable",
        "members": 2,
        "generation": 3,
        "lag": 5,
        "course": [1, 5],
        "since_ms": 1_000,
        "rebalance_ms": 1_000,
        "causes": [{"kind": "member_joined", "client_id": "anna"}],
        "more_causes": 0,
        "marks": [],
    }
    return made | changes  # type: ignore[return-value]


def line(group: str, event: str = "stable", time_ms: int = 1_000, **fields: Any) -> JournalLine:
    made = JournalLine(time_ms, group, 3, event, "CompletingRebalance", "Stable", **fields)
    made.causes = made.causes or [{"kind": "member_joined", "client_id": "anna"}]
    return made


@contextlib.asynccontextmanager
async def served(feed: HandFeed, **settings: Any) -> AsyncIterator[str]:
    """The console's URL."""
    async with ConsoleServer(feed, **settings) as server:
        host, port = await server.start("127.0.0.1", 0)
        yield f"http://{host}:{port}"


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
