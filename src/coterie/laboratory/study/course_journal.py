"""The journal of a course's group, as its coordinator would write it."""

from __future__ import annotations

from collections.abc import Callable

from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.journal.lines import JournalLines
from coterie.coordinator.replay import AnyGroup
from coterie.coordinator.shard import Step


class CourseJournal:
    """``group_of``: the coordinator's group of an id. ``lines`` are those so far."""

    def __init__(self, group_of: Callable[[str], AnyGroup | None]) -> None:
        self._group_of, self.lines = group_of, list[JournalLine]()
        self._journal = JournalLines(lambda topic_id: topic_id.rstrip(b".").decode())

    def add(self, step: Step, now_ms: int) -> JournalLine | None:
        """The line of a step; None for one that is not worth one."""
        group = self._group_of(step.group_id)
        line = None if group is None else self._journal.line(step, group, now_ms)
        if line is not None:
            self.lines.append(line)
        return line
