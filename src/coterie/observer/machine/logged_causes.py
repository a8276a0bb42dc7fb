"""Causes as a broker's log states them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from coterie.coordinator.journal.evidence import OBSERVED
from coterie.observer.logs.server_log import cause_of as kind_of
from coterie.observer.machine.rules import Cause, cause_of
from coterie.wire.messages.stored.consumer_offsets import MemberMetadata

_MEMBER = re.compile(r"\b[Mm]ember (?P<member>\S+?)(?= |,|;|\)|$)")
_CLIENTS = "; client reason: "  # KIP-800
_BETWEEN = re.compile(r"; (?!client reason: )")


def causes_in_log(row: Mapping[str, Any], members: Mapping[str, MemberMetadata]) -> list[Cause]:
    """Of a row of `coterie.observer.logs.server_log`: one for each of its reasons that has a known wording. ``members``: those
    before and after, by member id."""
    causes = []
    for reason in _BETWEEN.split(row["why"] or ""):
        stated, _, clients_reason = reason.partition(_CLIENTS)
        kind = kind_of(stated)
        if kind == "unknown":
            continue
        match = _MEMBER.search(stated)
        member = members.get(match["member"]) if match is not None else None
        cause = {"kind": kind, "evidence": OBSERVED} if member is None else cause_of(kind, member, OBSERVED)
        if clients_reason:
            cause["reason"] = clients_reason
        if cause not in causes:
            causes.append(cause)
    named = {cause["kind"] for cause in causes if "member_id" in cause}
    return [cause for cause in causes if "member_id" in cause or cause["kind"] not in named]


def removal_in_log(row: Mapping[str, Any] | None, member: MemberMetadata) -> Cause | None:
    """How a member was removed, as the log has it."""
    if row is None or member.member_id not in row["removed"]:
        return None
    kind = "session_timeout" if member.member_id in row["silent"] else "member_left"
    return cause_of(kind, member, OBSERVED)
