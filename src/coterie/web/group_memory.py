"""What the console knows of all groups: rows, the lines of their journals, the course of each. No clock, no IO."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from coterie.coordinator.journal.line import JournalLine
from coterie.web.group_course import GroupCourse
from coterie.web.journal_memory import JournalMemory
from coterie.web.live_rows import LiveRow, LiveRows
from coterie.web.marks import is_rebalance, marks


class GroupFacts(NamedTuple):
    """A group as it was seen last; ``since_ms``: when it came into its state, None where that was not seen. ``generation``: -1
    where it is not known."""

    kind: str
    state: str
    members: int
    generation: int
    since_ms: int | None
    is_lost: bool = False


class GroupMemory:
    """``changed``: the groups whose rows are to be made again. ``readers``: how many pages listen."""

    def __init__(self) -> None:
        self.rows, self.journal = LiveRows(), JournalMemory()
        self.courses: defaultdict[str, GroupCourse] = defaultdict(GroupCourse)
        self.changed: set[str] = set()
        self.readers = 0

    def take(self, line: JournalLine) -> None:
        """A line of the journal, in their order."""
        if is_rebalance(line):
            self.courses[line.group].rebalanced(line.time_ms, line.causes)
        self.journal.add(line)
        self.changed.add(line.group)

    def forget_lines(self) -> None:
        """Before they are read again from their beginning."""
        self.journal.clear()
        for course in self.courses.values():
            course.rebalances_ms.clear()

    def forget(self, group: str) -> None:
        """A group that is gone. The lines of its journal stay."""
        self.rows.remove(group)
        self.courses.pop(group, None)

    def show(self, group: str, facts: GroupFacts, now_ms: int) -> None:
        """Makes the group's row."""
        course = self.courses[group]
        lags = course.lags
        row: LiveRow = {
            "group": group,
            "kind": facts.kind,
            "state": facts.state,
            "members": facts.members,
            "generation": facts.generation if facts.generation >= 0 else None,
            "lag": lags[-1] if lags else None,
            "course": lags,
            "since_ms": facts.since_ms,
            "rebalance_ms": course.rebalances_ms[-1] if course.rebalances_ms else None,
            "causes": course.causes,
            "more_causes": course.more_causes,
            "marks": marks(
                facts.state,
                None if facts.since_ms is None else now_ms - facts.since_ms,
                course.rebalances_ms,
                now_ms,
                stalls=course.stalls(now_ms),
                is_lost=facts.is_lost,
            ),
        }
        self.rows.put(row)


def kind_of(protocol_type: str, *, is_consumer_protocol: bool) -> str:
    """Of consumers by their protocol; of others, as Connect, share groups and Kafka Streams, by the protocol type."""
    named = {
        "consumer": "consumer" if is_consumer_protocol else "classic",
        "": "consumer" if is_consumer_protocol else "simple",
    }
    return named.get(protocol_type, protocol_type)
