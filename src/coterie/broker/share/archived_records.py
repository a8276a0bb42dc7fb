"""Lines of the journal about records of a share group that are archived although nobody has accepted them."""

from __future__ import annotations

from collections.abc import Iterable

from coterie.coordinator.journal.line import JournalLine
from coterie.share.partition import Ended
from coterie.share.states import RecordCause

EVENT = "records_archived"
_KINDS = {
    RecordCause.RELEASED: "deliveries_spent",
    RecordCause.EXPIRED: "deliveries_spent",
    RecordCause.REJECTED: "record_rejected",
}


def archived_lines(group_id: str, topic: str, partition: int, ended: Iterable[Ended], now_ms: int) -> list[JournalLine]:
    """A line for each range of records that were rejected, or delivered as often as they may be. The leader of a partition does
    not know the group's epoch and state."""
    return [
        JournalLine(
            now_ms,
            group_id,
            -1,
            EVENT,
            "",
            "",
            causes=[{"kind": _KINDS[each.cause], "reason": _text(topic, partition, each)}],
            member=each.member_id or None,
        )
        for each in ended
        if each.cause in _KINDS
    ]


def _text(topic: str, partition: int, ended: Ended) -> str:
    one = ended.first == ended.last
    records = f"record {ended.first}" if one else f"records {ended.first} to {ended.last}"
    times = "once" if ended.delivery_count == 1 else f"{ended.delivery_count} times"
    verb = ("was", "is") if one else ("were", "are")
    return f"{records} of {topic}-{partition} {verb[0]} delivered {times}, last to {ended.member_id}, and {verb[1]} archived"
