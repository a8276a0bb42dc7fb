"""What the console remembers, without a clock and IO: the lines of the journal by group, the course of each group between
two looks (lag, last rebalances, which offsets move), and all groups with their rows."""

from __future__ import annotations

from array import array
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from coterie.coordinator.journal.line import JournalLine
from coterie.text.quantity import STALLED_AFTER_MS
from coterie.web.live_rows import LiveRow, LiveRows, is_rebalance, marks

POINTS, POINT_EVERY_MS = 30, 5_000  # of lag
REBALANCES_KEPT = 8
CAUSES_KEPT = 5  # of a rebalance, in a row of the list

Partition = tuple[str, int]
PartitionLag = tuple[Partition, int, int]  # with its committed offset, and its lag in records
LINES_OF_A_GROUP, LINES_KEPT = 5_000, 200_000


class GroupCourse:
    """Of one group between two looks: its lag, its last rebalances, and which offsets move."""

    __slots__ = ("_lags", "_offsets", "_point_ms", "causes", "more_causes", "rebalances_ms")

    def __init__(self) -> None:
        self._lags = array("q")
        self._point_ms = 0  # when the last point began
        self._offsets: dict[Partition, tuple[int, int]] = {}
        self.rebalances_ms: deque[int] = deque(maxlen=REBALANCES_KEPT)
        self.causes: list[dict[str, str]] = []
        self.more_causes = 0

    def rebalanced(self, time_ms: int, causes: list[dict[str, str]]) -> None:
        """A rebalance, with its causes as in the journal."""
        self.rebalances_ms.append(time_ms)
        self.causes, self.more_causes = causes[:CAUSES_KEPT], max(len(causes) - CAUSES_KEPT, 0)

    def measured(self, lags: Iterable[PartitionLag], now_ms: int) -> None:
        """A look at the group's partitions."""
        total, offsets = 0, dict[Partition, tuple[int, int]]()
        for partition, committed, lag in lags:
            total += lag
            before = self._offsets.get(partition)
            moved = before is None or before[0] != committed or not lag
            offsets[partition] = (committed, now_ms if before is None or moved else before[1])
        self._offsets = offsets
        if not offsets:
            return
        if self._lags and now_ms - self._point_ms < POINT_EVERY_MS:
            self._lags[-1] = total
            return
        self._point_ms = now_ms
        self._lags.append(total)
        del self._lags[:-POINTS]

    @property
    def lags(self) -> list[int]:
        """In records at the last looks, oldest first. A level course is one point: of 10,000 groups at rest thirty each would
        take a megabyte of a page, and each point more would send every row again."""
        return self._lags[:1].tolist() if len(set(self._lags)) == 1 else self._lags.tolist()

    def unmoved_ms(self, partition: Partition, now_ms: int) -> int | None:
        """For how long an offset with lag is the same; None of one that was not seen."""
        kept = self._offsets.get(partition)
        return None if kept is None else max(now_ms - kept[1], 0)

    def stalls(self, now_ms: int) -> bool:
        """Whether a partition has lag and does not move."""
        return any(now_ms - since_ms >= STALLED_AFTER_MS for _, since_ms in self._offsets.values())


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
