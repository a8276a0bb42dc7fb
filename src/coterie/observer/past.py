"""What a group did before anybody watched it: the generations that `__consumer_offsets` still has."""

from __future__ import annotations

from typing import Any

from coterie.coordinator.journal.line import JournalLine
from coterie.observer.describer import Describer
from coterie.observer.machine.observer import REMOVAL_WAIT_MS, GroupObserver
from coterie.observer.machine.sights import Tick, TopicsSeen
from coterie.observer.offsets_tail import offsets_past

MOST_RECORDS = 1_000_000  # offsets of the group's partition: some seconds


async def past_lines(client: dict[str, Any], group: str) -> list[JournalLine]:
    """The lines of an observer that reads the group's partition from its start, or its last million offsets. Raises
    ReadRefused, KafkaError."""
    describer = Describer(client)
    try:
        ids = (await describer.topics()).ids
    finally:
        describer.close()
    sights = await offsets_past(client, group, MOST_RECORDS)
    machine = GroupObserver()
    lines = machine.see(TopicsSeen(0, {}, ids))  # how many partitions a topic had then, its assignments tell
    for sight in sights:
        lines += machine.see(Tick(sight.time_ms)) + machine.see(sight)
    return lines + machine.see(Tick(sights[-1].time_ms + REMOVAL_WAIT_MS + 1)) if sights else lines
