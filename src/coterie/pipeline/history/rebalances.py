"""Rebalances, from the journal, a broker's log, an observer's journal, or the stored generations. Frame -> Frame.

The journal is exact; an observer's has causes with their evidence. A broker's log (`server_log`) knows causes and phases, and
nothing of partitions. The generations alone know who came and went and what moved, and no more of the time than when the new
assignment was stored. A log and the generations together know for how long partitions were unowned
(`coordinator/journal/generations`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from coterie.coordinator.journal.generations import GenerationChange, GroupOwnership, member_name, stored_change
from coterie.coordinator.journal.line import DEPARTURES, JournalLine
from coterie.coordinator.journal.patterns import OBSERVED
from coterie.machines.ownership import UnownedSpell
from coterie.pipeline.history.group_metadata import stored_value
from coterie.pipeline.history.reading.decoding import CONSUMER_GROUP
from coterie.pipeline.history.tables import BROKER, REBALANCES, origin_in_offsets
from coterie.pipeline.tables.frame import Frame, arrow_schema
from coterie.records.arrow_arrays import batch_of_rows, table_of_rows
from coterie.wire.messages.stored.consumer_offsets import GroupMetadataValue

Row = dict[str, Any]
SOURCES = ("journal", "server_log", "observer", "offsets")  # the better one first
# The lines that end a rebalance; of a consumer group (KIP-848) the one that begins it, since its members end it one by one. A
# group that only changed its protocol did not rebalance.
ENDS = ("stable", "empty", "epoch_raised")
SAME_MS = 60_000  # two tellings of a generation no further apart are of the same rebalance


# -- the journal ------------------------------------------------------------------------------------------------------------


def from_journal(records: Frame, source: str) -> Frame:
    """Records of a journal (value, offset) -> REBALANCES: the lines that end a rebalance. ``source``: "journal" for the
    broker's, "observer" for one from outside."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            values, offsets = batch.column("value").to_pylist(), batch.column("offset").to_pylist()
            rows = [row for v, o in zip(values, offsets, strict=True) for row in journal_rows(v, o, source)]
            yield batch_of_rows(rows, arrow_schema(REBALANCES))

    return records.map(run, REBALANCES)


def journal_rows(value: bytes | None, log_offset: int, source: str) -> Iterator[Row]:
    """A row for a line that ends a rebalance; none for another."""
    try:
        line = JournalLine.from_json(value or b"")
    except (ValueError, TypeError):
        return
    if line.event not in ENDS or [cause["kind"] for cause in line.causes] == ["upgraded"]:
        return
    kinds = [cause["kind"] for cause in line.causes]
    joined = sum(kind in ("member_joined", "static_member_returned") for kind in kinds)
    departed = sum(kind in DEPARTURES for kind in kinds)
    yield {
        "group": line.group,
        "generation": line.generation,
        "source": source,
        "origin": BROKER if source == "journal" else line.causes[0].get("evidence", OBSERVED) if line.causes else None,
        "event": line.event,
        "time_ms": line.time_ms,
        "members": line.members,
        "leader": line.leader,
        "protocol": line.protocol,
        "cause": kinds[0] if kinds else None,
        "why": line.why(),
        "causes": len(kinds),
        "joined": joined,
        "departed": departed,
        "join_ms": line.join_ms,
        "sync_ms": line.sync_ms,
        "moved": line.moved_count,
        "unowned": line.unowned_count,
        "unowned_ms": line.unowned_ms,
        "undetected_ms": line.undetected_ms,
        "log_offset": log_offset,
    }


def journal_log_events(lines: Iterable[JournalLine]) -> Iterator[Row]:
    """The lines of one classic group, in order -> LOG_EVENTS: when each rebalance started, and who was removed."""
    started_ms, removed, silent = None, list[tuple[str, int]](), list[str]()
    for line in lines:
        if line.event == "rebalance_started" and started_ms is None:
            started_ms = line.time_ms
        elif line.event == "member_removed" and line.causes:
            member_id = line.causes[0].get("member_id", "")
            removed.append((member_id, line.time_ms))
            silent += [member_id] if line.causes[0]["kind"] == "session_timeout" else []
        elif line.event in ("stable", "empty"):
            yield {
                "generation": line.generation,
                "time_ms": line.time_ms,
                "started_ms": started_ms,
                "removed": [member_id for member_id, _ in removed],
                "removed_ms": [time_ms for _, time_ms in removed],
                "silent": silent,
            }
            started_ms, removed, silent = None, [], []


# -- the stored generations ---------------------------------------------------------------------------------------------------


def from_generations(group_log: Frame, log_events: Frame) -> Frame:
    """GROUP_LOG, LOG_EVENTS -> REBALANCES, by what changed from one stored state of a group to the next; times by the log."""

    def run(states: Any, events: Any) -> Any:
        rows = [
            row for row in states.sort_by("log_offset").to_pylist() if row["kind"] == "group" or row["value"] is None
        ]
        return table_of_rows(list(generation_rows(rows, events.to_pylist())), arrow_schema(REBALANCES))

    states = group_log.where("kind", "group", CONSUMER_GROUP)
    return states.cogroup(log_events, "group", run, REBALANCES)


def generation_rows(rows: list[Row], log_events: Iterable[Row] = ()) -> Iterator[Row]:
    """REBALANCES of one group. ``rows``: its GROUP_LOG, in order; ``log_events``: its LOG_EVENTS."""
    for generation in _generations(rows, log_events):
        of_states = _between(generation.before, generation.now, generation.row)
        yield of_states | _counted(generation.change, is_timed=generation.is_timed)


def unowned_spells(rows: list[Row], log_events: Iterable[Row]) -> list[UnownedSpell]:
    """The times in which each partition of a group was unowned, as far as the starts of its rebalances are known; their sums
    are those of `generation_rows`."""
    return [
        spell for generation in _generations(rows, log_events) if generation.is_timed for spell in generation.spells
    ]


class _Generation(NamedTuple):
    """A stored generation, the one before it, and what it changed; ``is_timed``: whether the log has its rebalance."""

    before: GroupMetadataValue | None
    now: GroupMetadataValue
    row: Row
    change: GenerationChange
    spells: list[UnownedSpell]
    is_timed: bool


def _generations(rows: list[Row], log_events: Iterable[Row]) -> Iterator[_Generation]:
    """Of a group's time as a consumer group the tombstones count. A state that is stored with them is that of a group that
    became classic, which is no rebalance."""
    before: GroupMetadataValue | None = None
    ownership, converted_ms = GroupOwnership(), -1
    events: dict[int, list[Row]] = {}
    for event in log_events:
        events.setdefault(event["generation"], []).append(event)
    for row in rows:
        if row["kind"] == CONSUMER_GROUP:
            converted_ms = row["time_ms"]
            continue
        now = stored_value(row["value"])
        if before is None and row["time_ms"] == converted_ms:
            before = now
            if now is not None:
                ownership.stored(now, row["time_ms"])
            continue
        if now is None or (before is not None and now.generation == before.generation and _same_members(before, now)):
            if now is None:
                ownership = GroupOwnership()
            else:
                ownership.returned((m.member_id, m.group_instance_id) for m in now.members)
            before = now  # a tombstone, or a static member's new id: no rebalance
            continue
        # Kafka 4 also stores a group before it has any member.
        if now.members or (before is not None and before.members):
            of_log = _nearest(events.get(now.generation, ()), row["time_ms"])
            ownership.times.spells = []
            change = _changed(ownership, before, now, row["time_ms"], of_log)
            yield _Generation(before, now, row, change, ownership.times.spells, of_log is not None)
        before = now


def _nearest(events: Iterable[Row], time_ms: int) -> Row | None:
    """The event of the same rebalance, if its beginning is known."""
    near = [e for e in events if e["started_ms"] is not None and abs(e["time_ms"] - time_ms) <= SAME_MS]
    return min(near, key=lambda e: abs(e["time_ms"] - time_ms), default=None)


def _changed(
    ownership: GroupOwnership,
    before: GroupMetadataValue | None,
    now: GroupMetadataValue,
    time_ms: int,
    event: Row | None,
) -> GenerationChange:
    """What the generation changed; its times are of no use without an event. Who was removed and stands in no line of the log
    was so at the end of the rebalance."""
    if event is None:
        return ownership.stored(now, time_ms)
    known = dict(zip(event["removed"], event["removed_ms"], strict=True))
    ownership.started(event["started_ms"])
    for m in stored_change(before, now).departed:
        removed_ms = known[m.member_id] if m.member_id in known else event["time_ms"]
        ownership.removed(m.member_id, removed_ms, is_silent=m.member_id in event["silent"])
    return ownership.stored(now, event["time_ms"])


def _counted(change: GenerationChange, *, is_timed: bool) -> Row:
    times = {"unowned_ms": change.unowned_ms, "undetected_ms": change.undetected_ms}
    return {"moved": change.moved, "unowned": change.unowned} | (times if is_timed else {})


def _same_members(before: GroupMetadataValue, now: GroupMetadataValue) -> bool:
    return len(before.members) == len(now.members)


def _between(before: GroupMetadataValue | None, now: GroupMetadataValue, row: Row) -> Row:
    change = stored_change(before, now)
    joined, departed = list(map(member_name, change.joined)), list(map(member_name, change.departed))
    causes = [("member_joined", f"{n} joined") for n in joined]
    causes += [("member_gone", f"{n} left or was removed") for n in departed]
    if not causes:
        causes += [
            ("subscription_changed", f"{member_name(m)} changed its subscription") for _, m in change.resubscribed
        ]
    if not causes:
        causes = [("leader_rejoined", "the same members: the leader requested it, or partitions were added")]
    return {
        "group": row["group"],
        "generation": now.generation,
        "source": "offsets",
        "origin": origin_in_offsets(causes[0][0]),
        "event": "stable" if now.members else "empty",
        "time_ms": row["time_ms"],
        "members": len(now.members),
        "leader": now.leader,
        "protocol": now.protocol,
        "cause": causes[0][0],
        "why": "; ".join(text for _, text in causes),
        "causes": len(causes),
        "joined": len(joined),
        "departed": len(departed),
        "log_offset": row["log_offset"],
    }


# -- together -----------------------------------------------------------------------------------------------------------------


def from_best_source(rebalances: Frame) -> Frame:
    """REBALANCES of several sources -> REBALANCES, one row per rebalance, from the best source; what only another one knows
    (moved, members, the assignor) is taken from there."""

    def run(key: tuple[Any, ...], table: Any) -> Any:
        return table_of_rows(list(best_rows(table.to_pylist())), arrow_schema(REBALANCES))

    return rebalances.group(["group"], run, REBALANCES)


_OF_ANY_SOURCE = (
    "leader",
    "protocol",
    "join_ms",
    "sync_ms",
    "unowned_ms",
    "undetected_ms",
    "members",
    "moved",
    "joined",
    "departed",
    "unowned",
)


def best_rows(rows: Iterable[Row]) -> Iterator[Row]:
    """REBALANCES of one group from several sources -> one of each rebalance."""
    tellings: list[list[Row]] = []
    latest: dict[int, list[Row]] = {}  # by generation
    for row in sorted(rows, key=lambda row: (row["time_ms"], row["log_offset"] or 0)):
        same = latest.get(row["generation"])
        # Generations begin again with a group that was deleted: the time separates them.
        if same is None or row["time_ms"] - same[-1]["time_ms"] > SAME_MS:
            same = latest[row["generation"]] = []
            tellings.append(same)
        same.append(row)
    for told_of in tellings:
        ranked = sorted(told_of, key=lambda row: SOURCES.index(row["source"]))
        filled = {name: next((row[name] for row in ranked if row[name] is not None), None) for name in _OF_ANY_SOURCE}
        yield ranked[0] | filled
