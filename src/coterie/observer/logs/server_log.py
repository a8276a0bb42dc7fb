"""The coordinator's lines of Apache Kafka's own log -> rebalances, so that a cluster that never heard of coterie can be looked
at, also while its log files grow, over their rotation. The wordings are those of 2.6 to 4.x, seen from real brokers
(tests/pipeline/server_logs)."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coterie.coordinator.journal.line import DEPARTURES
from coterie.coordinator.journal.patterns import OBSERVED, UNKNOWN
from coterie.observer.logs.log_layouts import LoggedLine, logged_line, logged_lines, time_of
from coterie.text.quantity import quantity

Row = dict[str, Any]
_OF = r"group (?P<group>\S+)"
_BEGUN = (
    rf"Preparing to rebalance {_OF} in state \w+ with old generation (?P<generation>\d+)(?: \([^()]*\))? \(reason: "
)
_PREPARING = re.compile(_BEGUN + r"(?P<reason>.*?)\)\.?(?: \([\w.$]+\))?$")
_PREPARING_AND_MORE = re.compile(_BEGUN + r"(?P<reason>.*)\)")  # a layout with more behind the message
_STABILIZED = re.compile(rf"Stabilized {_OF} generation (?P<generation>\d+)(?:.*? with (?P<members>\d+) members)?")
_ASSIGNED = re.compile(
    r"Assignment received from leader (?:(?P<leader>\S+) )?for "
    rf"{_OF} for generation (?P<generation>\d+)(?:\. The group has (?P<members>\d+) members)?"
)
_EMPTY = re.compile(r"Group (?P<group>\S+) with generation (?P<generation>\d+) is now empty")
_FAILED = re.compile(rf"Member (?P<member>\S+) in {_OF} has failed")
_LEFT = re.compile(rf"Member\[group\.instance\.id .*?, member\.id (?P<member>[^\]]+)\] in {_OF} has left")
_LEFT_OF_4 = re.compile(r"\[Group (?P<group>\S+)\] Member (?P<member>\S+) has left group")
_DELETED = re.compile(r"The following groups were deleted: (?P<groups>[^.]+)\.")

# The cause (coterie.coordinator.journal.line.CAUSES) for a text in a reason; the first match counts.
_CAUSES = (
    (re.compile(r"adding new member", re.I), "member_joined"),
    (re.compile(r"heartbeat expiration", re.I), "session_timeout"),
    (re.compile(r"leavegroup|has left", re.I), "member_left"),
    (re.compile(r"leader .*re-?joining", re.I), "leader_rejoined"),
    (re.compile(r"static member", re.I), "static_member_returned"),
    (re.compile(r"updating metadata|metadata .*chang", re.I), "subscription_changed"),
    (re.compile(r"pending sync|sync (timeout|expir)|failed to sync", re.I), "sync_timeout"),
    (re.compile(r"new ?member.*(join|expir)|join timeout", re.I), "join_timeout"),
    (re.compile(r"rebalance timeout|did not (re-?)?join", re.I), "rebalance_timeout"),
    (re.compile(r"error .*(storing|when)|could not be (stored|persisted)", re.I), "assignment_not_stored"),
    (re.compile(r"max ?size|capacity", re.I), "group_max_size"),
)

# -- files --------------------------------------------------------------------------------------------------------------------

_PATTERNS = (_PREPARING, _PREPARING_AND_MORE, _STABILIZED, _ASSIGNED, _EMPTY, _FAILED, _LEFT, _LEFT_OF_4)
FILES_NAMED = 5
_MENTION = "roup "  # stands in each line that this module reads
PIECE_BYTES = 1 << 20


def cause_of(reason: str) -> str:
    """The kind of cause; "unknown" for an unknown wording."""
    return next((kind for pattern, kind in _CAUSES if pattern.search(reason)), "unknown")


@dataclass(slots=True)
class _Story:
    """The lines so far of one group's current rebalance. ``first_ms``: of its first start; a further one follows where members
    change before the leader has assigned. ``removed``: member ids and when."""

    first_ms: int | None = None
    started_ms: int | None = None
    formed_ms: int | None = None
    reasons: list[str] = field(default_factory=list)
    removed: list[tuple[str, int]] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)


class LogStories:
    """The rebalances of each group, line by line, in the order of time. One whose beginning stands in no line has no cause and
    no phases."""

    def __init__(self) -> None:
        self._stories: dict[str, _Story] = {}

    def read(self, line: str) -> Row | None:
        """The row of the rebalance that ends with this line."""
        now_ms, stories = time_of(line), self._stories
        if now_ms is None:
            return None
        if match := _PREPARING.search(line.rstrip()) or _PREPARING_AND_MORE.search(line):
            story = stories.setdefault(match["group"], _Story())
            story.first_ms = now_ms if story.first_ms is None else story.first_ms
            if story.started_ms is None or story.formed_ms is not None:
                story.started_ms, story.formed_ms = now_ms, None
            story.reasons.append(match["reason"])
        elif match := _STABILIZED.search(line):
            stories.setdefault(match["group"], _Story()).formed_ms = now_ms
        elif match := _ASSIGNED.search(line):
            story = stories.pop(match["group"], _Story())
            return _row(match, "stable", now_ms, story, match["members"], match["leader"])
        elif match := _EMPTY.search(line):
            story = stories.pop(match["group"], _Story())
            return _row(match, "empty", now_ms, story, "0", None)
        elif match := _FAILED.search(line):
            story = stories.setdefault(match["group"], _Story())
            story.removed.append((match["member"], now_ms))
            story.silent.append(match["member"])
            if story.started_ms is not None:  # one more, while the group is rebalancing anyway
                story.reasons.append(f"removing member {match['member']} on heartbeat expiration")
        elif match := _LEFT.search(line) or _LEFT_OF_4.search(line):
            stories.setdefault(match["group"], _Story()).removed.append((match["member"], now_ms))
        elif match := _DELETED.search(line):
            for group in match["groups"].split(","):
                stories.pop(group.strip(), None)
        return None


def rebalances(lines: Iterable[str]) -> Iterator[Row]:
    """Lines in the order of time -> rows, as `LogStories` reads them."""
    stories = LogStories()
    return (row for line in lines if (row := stories.read(line)) is not None)


def _row(match: re.Match[str], event: str, now_ms: int, story: _Story, members: str | None, leader: str | None) -> Row:
    kinds = [cause_of(reason) for reason in story.reasons]
    formed_ms = story.formed_ms if event == "stable" else now_ms
    began = story.started_ms is not None and formed_ms is not None
    return {
        "group": match["group"],
        "generation": int(match["generation"]),
        "source": "server_log",
        "origin": OBSERVED if kinds and kinds[0] != "unknown" else UNKNOWN,
        "event": event,
        "time_ms": now_ms,
        "members": None if members is None else int(members),
        "leader": leader,
        "cause": kinds[0] if kinds else None,
        "why": "; ".join(dict.fromkeys(story.reasons)) or None,
        "causes": len(kinds),
        "joined": sum(kind == "member_joined" for kind in kinds),
        "departed": sum(kind in DEPARTURES for kind in kinds),
        "join_ms": (formed_ms or 0) - (story.started_ms or 0) if began else None,
        "sync_ms": now_ms - story.formed_ms if event == "stable" and story.formed_ms is not None else None,
        "started_ms": story.first_ms,
        "removed": [member_id for member_id, _ in story.removed],
        "removed_ms": [time_ms for _, time_ms in story.removed],
        "silent": story.silent,
    }


class NothingUnderstood(ValueError):
    """No line of the log files is one of a group's rebalance; the message has the files."""


@dataclass(slots=True)
class LogSurvey:
    """What a log file has: its lines by layout, and how many of them are of groups' rebalances."""

    path: Path
    layouts: Counter[str] = field(default_factory=Counter)
    understood: int = 0

    def __str__(self) -> str:
        layout = f" in {self.layouts.most_common(1)[0][0]}" if self.layouts else ""
        lines = quantity(self.layouts.total(), "line")
        return f"{self.path}: {lines}{layout}, {self.understood:,} of them of groups' rebalances"


def survey(paths: Iterable[Path]) -> list[LogSurvey]:
    """Raises NothingUnderstood, OSError."""
    surveys = [LogSurvey(path) for path in paths]
    for each in surveys:
        for _ in coordinator_lines(each.path, each):
            each.understood += 1
    if not any(each.understood for each in surveys):
        read = "; ".join(map(str, surveys[:FILES_NAMED]))
        raise NothingUnderstood(
            f"no line is one of a group's rebalance ({read}); the lines are those of Kafka's GroupCoordinator at INFO, each "
            "with a date, such as [2026-11-21 11:04:38,106] INFO [GroupCoordinator 1]: Stabilized group crew generation 1"
        )
    return surveys


def coordinator_lines(path: Path, counts: LogSurvey | None = None) -> Iterator[tuple[int, str, str]]:
    """(time in ms, group, line) of those lines that this module reads; the line begins with its time as Kafka writes it.
    ``counts`` gets all lines by their layout. Raises OSError."""
    for line in logged_lines(path, _MENTION):
        if counts is not None:
            counts.layouts[line.form] += 1
        read = _coordinator_line(line)
        if read is not None:
            yield read


def _coordinator_line(line: LoggedLine) -> tuple[int, str, str] | None:
    """As `coordinator_lines`, of one line; None for a line of anything else."""
    if line.time_ms is None:
        return None
    match = next((match for pattern in _PATTERNS if (match := pattern.search(line.message))), None)
    return None if match is None else (line.time_ms, match["group"], f"[{_written(line.time_ms)}] {line.message}")


def _written(time_ms: int) -> str:
    at = datetime.datetime.fromtimestamp(time_ms // 1000, datetime.UTC)
    return f"{at:%Y-%m-%d %H:%M:%S},{time_ms % 1000:03}"


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
                read = _coordinator_line(logged_line(line, _MENTION))
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
