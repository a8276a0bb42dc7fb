"""What happened in one story, in one order: the input of the verdicts."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum

# A value is a number of twelve digits, which is JSON too: 7, the partition in three digits, the offset in eight.
VALUE = re.compile(r"(?<!\d)7(\d{3})(\d{8})(?!\d)")


def value_of(partition: int, offset: int) -> str:
    """The value of the record at that offset."""
    return f"7{partition:03}{offset:08}"


def records_in(line: str) -> list[tuple[int, int]]:
    """Partition and offset of each value in a line that a program printed."""
    return [(int(partition), int(offset)) for partition, offset in VALUE.findall(line)]


class DeliveryPromise(Enum):
    """What a client's settings promise: of a consumer the first two, of a producer the first and the last."""

    AT_LEAST_ONCE = "at-least-once"
    AT_MOST_ONCE = "at-most-once"
    EXACTLY_ONCE = "exactly-once"


class ClientEventKind(Enum):
    """What an event is."""

    PROCESSED = "processed"  # a consumer printed a record
    COMMITTED = "committed"  # a commit reached the broker; ``accepted`` once the response says so
    POSITIONED = "positioned"  # a client was sent the group's committed offset
    THAWED = "thawed"  # a process runs again
    ENDED = "ended"  # a process, by itself


@dataclass(slots=True)
class ClientEvent:
    """``at_s``: since the story's start. ``offset``: of a record, or a committed one. ``process``: its number."""

    at_s: float
    kind: ClientEventKind
    text: str = ""
    process: int = -1
    partition: int = -1
    offset: int = -1
    accepted: bool = False


@dataclass(slots=True)
class ClientHistory:
    """``ends``: of a consumer's topic the next offset of each partition; ``optional``: records that need not be processed,
    since they were deleted or aborted, and offsets of markers. ``steps`` and ``journal``: lines of the story and of the group's
    journal with their times. ``committed``: the group's offsets at the end, as the broker has them. ``stuck``: the step at
    which the story stood still."""

    events: list[ClientEvent] = field(default_factory=list)
    steps: list[tuple[float, str]] = field(default_factory=list)
    journal: list[tuple[float, str]] = field(default_factory=list)
    ends: dict[int, int] = field(default_factory=dict)
    optional: set[tuple[int, int]] = field(default_factory=set)
    committed: dict[int, int] = field(default_factory=dict)
    stuck: str = ""
    end_s: float = 0.0

    def required(self, partition: int, below: int | None = None) -> list[int]:
        """The offsets of the partition's records that must be processed, in their order."""
        end = self.ends[partition] if below is None else min(below, self.ends[partition])
        return [offset for offset in range(end) if (partition, offset) not in self.optional]

    def of_partition(self, partition: int) -> list[tuple[int, ClientEvent]]:
        """Its events with their positions in the order."""
        return [(n, event) for n, event in enumerate(self.events) if event.partition == partition]

    def finding(self, rule: str, cases: list[tuple[float, str]]) -> ClientFinding | None:
        """The first of the cases (at, what) with its surroundings; None without one."""
        if not cases:
            return None
        at_s, text = min(cases, key=lambda case: case[0])
        step, line = _last(self.steps, at_s), _last(self.journal, at_s)
        return ClientFinding(rule, text, at_s, len(cases), step[1], f"{line[0]:.1f} s {line[1]}" if line[1] else "")


def _last(lines: list[tuple[float, str]], at_s: float) -> tuple[float, str]:
    return max((line for line in lines if line[0] <= at_s), default=(0.0, ""), key=lambda line: line[0])


@dataclass(frozen=True, slots=True)
class ClientFinding:
    """What is wrong with a client: the first case and how many there are, the step of the story before it, and the last line
    of the group's journal before it."""

    rule: str
    text: str
    at_s: float
    cases: int = 1
    after: str = ""
    journal: str = ""
