"""The explanation of a group whose members' requests pass, in the form of a broker's: what only a broker knows is null."""

from __future__ import annotations

from typing import Any

from coterie.coordinator.journal.group_ownership import owners_of
from coterie.coordinator.subscriptions import CONSUMER
from coterie.coordinator.views.explanation import explain_group
from coterie.proxy.observed.classic_group import ObservedClassicGroup
from coterie.proxy.observed.seen import ANY_CONFIG
from coterie.text.phrase import Phrase, phrase_fields, read_phrase

UNSEEN = Phrase("unseen_by_proxy", {})


def explained(one: ObservedClassicGroup, now_ms: int) -> dict[str, Any]:
    """As JSON-ready values."""
    group = one.group
    document = explain_group(group, now_ms, ANY_CONFIG)
    if not one.is_whole and group.members:
        verdict = Phrase("and_some_not_seen", {"phrase": read_phrase(document["verdict_phrase"])})
        document |= phrase_fields("verdict", verdict)
    for member in document["members"]:
        member |= {"last_fetch_ms": None, "client_software": None, "last_push_ms": None, "pushed": []}
    shares = group.members.values() if group.protocol_type == CONSUMER else ()
    owned = owners_of((m.member_id, m.assignment) for m in shares)
    unknown = dict.fromkeys(("end", "lag", "unmoved_ms", "lag_ms"))
    document["partitions"] = [
        {
            "topic": topic,
            "partition": partition,
            "owner": owned.get((topic, partition)),
            "committed": None if (kept := group.offsets.get((topic, partition))) is None else kept.offset,
            "stalled": False,
        }
        | unknown
        for topic, partition in sorted({*owned, *group.offsets})
    ]
    return document | {"lag": None, "lag_ms": None, "stalled": []} | phrase_fields("unseen", UNSEEN)
