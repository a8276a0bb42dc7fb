"""Brokers' log files while they grow, over their rotation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coterie.observer.logs.log_layouts import logged_line
from coterie.observer.logs.server_log import MENTION, LogStories, coordinator_line

PIECE_BYTES = 1 << 20


@dataclass(slots=True)
class _Position:
    inode: int
    offset: int
    rest: bytes = b""  # of a line whose end is not written yet


class LogFollower:
    """Plain files in UTF-8. ``unreadable`` has a sentence for each that the last call could not read."""

    def __init__(self, paths: Iterable[Path], *, from_beginning: bool) -> None:
        self._paths, self._from_beginning = list(paths), from_beginning
        self._positions: dict[Path, _Position] = {}
        self._stories = LogStories()
        self.unreadable: list[str] = []

    def read(self) -> list[dict[str, Any]]:
        """The rebalances that ended in the lines since the last call, as rows of `server_log`."""
        self.unreadable = []
        rows = []
        for path in self._paths:
            try:
                lines = self._new_lines(path)
            except OSError as error:
                self.unreadable.append(f"{path} cannot be read: {error.strerror}; its lines are missing")
                continue
            for line in lines:
                read = coordinator_line(logged_line(line, MENTION))
                row = None if read is None else self._stories.read(read[2])
                rows += [] if row is None else [row]
        return rows

    def _new_lines(self, path: Path) -> list[str]:
        inode, size = path.stat().st_ino, path.stat().st_size
        position = self._positions.get(path)
        if position is None:
            position = self._positions[path] = _Position(inode, 0 if self._from_beginning else size)
        if position.inode != inode or size < position.offset:  # rotated
            position = self._positions[path] = _Position(inode, 0)
        with open(path, "rb") as file:
            file.seek(position.offset)
            data = file.read(PIECE_BYTES)
        position.offset += len(data)
        *lines, position.rest = (position.rest + data).split(b"\n")
        return [line.decode(errors="replace") for line in lines]
