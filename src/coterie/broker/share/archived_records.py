"""Lines of the journal about records of a share group that are archived although nobody has accepted them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from coterie.coordinator.journal.line import JournalLine
from coterie.share.dead_letters import REJECTED, DeadRecords
from coterie.share.partition import Ended
from coterie.share.states import RecordCause

EVENT = "records_archived"
ClientId = Callable[[str], str]  # of a member; "" where it is not known
_KINDS = {
    RecordCause.RELEASED: "deliveries_spent",
    RecordCause.EXPIRED: "deliveries_spent",
    RecordCause.REJECTED: "record_rejected",
}


def archived_lines(
    group_id: str, source: tuple[str, int], ended: Iterable[Ended], client_id: ClientId, now_ms: int
) -> list[JournalLine]:
    """A line for each range of records that were rejected, or delivered as often as they may be. The leader of a partition does
    not know the group's epoch and state."""
    return [
        _line(now_ms, group_id, _KINDS[each.cause], each.member_id, _text(source, each, client_id, "archived"))
        for each in ended
        if each.cause in _KINDS
    ]


def buried_line(
    group_id: str,
    source: tuple[str, int],
    records: DeadRecords,
    client_id: ClientId,
    burial: tuple[str, str],
    now_ms: int,
) -> JournalLine:
    """Of records that went to the dead letter topic before; ``burial``: its name, and why letters are missing, or ""."""
    topic, problem = burial
    kind = "record_rejected" if records.reason == REJECTED else "deliveries_spent"
    text = _text(source, records, client_id, f"in the dead letter topic {topic}" if not problem else "archived")
    if problem:
        text += f" without a dead letter: {problem}"
    return _line(now_ms, group_id, kind, records.member_id, text)


def _line(now_ms: int, group_id: str, kind: str, member_id: str, reason: str) -> JournalLine:
    causes = [{"kind": kind, "reason": reason}]
    return JournalLine(now_ms, group_id, -1, EVENT, "", "", causes=causes, member=member_id or None)


def _text(source: tuple[str, int], ended: Ended | DeadRecords, client_id: ClientId, end: str) -> str:
    one = ended.first == ended.last
    records = f"record {ended.first}" if one else f"records {ended.first} to {ended.last}"
    times = "once" if ended.delivery_count == 1 else f"{ended.delivery_count} times"
    last = f", last to {_member(ended.member_id, client_id)}," if ended.member_id else ""
    verb = ("was", "is") if one else ("were", "are")
    return f"{records} of {source[0]}-{source[1]} {verb[0]} delivered {times}{last} and {verb[1]} {end}"


def _member(member_id: str, client_id: ClientId) -> str:
    name = client_id(member_id)
    return f"{name} ({member_id})" if name else member_id
