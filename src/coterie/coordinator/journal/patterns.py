"""What the comings and goings of a group's members show together: a deploy, or a member that flaps; and how a cause is known,
in lines of the journal that no broker wrote. Observer, proxy and history share these rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

EVIDENCE = {
    "observed": "a record, a description, a line of a broker's log or a request states it",
    "inferred": "a rule concludes it; its name stands beside it, in `rule`",
    "unknown": "it is known that something happened, and not why: `left or was removed`",
}
OBSERVED, INFERRED, UNKNOWN = EVIDENCE
SLOW_PHASE_MS = 10_000  # of a phase of a rebalance: members rejoin with their next heartbeat, every 3 s
RESTART_MS = 10 * 60_000  # members of a deploy go and come within this time
_DEPLOY_MEMBERS = 2
_FLAPPING_RESTARTS = 2  # of a member that had itself come in another's stead
_AGAIN_MS = 10 * 60_000  # a pattern that goes on is stated again
LIVES_KEPT = 200


def known_cause(
    kind: str,
    evidence: str,
    rule: str = "",
    *,
    member_id: str = "",
    client_id: str = "",
    group_instance_id: str | None = None,
) -> dict[str, str]:
    """A cause as a line has it; what is empty is left out."""
    fields = {
        "kind": kind,
        "member_id": member_id,
        "client_id": client_id,
        "group_instance_id": group_instance_id or "",
        "evidence": evidence,
        "rule": rule,
    }
    return {name: text for name, text in fields.items() if text}


class Life(NamedTuple):
    """The beginning or the end of a member's life."""

    time_ms: int
    member_id: str
    client_id: str
    has_come: bool


class Restarts(NamedTuple):
    """Members that came in the stead of one that went, by client id: of one that was there ``first``, and of one that had come
    in another's stead itself."""

    first: Counter[str]
    again: Counter[str]


def deploy(lives: Iterable[Life], members: int, now_ms: int) -> dict[str, str] | None:
    """Members that had long been there went, and others of their client ids came."""
    if not is_deploy(restarts_of(_recent(lives, now_ms)), members):
        return None
    return known_cause("deploy", INFERRED, "restarted_in_turn")


def flapping(lives: Iterable[Life], now_ms: int) -> dict[str, str] | None:
    """A client whose members come and soon go again."""
    again = restarts_of(_recent(lives, now_ms)).again
    client_id, count = max(again.items(), key=lambda item: item[1], default=("", 0))
    if count < _FLAPPING_RESTARTS:
        return None
    return known_cause("member_flaps", INFERRED, "restarted_again", client_id=client_id)


def is_deploy(restarts: Restarts, members: int) -> bool:
    """Whether so many of a group's ``members`` were restarted once that it is a deploy."""
    return restarts.first.total() >= max(_DEPLOY_MEMBERS, members / 2)


def restarts_of(lives: Iterable[Life]) -> Restarts:
    """``lives``: in the order of time."""
    restarts, successors = Restarts(Counter(), Counter()), set[str]()
    gone: dict[str, list[str]] = {}  # by client id: those without a successor yet
    for life in lives:
        if not life.has_come:
            gone.setdefault(life.client_id, []).append(life.member_id)
        elif gone.get(life.client_id):
            former = gone[life.client_id].pop()
            (restarts.again if former in successors else restarts.first)[life.client_id] += 1
            successors.add(life.member_id)
    return restarts


def is_due(reported: dict[tuple[str, str], int], cause: Mapping[str, str], time_ms: int) -> bool:
    """Whether a pattern is to be stated: once in ten minutes for each; ``reported`` has when it was seen last."""
    key = (cause["kind"], cause.get("member_id", cause.get("client_id", "")))
    last_ms = reported.get(key)
    reported[key] = time_ms
    return last_ms is None or time_ms - last_ms >= _AGAIN_MS


def _recent(lives: Iterable[Life], now_ms: int) -> Iterator[Life]:
    return (life for life in lives if now_ms - life.time_ms <= RESTART_MS)
