"""The lines of the journal that the console has seen, by group, as JSON; bounded. No clock, no IO."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable

from coterie.coordinator.journal.line import JournalLine

LINES_OF_A_GROUP, LINES_KEPT = 5_000, 200_000


class JournalMemory:
    """Keeps a group's last lines; once there are too many in all, those of the groups that were quiet longest go. By
    ``times_cleared`` a reader knows that its lines are no longer those."""

    def __init__(self, most: int = LINES_KEPT) -> None:
        self._most, self._count, self.times_cleared = most, 0, 0
        self._lines: OrderedDict[str, deque[JournalLine]] = OrderedDict()
        self.listeners: list[Callable[[JournalLine], None]] = []

    def add(self, line: JournalLine) -> None:
        """Tells the listeners."""
        lines = self._lines.get(line.group)
        if lines is None:
            lines = self._lines[line.group] = deque()
        self._lines.move_to_end(line.group)
        lines.append(line)
        self._count += 1
        if len(lines) > LINES_OF_A_GROUP:
            lines.popleft()
            self._count -= 1
        while self._count > self._most and len(self._lines) > 1:
            self._count -= len(self._lines.popitem(last=False)[1])
        for listener in tuple(self.listeners):
            listener(line)

    def of(self, group: str) -> list[JournalLine]:
        """Oldest first."""
        return list(self._lines.get(group, ()))

    def clear(self) -> None:
        """Forgets every line."""
        self._lines.clear()
        self._count, self.times_cleared = 0, self.times_cleared + 1


def history_json(lines: list[JournalLine]) -> str:
    """The document of `groups history --all --json`."""
    return f"[{','.join(line.explained_json() for line in lines)}]"
