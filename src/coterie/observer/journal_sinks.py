"""Where an observer's lines go: a file in a folder, or a topic. Commands read both as they read a broker's journal."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Protocol

from coterie.client import Producer
from coterie.coordinator.journal.line import JournalLine
from coterie.observer.journal_folders import JOURNAL_FILE


class JournalSink(Protocol):
    """Takes lines until it is closed."""

    def write(self, line: JournalLine) -> None: ...

    async def __aenter__(self) -> JournalSink: ...

    async def __aexit__(self, *_: object) -> None: ...


class FolderJournal:
    """Appends to the file in a folder; each line is in the file once it is written. Raises OSError."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = open(folder / JOURNAL_FILE, "a", encoding="utf-8", buffering=1)  # noqa: SIM115

    async def __aenter__(self) -> FolderJournal:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._file.close()

    def write(self, line: JournalLine) -> None:
        """Raises OSError."""
        self._file.write(line.to_json() + "\n")


class TopicJournal:
    """Sends to a topic, with the group as the key, in the order of the lines; a send that fails ends the observation."""

    def __init__(self, topic: str, client: dict[str, Any]) -> None:
        self._topic, self._producer = topic, Producer(client)
        self._lines: asyncio.Queue[JournalLine] = asyncio.Queue()
        self._sending: asyncio.Task[None] | None = None

    async def __aenter__(self) -> TopicJournal:
        self._sending = asyncio.create_task(self._send())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._sending is not None
        self._sending.cancel()
        try:
            while not self._lines.empty():
                await self._send_one(self._lines.get_nowait())
        finally:
            await self._producer.close()

    def write(self, line: JournalLine) -> None:
        """Raises what an earlier send has raised: KafkaError."""
        if self._sending is not None and self._sending.done():
            self._sending.result()
        self._lines.put_nowait(line)

    async def _send(self) -> None:
        while True:
            await self._send_one(await self._lines.get())

    async def _send_one(self, line: JournalLine) -> None:
        await self._producer.send(self._topic, line.to_json().encode(), key=line.group.encode())
