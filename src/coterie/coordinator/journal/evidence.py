"""How a cause is known, in lines of the journal that no broker wrote: those of `coterie observe` and `coterie proxy`."""

from __future__ import annotations

EVIDENCE = {
    "observed": "a record, a description, a line of a broker's log or a request states it",
    "inferred": "a rule concludes it; its name stands beside it, in `rule`",
    "unknown": "it is known that something happened, and not why: `left or was removed`",
}
OBSERVED, INFERRED, UNKNOWN = EVIDENCE


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
