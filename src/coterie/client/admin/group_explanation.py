"""Why a group is where it is, as a coterie broker explains it: what `coterie groups why --json` prints and what
``/groups/GROUP`` returns over HTTP, with the same names.

Times are in ms. A sentence has its data beside it, in a field whose name ends with ``_phrase``. A field that a newer broker
adds is left out; one that is missing or of another type is an error, but for those with a default, which an older broker does
not have.
"""

from __future__ import annotations

import json
import types
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from coterie.client.admin_types import GroupState
from coterie.text.phrase import Phrase, read_phrase

T = TypeVar("T")
SLACK_MS = 1_000  # a busy client's heartbeat is late by less


@dataclass(frozen=True, slots=True)
class AwaitedMember:
    """A member that the present phase waits for, and what it ``owes``. ``client_id`` is None for a member id that was given
    out and has not joined yet."""

    member_id: str
    client_id: str | None
    owes: str
    owes_phrase: Phrase | None = None


@dataclass(frozen=True, slots=True)
class NextTimeout:
    """The timeout that expires first, the member that it concerns (None: the group), and what happens ``then``."""

    name: str
    member_id: str | None
    left_ms: int
    then: str
    then_phrase: Phrase | None = None


@dataclass(frozen=True, slots=True)
class PushedMetric:
    """A number that a client measured and pushed (KIP-714); ``attributes`` as NAME=VALUE; ``value`` is None for one that is not
    finite."""

    name: str
    attributes: tuple[str, ...]
    value: float | None


@dataclass(frozen=True, slots=True)
class MemberExplanation:
    """A member of the explained group: the names of the assignors that it lists, the request in which it waits ("JoinGroup",
    "SyncGroup", None), how long ago its last heartbeat (``last_heard_ms``) and its last fetch came (None where it cannot be
    told from another member's), the library that its client named, "NAME VERSION" (None likewise, or where it named none), and
    how much is left of its session. ``heartbeat_interval_ms``: between its heartbeats, by the broker's setting or, of the
    classic protocol, as the last two came; None where the broker does not know it. ``pushed``: the metrics that its client
    pushed last, ``last_push_ms`` ago (None where it pushes none, or another member's look the same). Of a broker that is
    not coterie ``last_heard_ms`` is the time since its last commit, and what cannot be seen from outside is None. ``active``,
    ``standby`` and ``warmup`` are the tasks of a member of a streams group, as ``1_3``; ``restoring`` has a sentence for each
    task that it restores, and ``restoring_phrases`` their data."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    assignors: tuple[str, ...]
    host: str
    leader: bool
    waits_in: str | None
    last_heard_ms: int | None
    session_timeout_ms: int | None
    session_left_ms: int | None
    rebalance_timeout_ms: int | None
    last_fetch_ms: int | None
    client_software: str | None
    heartbeat_interval_ms: int | None = None
    last_push_ms: int | None = None
    pushed: tuple[PushedMetric, ...] = ()
    active: tuple[str, ...] = ()
    standby: tuple[str, ...] = ()
    warmup: tuple[str, ...] = ()
    restoring: tuple[str, ...] = ()
    restoring_phrases: tuple[Phrase, ...] = ()

    @property
    def is_silent(self) -> bool:
        """Whether a heartbeat is missing: half an interval later than it is due, at least a second. Of a member whose interval
        is not known, once two are, of the three that a session usually has."""
        interval_ms = self.heartbeat_interval_ms
        if self.last_heard_ms is None or self.session_timeout_ms is None:
            return False
        if interval_ms is None:
            return self.last_heard_ms > self.session_timeout_ms * 2 / 3
        return self.last_heard_ms > interval_ms + max(interval_ms / 2, SLACK_MS)


@dataclass(frozen=True, slots=True)
class ReservedMemberId:
    """A member id that was given out with MEMBER_ID_REQUIRED and has not joined yet; it is dropped after ``left_ms``."""

    member_id: str
    left_ms: int


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """A partition with an owner or a committed offset: ``owner`` is a member id, ``end`` the end of its log, ``lag`` in
    records, ``lag_ms`` the age of the first record that is not committed, ``unmoved_ms`` for how long the
    committed offset is the same. ``stalled``: there is lag, and the offset has not moved for a minute. None where there is no
    owner, no committed offset, or no such partition any more. ``owners``: the member ids of a share group, whose members have a
    partition together."""

    topic: str
    partition: int
    owner: str | None
    committed: int | None
    end: int | None
    lag: int | None
    unmoved_ms: int | None
    stalled: bool
    lag_ms: int | None = None
    owners: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupExplanation:
    """A group explained: for how long it is in its state, what it waits for, and ``verdict``, one sentence for a person.
    ``lag`` is the sum over the partitions, ``lag_ms`` the longest, None where no partition's is known; ``stalled`` names
    the stalled partitions, as TOPIC-PARTITION. ``unseen``: what cannot be seen of a group of another broker, or in a journal;
    None of a coterie broker. ``generation`` is -1 where it is not known."""

    group: str
    state: GroupState
    in_state_ms: int | None
    generation: int
    protocol_type: str | None
    protocol: str | None
    leader: str | None
    waiting_for: tuple[AwaitedMember, ...]
    next_timeout: NextTimeout | None
    verdict: str
    members: tuple[MemberExplanation, ...]
    reserved_ids: tuple[ReservedMemberId, ...]
    partitions: tuple[PartitionProgress, ...]
    lag: int | None
    stalled: tuple[str, ...]
    lag_ms: int | None = None
    unseen: str | None = None
    verdict_phrase: Phrase | None = None
    unseen_phrase: Phrase | None = None


def group_explanation(document: bytes) -> GroupExplanation:
    """Reads the broker's JSON. Raises ValueError for anything else, with the path of the first wrong value."""
    return read_json(GroupExplanation, json.loads(document), "the document")


def read_json(kind: type[T], value: object, path: str) -> T:
    """A JSON value as ``kind``: a frozen dataclass, tuple[X, ...], X | None, an Enum, str, int, float or bool. Raises
    ValueError."""
    result: Any = _read(kind, value, path)
    return result  # type: ignore[no-any-return]


def _read(kind: Any, value: Any, path: str) -> Any:
    if kind is Phrase:
        try:
            return read_phrase(value)
        except ValueError as error:
            raise ValueError(f"{path} is no Phrase: {error}") from error
    if is_dataclass(kind) and isinstance(kind, type):
        hints = _hints(kind)
        optional = {f.name for f in fields(kind) if f.default is not MISSING}
        if not isinstance(value, dict) or (missing := sorted(hints.keys() - optional - value.keys())):
            lacking = f" without {', '.join(missing)}" if isinstance(value, dict) else ""
            raise ValueError(f"{path} is no {kind.__name__}{lacking}")
        given = {name: hint for name, hint in hints.items() if name in value}
        return kind(**{name: _read(hint, value[name], f"{path}.{name}") for name, hint in given.items()})
    if get_origin(kind) is types.UnionType:
        (inner,) = (k for k in get_args(kind) if k is not types.NoneType)
        return None if value is None else _read(inner, value, path)
    if get_origin(kind) is tuple and isinstance(value, list):
        return tuple(_read(get_args(kind)[0], item, f"{path}[{index}]") for index, item in enumerate(value))
    if isinstance(kind, type) and issubclass(kind, Enum) and isinstance(value, str):
        return kind(value)
    if type(value) is not kind:
        raise ValueError(f"{path} is {value!r}, not of type {getattr(kind, '__name__', kind)}")
    return value


@cache
def _hints(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {f.name: hints[f.name] for f in fields(kind)}
