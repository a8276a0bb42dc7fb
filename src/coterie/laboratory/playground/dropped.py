"""A reader's own journal or churn, as the actions of a playground, and its costs under each protocol."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from coterie.coordinator.journal.line import DEPARTURES, JournalLine
from coterie.laboratory.churn import MembershipChange, TraceError, at_most, read_trace, shortened
from coterie.laboratory.playground.settings import MOST_MEMBERS, MOST_PARTITIONS
from coterie.laboratory.study.group import StudySetting
from coterie.laboratory.study.run import Measures, run
from coterie.laboratory.study.workload import Event, Plan, from_trace

QUIET_MS = 90_000  # longer stretches without a change are cut to it
USUAL_PARTITIONS = 12
_ARRIVALS = frozenset({"member_joined", "static_member_returned", "member_replaced"})
_ID_END = re.compile(r"-?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_DATA = re.compile(r'<script type="application/json">(.*?)</script>', re.DOTALL)
_FORMS = (
    "a journal (what `coterie groups history GROUP --json --all` prints, or the lines of `__coterie_journal` or of "
    "`coterie observe`), the page of a history that `coterie pipeline report` writes, or a CSV of time in ms, add or remove, "
    "member"
)


class UnfitFile(ValueError):
    """A file that is neither a journal nor a trace; the text says what is wrong."""


@dataclass(frozen=True, slots=True)
class DroppedGroup:
    """One group of a file: its changes of members as actions, and how many partitions it had, as far as the file knows."""

    group: str
    actions: tuple[Event, ...]
    partitions: int
    members: int


def dropped_groups(text: str) -> list[DroppedGroup]:
    """The groups of a file, the one with the most changes first. Raises UnfitFile."""
    start = text.lstrip()[:1]
    try:
        if start == "<":
            groups = _of_journal(line for document in _timelines(text) for line in _lines_of_timeline(document))
        else:
            groups = _of_journal(_lines(text, is_list=start == "[")) if start in ("{", "[") else [_of_trace(text)]
    except (TraceError, ValueError, KeyError, TypeError) as error:
        raise UnfitFile(f"{error}; the file must be {_FORMS}") from None
    if not groups:
        raise UnfitFile(f"no member joins in the file; it must be {_FORMS}")
    return sorted(groups, key=lambda group: -len(group.actions))


def costs(group: DroppedGroup, setting: StudySetting, partitions: int, seed: int) -> Measures:
    """What these changes cost under a setting."""
    plan = Plan(0, partitions, group.actions, settle_ms=0)
    return run(setting, plan, seed, checks=False)


def _of_trace(text: str) -> DroppedGroup:
    changes = at_most(read_trace(text.splitlines()), MOST_MEMBERS)
    return _dropped("trace", changes, frozenset(), USUAL_PARTITIONS)


def _lines(text: str, *, is_list: bool) -> Iterator[JournalLine]:
    texts = [json.dumps(item) for item in json.loads(text)] if is_list else text.splitlines()
    for number, line in enumerate(texts, 1):
        if line.strip():
            try:
                yield JournalLine.from_json(line)
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from None


def _timelines(page: str) -> Iterator[dict[str, Any]]:
    """The timelines (`Timeline.document`) within a page."""
    for text in _DATA.findall(page):
        document = json.loads(text)
        if isinstance(document, dict) and "timeline" in document:
            yield document["timeline"]


def _lines_of_timeline(document: dict[str, Any]) -> Iterator[JournalLine]:
    """A timeline's rebalances as lines: each with its causes where they are known, and the owners until the next one begins."""
    begins_ms = [rebalance["phases"][0][1] for rebalance in document["rebalances"]]
    for rebalance, begin_ms, next_ms in zip(
        document["rebalances"], begins_ms, [*begins_ms[1:], document["end_ms"]], strict=True
    ):
        causes = [{"kind": cause["kind"], "member_id": cause["who"]} for cause in rebalance["causes"]]
        owners: dict[str, dict[str, list[int]]] = {}
        for lane, owner, from_ms, until_ms in document["owned"]:
            if from_ms < next_ms and (until_ms is None or until_ms >= next_ms):
                topic, number = document["lanes"][lane]
                owners.setdefault(document["owners"][owner], {}).setdefault(topic, []).append(number)
        generation, event = rebalance["generation"], rebalance["event"] or "stable"
        yield JournalLine(begin_ms, document["group"], generation, event, "", "", causes=causes, owners=owners)


def _of_journal(lines: Iterable[JournalLine]) -> list[DroppedGroup]:
    by_group: dict[str, list[JournalLine]] = {}
    for line in lines:
        by_group.setdefault(line.group, []).append(line)
    return [made for group, of_group in by_group.items() if (made := _of_group(group, of_group)) is not None]


def _of_group(group: str, lines: list[JournalLine]) -> DroppedGroup | None:
    """Who came and who went: by the causes of the lines, and by the owners that a generation has."""
    names, up = _Names(), set[str]()
    changes: list[MembershipChange] = []
    left: set[int] = set()
    partitions: set[tuple[str, int]] = set()

    def change(time_ms: int, joins: bool, name: str, *, closed: bool = False) -> None:
        if joins == (name in up) or (joins and len(up) >= MOST_MEMBERS):
            return
        (up.add if joins else up.discard)(name)
        if closed:
            left.add(len(changes))
        changes.append(MembershipChange(time_ms, joins, name))

    for line in sorted(lines, key=lambda line: line.time_ms):
        for cause in line.causes:
            member = cause.get("group_instance_id") or cause.get("member_id") or cause.get("client_id")
            if member and (cause["kind"] in _ARRIVALS or cause["kind"] in DEPARTURES):
                is_arrival = cause["kind"] in _ARRIVALS
                change(line.time_ms, is_arrival, names.of(member), closed=cause["kind"] == "member_left")
        owners = line.owners or {}
        for member, topics in owners.items():
            partitions.update((topic, number) for topic, numbers in topics.items() for number in numbers)
            if names.knows(member) or not line.causes:
                change(line.time_ms, True, names.of(member))
        if owners and not line.causes:  # what a log has: the owners of a generation are its members
            for name in sorted(up - {names.of(member) for member in owners}):
                change(line.time_ms, False, name)
        partitions.update((move["topic"], move["partition"]) for move in line.moved)
        if line.event in ("empty", "group_removed"):
            for name in sorted(up):
                change(line.time_ms, False, name)
    if not any(c.joins for c in changes):
        return None
    return _dropped(group, changes, frozenset(left), min(len(partitions), MOST_PARTITIONS) or USUAL_PARTITIONS)


def _dropped(group: str, changes: list[MembershipChange], left: frozenset[int], partitions: int) -> DroppedGroup:
    begin_ms = changes[0].time_ms
    counted = [replace(c, time_ms=c.time_ms - begin_ms) for c in changes]
    events = from_trace(shortened(counted, QUIET_MS), partitions).events
    actions = tuple(replace(e, kind="leave") if n in left else e for n, e in enumerate(events))
    return DroppedGroup(group, actions, partitions, len({c.member for c in changes}))


class _Names:
    """Member ids as short names that a playground takes: without their UUIDs, numbered where two would be alike."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()

    def knows(self, member: str) -> bool:
        return member in self._names

    def of(self, member: str) -> str:
        if member not in self._names:
            first = re.sub(r"[^\w.@-]", "_", _ID_END.sub("", member))[:40] or "member"
            name, number = first, 1
            while name in self._taken:
                number += 1
                name = f"{first}.{number}"
            self._taken.add(name)
            self._names[member] = name
        return self._names[member]
