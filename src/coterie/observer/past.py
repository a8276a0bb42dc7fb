"""What groups did before anybody watched them: the generations that `__consumer_offsets` still has."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from typing import Any

from coterie.coordinator.events import GroupStored
from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.stored_records.stored import GROUP_KEY_VERSION
from coterie.observer.describer import REQUESTS_PER_S, Describer, RequestRate
from coterie.observer.machine.observer import REMOVAL_WAIT_MS, GroupObserver
from coterie.observer.machine.sights import StoredBefore, Tick, TopicsSeen
from coterie.observer.offsets_tail import group_past, offsets_past

MOST_RECORDS = 1_000_000  # some seconds
GROUP_KEY = GROUP_KEY_VERSION.to_bytes(2, "big")  # how the key of a generation's record begins


async def past_lines(client: dict[str, Any], group: str) -> list[JournalLine]:
    """The lines of an observer that reads the group's partition from its start, or its last million offsets. Raises
    ReadRefused, KafkaError."""
    describer = Describer(client, RequestRate(REQUESTS_PER_S))
    try:
        ids = (await describer.topics()).ids
    finally:
        describer.close()
    sights = await group_past(client, group, MOST_RECORDS)
    machine = GroupObserver()
    lines = machine.see(TopicsSeen(0, {}, ids))  # how many partitions a topic had then, its assignments tell
    for sight in sights:
        lines += machine.see(Tick(sight.time_ms)) + machine.see(sight)
    return lines + machine.see(Tick(sights[-1].time_ms + REMOVAL_WAIT_MS + 1)) if sights else lines


def _is_generation(key: bytes) -> bool:
    return key.startswith(GROUP_KEY)


async def stored_before(client: dict[str, Any], groups: Collection[str]) -> AsyncIterator[list[StoredBefore]]:
    """The last generations of the named groups, or of all, in the older part of the log, where compaction has left one of each
    group: that of a group that has long been stable. Raises ReadRefused, KafkaError."""
    async for read in offsets_past(client, groups, MOST_RECORDS, newest=False, is_read=_is_generation):
        stored = {sight.group: sight for sight in read}
        yield [
            StoredBefore(sight.time_ms, sight.group, sight.event.value)
            for sight in stored.values()
            if isinstance(sight.event, GroupStored)
        ]
