"""What the console shows of a cluster's groups: an interface, which an observer's feed and a broker's own have."""

from __future__ import annotations

from typing import Any, Protocol

from coterie.text.phrase import Phrase
from coterie.web.group_memory import GroupMemory


class GroupFeed(Protocol):
    """Keeps ``memory`` current while it runs. ``client``: settings of clients of the cluster. ``trouble``:
    what it cannot reach at present, None where nothing is missing."""

    memory: GroupMemory
    client: dict[str, Any]
    trouble: Phrase | None

    async def explain(self, group: str) -> dict[str, Any] | None:
        """The document of `groups why --json`; None where there is no such group. Raises KafkaError."""
        ...

    def figures(self) -> dict[str, Any] | None:
        """Of a broker, where the console is in its process: `connections`, `memory_bytes`, `appended` (records since ever) and
        `clients`, each with `software`, `client_id` and `connections`."""
        ...
