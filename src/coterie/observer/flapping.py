"""Members ranked by how often they come and go, and what that cost their groups, from lines of the journal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from coterie.coordinator.journal.line import DEPARTURES, JournalLine

JOINS = frozenset({"member_joined", "static_member_returned", "member_replaced"})
CAUSED = frozenset({"stable", "empty", "member_replaced", "epoch_raised"})  # events whose causes count, each once


@dataclass(slots=True)
class FlappingMember:
    """A member of a group over all its lives, by its group.instance.id, or its client id: how often it joined and departed, and
    the rebalances that it took part in causing. ``unowned_ms`` (summed over partitions; None: no line has it) and
    ``moved_count`` are of these rebalances, shared equally between the members that caused one. ``causes``: how often it came
    and went in which way; ``members``: how many member ids it had."""

    group: str
    name: str
    is_static: bool
    joins: int = 0
    departures: int = 0
    rebalances: int = 0
    unowned_ms: float | None = None
    moved_count: float = 0.0
    causes: dict[str, int] = field(default_factory=dict)
    members: int = 0
    first_ms: int = 0
    last_ms: int = 0


def flapping_members(lines: Iterable[JournalLine]) -> list[FlappingMember]:
    """The members, the most frequent comers and goers first; ``lines`` of any groups, each group's oldest first."""
    groups: dict[str, _GroupChurn] = {}
    for line in lines:
        groups.setdefault(line.group, _GroupChurn(line.group)).see(line)
    members = [member for group in groups.values() for member in group.members.values()]
    return sorted(members, key=lambda m: (-(m.joins + m.departures), -(m.unowned_ms or 0), m.group, m.name))


class _GroupChurn:
    """One group's members so far, and the members that caused its last rebalance."""

    def __init__(self, group: str) -> None:
        self.members: dict[str, FlappingMember] = {}
        self._group = group
        self._names: dict[str, str] = {}  # by member id: a departure may have no client id
        self._causing: list[FlappingMember] = []

    def see(self, line: JournalLine) -> None:
        if line.event in CAUSED:
            causing: dict[str, FlappingMember] = {}
            for cause in line.causes:
                if cause["kind"] in JOINS or cause["kind"] in DEPARTURES:
                    member = self._member(cause, line.time_ms)
                    causing[member.name] = member
            self._causing = list(causing.values())
            for member in self._causing:
                member.rebalances += line.event != "member_replaced"
        share = max(len(self._causing), 1)
        for member in self._causing:
            member.moved_count += (line.moved_count or 0) / share
            if line.unowned_ms is not None:
                member.unowned_ms = (member.unowned_ms or 0) + line.unowned_ms / share

    def _member(self, cause: dict[str, str], time_ms: int) -> FlappingMember:
        kind, member_id = cause["kind"], cause.get("member_id", "")
        instance_id = cause.get("group_instance_id")
        name = instance_id or cause.get("client_id") or self._names.get(member_id) or member_id
        member = self.members.get(name)
        if member is None:
            member = self.members[name] = FlappingMember(self._group, name, bool(instance_id), first_ms=time_ms)
        if member_id not in self._names:
            self._names[member_id] = name
            member.members += 1
        member.joins += kind in JOINS
        member.departures += kind in DEPARTURES
        member.causes[kind] = member.causes.get(kind, 0) + 1
        member.last_ms = time_ms
        return member
