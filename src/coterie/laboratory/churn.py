"""A churn trace: who came and who went, when. Read from what people have: CSV of changes, or of how many there were at a time.

480000,add,node1                 time in ms since the beginning, add or remove, name
2021-12-11, 11:11:30, 55         date, time, how many were up: who goes is the one that has been up longest
2021-12-11T11:11:30.5, 55        the same, date and time in one cell

Cells are separated by commas, semicolons or tabs and may be quoted. A header, empty lines and lines that begin with # are
passed over. Lines may come in any order.
"""

from __future__ import annotations

import csv
import datetime
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from coterie.text.files import NotText, decode_text

SETTLE_MS = 30_000  # beyond every timeout, for a rebalance to run its course
_DELIMITERS = ",;\t"
_FORMS = "time in ms,add or remove,member; or date,time,count; or date and time,count"


class TraceError(ValueError):
    """A trace that cannot be read; the message has the line and the reason."""


@dataclass(frozen=True, slots=True)
class MembershipChange:
    """One member comes (``joins``) or goes."""

    time_ms: int
    joins: bool
    member: str


def trace_of(data: bytes) -> list[MembershipChange]:
    """The trace in the bytes of a file. Raises TraceError."""
    try:
        return read_trace(decode_text(data).splitlines())
    except NotText as error:
        raise TraceError(str(error)) from None


def read_trace(lines: Iterable[str]) -> list[MembershipChange]:
    """In the order of time, the first change at 0. Raises TraceError."""
    changes: list[MembershipChange] = []
    counts: list[tuple[int, int, int]] = []  # time in ms, line, how many were up
    for number, cells in _rows(lines):
        if len(cells) == 3 and cells[1].lower() in ("add", "remove"):
            changes.append(MembershipChange(_milliseconds(cells[0], number), cells[1].lower() == "add", cells[2]))
        elif len(cells) in (2, 3):
            counts.append((_time_ms(cells[:-1], number), number, _count(cells[-1], number)))
        else:
            raise TraceError(f"line {number}: {len(cells)} cells; a trace has lines of {_FORMS}")
    changes += _differences(sorted(counts))
    if not changes:
        raise TraceError(f"the trace is empty; it has lines of {_FORMS}")
    changes.sort(key=lambda change: change.time_ms)
    begin_ms = changes[0].time_ms
    return [MembershipChange(c.time_ms - begin_ms, c.joins, c.member) for c in changes]


def _rows(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """The cells of each line of data, with its number, from 1."""
    numbered = [(n, line) for n, line in enumerate(lines, 1) if line.strip() and not line.lstrip().startswith("#")]
    if not numbered:
        return
    delimiter = max(_DELIMITERS, key=numbered[-1][1].count)
    for index, (number, line) in enumerate(numbered):
        try:
            [cells] = csv.reader([line.rstrip("\r\n")], delimiter=delimiter, skipinitialspace=True)
        except csv.Error as error:
            raise TraceError(f"line {number} is no CSV: {error}") from None
        cells = [cell.strip() for cell in cells]
        if index == 0 and not any(character.isdigit() for character in cells[0]) and len(numbered) > 1:
            continue  # a header
        yield number, cells


def _milliseconds(text: str, number: int) -> int:
    try:
        time_ms = float(text)
        return round(time_ms) if 0 <= time_ms < 2**53 else _not_ms(text, number)
    except ValueError:
        return _not_ms(text, number)


def _not_ms(text: str, number: int) -> int:
    raise TraceError(f"line {number}: {text!r} is not a time in ms") from None


def _time_ms(cells: Sequence[str], number: int) -> int:
    try:
        at = datetime.datetime.fromisoformat("T".join(cells).replace("/", "-"))
    except ValueError:
        raise TraceError(
            f"line {number}: {', '.join(cells)} is neither a change nor a date and a time; lines are {_FORMS}"
        ) from None
    return round((at if at.tzinfo is not None else at.replace(tzinfo=datetime.UTC)).timestamp() * 1000)


def _count(text: str, number: int) -> int:
    if not text.isdecimal() or len(text) > 6:
        raise TraceError(f"line {number}: the count {text!r} is no whole number below 1,000,000")
    return int(text)


def _differences(counts: Iterable[tuple[int, int, int]]) -> Iterator[MembershipChange]:
    """From one count to the next, in the order of time."""
    up: list[str] = []
    for time_ms, number, count in counts:
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
