"""Server-sent events: what changed since a page last heard, so that one that reads slowly takes no memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

from coterie.client import KafkaError
from coterie.coordinator.journal.journal_timeline import JournalTimeline
from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.journal.timeline import owner_name
from coterie.machines.ownership import Partition
from coterie.observer.group_descriptions import now_ms
from coterie.text.hidden import visible
from coterie.text.phrase import Phrase, phrase_fields
from coterie.web.feeds.feed import GroupFeed
from coterie.web.group_memory import LINES_OF_A_GROUP, GroupMemory, history_json

LOOK_S, EVERY_S = 0.1, 0.5
LINES_WAITING = 1_000  # for one page; with more, it gets the whole history again
LINES_FOLLOWED = (
    LINES_OF_A_GROUP  # behind the history: with more, it gets what is kept by then, and forgets what is older
)


async def send_events(
    request: web.Request, memory: GroupMemory, events: AsyncIterator[tuple[str, str]]
) -> web.StreamResponse:
    """Sends (event, data of one line) until the reader goes."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
    await response.prepare(request)
    memory.readers += 1
    try:
        async for event, data in events:
            await response.write(f"event: {event}\ndata: {data}\n\n".encode())
    except ConnectionError:
        pass
    finally:
        memory.readers -= 1
    return response


async def events_of_all(feed: GroupFeed, stopping: asyncio.Event) -> AsyncIterator[tuple[str, str]]:
    """`rows` and `trouble`, at most one of each in half a second."""
    revision, sent_s = 0, float("-inf")
    trouble: Phrase | None = None
    loop = asyncio.get_running_loop()
    while not stopping.is_set():
        is_due = loop.time() - sent_s >= EVERY_S
        if feed.trouble != trouble:
            trouble = feed.trouble
            yield "trouble", json.dumps({} if trouble is None else phrase_fields("error", trouble))
        elif is_due and (revision == 0 or revision != feed.memory.rows.revision):
            # The revision of now: rows that change while this is written come with the next.
            changes, revision, sent_s = feed.memory.rows.changes(revision), feed.memory.rows.revision, loop.time()
            if changes is not None:
                yield "rows", changes
        await asyncio.sleep(LOOK_S)


async def events_of_one(feed: GroupFeed, group: str, stopping: asyncio.Event) -> AsyncIterator[tuple[str, str]]:
    """`history` and `timeline`, then `line` and `changes`, each half second `explanation`, and `trouble`."""
    waiting: list[JournalLine] = []

    def take(line: JournalLine) -> None:
        if line.group == group and len(waiting) <= LINES_WAITING:
            waiting.append(line)

    journal = feed.memory.journal
    journal.listeners.append(take)
    try:
        lines: list[JournalLine] | None = journal.of(group)
        times_cleared = journal.times_cleared
        timeline, followed = JournalTimeline(group), 0
        explained_s = float("-inf")
        trouble: Phrase | None = None
        loop = asyncio.get_running_loop()
        while not stopping.is_set():
            if lines is not None:
                yield "history", history_json(lines)
                timeline, followed = JournalTimeline(group), 0
                for line in lines:
                    timeline.add(line)
                yield "timeline", json.dumps(timeline.document(visible))
            is_gone = (
                len(waiting) > LINES_WAITING or journal.times_cleared != times_cleared or followed > LINES_FOLLOWED
            )
            lines, times_cleared = journal.of(group) if is_gone else None, journal.times_cleared
            if lines is not None:
                waiting.clear()
                continue
            has_changed, followed = bool(waiting), followed + len(waiting)
            while waiting:
                line = waiting.pop(0)
                timeline.add(line)
                yield "line", line.explained_json()
            if has_changed:
                yield "changes", json.dumps(timeline.changes(visible))
            if feed.trouble != trouble:
                trouble = feed.trouble
                yield "trouble", json.dumps({} if trouble is None else phrase_fields("error", trouble))
            if loop.time() - explained_s >= EVERY_S:
                explained_s = loop.time()
                explanation = await explained(feed, group)
                if explanation is not None:
                    if timeline.described(described_owners(explanation), now_ms(), protocol=explanation["protocol"]):
                        yield "changes", json.dumps(timeline.changes(visible))
                    yield "explanation", json.dumps(explanation)
            await asyncio.sleep(LOOK_S)
    finally:
        journal.listeners.remove(take)


async def explained(feed: GroupFeed, group: str) -> dict[str, Any] | None:
    """The document of an event `explanation`; None where there is none now."""
    try:
        document = await feed.explain(group)
    except KafkaError:
        return None  # `trouble` says so
    return None if document is None else document | {"now_ms": now_ms()}


def described_owners(explanation: dict[str, Any]) -> dict[Partition, str]:
    """The owner of each lane of an explained group: of a partition, or of an active task of a streams group."""
    names = {
        m["member_id"]: owner_name(m["member_id"], m["client_id"], m["group_instance_id"])
        for m in explanation["members"]
    }
    owners: dict[Partition, str] = {}
    for member in explanation["members"]:
        for task in member.get("active", ()):
            subtopology_id, _, number = task.rpartition("_")
            owners[subtopology_id, int(number)] = names[member["member_id"]]
    for row in () if owners else explanation["partitions"]:
        of = row.get("owners") or ([] if row["owner"] is None else [row["owner"]])
        if of:
            owners[row["topic"], row["partition"]] = " + ".join(sorted(names.get(one, one) for one in of))
    return owners
