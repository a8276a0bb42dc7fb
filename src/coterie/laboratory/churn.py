"""A churn trace: who came and who went, when. Read from what people have: CSV lines, or how many there were at a time.

480000,add,node1                 time in ms since the beginning, add or remove, name
2021-12-11, 11:11:30, 55         date, time, how many were up: who goes is the one that has been up longest
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

SETTLE_MS = 30_000  # beyond every timeout, for a rebalance to run its course


class TraceError(ValueError):
    """A trace that cannot be read; the message has the line and the reason."""


@dataclass(frozen=True, slots=True)
class MembershipChange:
    """One member comes (``joins``) or goes."""

    time_ms: int
    joins: bool
    member: str


def read_trace(lines: Iterable[str]) -> list[MembershipChange]:
    """In the order of time, the first change at 0. Raises TraceError."""
    changes: list[MembershipChange] = []
    up: list[str] = []
    for number, line in enumerate(lines, 1):
        cells = [cell.strip() for cell in line.split(",")]
        if not line.strip() or line.startswith("#"):
            continue
        if len(cells) != 3:
            raise TraceError(f"line {number}: time,add or remove,member is wanted, or date, time, count; not {line!r}")
        if cells[1] in ("add", "remove"):
            if not cells[0].isdigit():
                raise TraceError(f"line {number}: {cells[0]!r} is not a time in whole ms")
            changes.append(MembershipChange(int(cells[0]), cells[1] == "add", cells[2]))
        else:
            changes += _to_count(_time_ms(cells, number), int(cells[2]) if cells[2].isdigit() else -1, up, number)
    if not changes:
        raise TraceError("the trace is empty")
    changes.sort(key=lambda change: change.time_ms)
    begin_ms = changes[0].time_ms
    return [MembershipChange(c.time_ms - begin_ms, c.joins, c.member) for c in changes]


def _time_ms(cells: Sequence[str], number: int) -> int:
    try:
        at = datetime.datetime.fromisoformat(f"{cells[0]}T{cells[1]}").replace(tzinfo=datetime.UTC)
    except ValueError:
        raise TraceError(f"line {number}: {cells[0]}, {cells[1]} is neither a change nor a date and a time") from None
    return int(at.timestamp() * 1000)


def _to_count(time_ms: int, count: int, up: list[str], number: int) -> Iterator[MembershipChange]:
    if count < 0:
        raise TraceError(f"line {number}: the count is no whole number")
    while len(up) > count:
        yield MembershipChange(time_ms, False, up.pop(0))
    while len(up) < count:
        up.append(f"node-{number}-{len(up)}")
        yield MembershipChange(time_ms, True, up[-1])


def shortened(changes: Sequence[MembershipChange], quiet_ms: int) -> list[MembershipChange]:
    """The same changes, stretches without any cut to ``quiet_ms``: a group at rest does nothing that is counted."""
    if not changes:
        return []
    kept, now_ms = [changes[0]], changes[0].time_ms
    for before, change in pairwise(changes):
        now_ms += min(change.time_ms - before.time_ms, quiet_ms)
        kept.append(MembershipChange(now_ms, change.joins, change.member))
    return kept


def at_most(changes: Iterable[MembershipChange], members: int) -> list[MembershipChange]:
    """The same, of members who come while there are so many already nothing is heard."""
    up: set[str] = set()
    kept: list[MembershipChange] = []
    for change in changes:
        if change.joins and len(up) < members:
            up.add(change.member)
            kept.append(change)
        elif not change.joins and change.member in up:
            up.discard(change.member)
            kept.append(change)
    return kept
