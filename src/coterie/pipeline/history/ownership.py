"""The owner of each partition over time, and the lifetimes of members. Frame -> Frame.

From the offsets alone: a generation begins when its assignment is stored. What a rebalance itself took is in `rebalances`.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from coterie.pipeline.history.tables import FLAPPING, OWNERSHIP, TENURES
from coterie.pipeline.tables.frame import Frame, arrow_schema
from coterie.records.arrow_arrays import table_of_rows

Row = dict[str, Any]
SHORT_LIFE_MS = 5 * 60 * 1000
FLAPPING_LIVES = 3


def ownership(assignments: Frame, generations: Frame) -> Frame:
    """ASSIGNMENTS, GENERATIONS -> OWNERSHIP."""

    def run(rows: Any, states: Any) -> Any:
        keys = ("group", "topic", "partition", "member_id", "client_id")
        return table_of_rows(list(stretches(rows, states, keys)), arrow_schema(OWNERSHIP))

    return assignments.cogroup(generations, "group", run, OWNERSHIP)


def tenures(members: Frame, generations: Frame) -> Frame:
    """MEMBERS, GENERATIONS -> TENURES."""

    def run(rows: Any, states: Any) -> Any:
        keys = ("group", "member_id", "client_id", "client_host")
        return table_of_rows(list(stretches(rows, states, keys)), arrow_schema(TENURES))

    return members.cogroup(generations, "group", run, TENURES)


def stretches(rows: Any, generations: Any, keys: Sequence[str]) -> Iterator[Row]:
    """A row for each stretch of neighbouring states of a group in which the same keys occur: the columns of OWNERSHIP and
    TENURES. ``rows``: ASSIGNMENTS or MEMBERS of the group; ``generations``: its GENERATIONS."""
    states = _states(generations)
    current: dict[tuple[Any, ...], tuple[int, Row]] = {}
    for batch in rows.sort_by("log_offset").to_batches(max_chunksize=BATCH_ROWS):
        for row in batch.to_pylist():
            if row["log_offset"] not in states:
                continue
            ordinal, next_ms = states[row["log_offset"]]
            key = tuple(row[name] for name in keys)
            last, stretch = current.get(key, (-1, {}))
            if not last <= ordinal <= last + 1 or not stretch:
                if stretch:
                    yield stretch
                stretch = {name: row[name] for name in keys} | _begun(row)
            else:
                _prolong(stretch, row, 0 if ordinal == last else 1)
            stretch["until_ms"] = next_ms
            current[key] = ordinal, stretch
    for _, stretch in current.values():
        yield stretch


BATCH_ROWS = 10_000


def _states(generations: Any) -> dict[int, tuple[int, int | None]]:
    """By log offset each stored state's ordinal among its group's, and when the next one begins. Of a group that changed its
    protocol (KIP-848) the tombstone is not a state: the members go on in the next one, stored with it."""
    rows = generations.select(["log_offset", "time_ms", "deleted"]).sort_by("log_offset").to_pylist()
    following = [*(row["time_ms"] for row in rows[1:]), None]
    states = [row for row, then in zip(rows, following, strict=True) if not (row["deleted"] and then == row["time_ms"])]
    ends = [*(row["time_ms"] for row in states[1:]), None]
    return {row["log_offset"]: (ordinal, ends[ordinal]) for ordinal, row in enumerate(states)}


def _begun(row: Row) -> Row:
    return {
        "from_ms": row["time_ms"],
        "first_generation": row["generation"],
        "last_generation": row["generation"],
        "generations": 1,
        "group_instance_id": row.get("group_instance_id"),
    }


def _prolong(stretch: Row, row: Row, states: int) -> None:
    stretch["from_ms"] = min(stretch["from_ms"], row["time_ms"])
    stretch["first_generation"] = min(stretch["first_generation"], row["generation"])
    stretch["last_generation"] = max(stretch["last_generation"], row["generation"])
    stretch["generations"] += states
    stretch["group_instance_id"] = stretch["group_instance_id"] or row.get("group_instance_id")


def flapping(tenures: Frame) -> Frame:
    """TENURES -> FLAPPING: clients of which three or more member ids lived shorter than five minutes."""

    def run(key: tuple[Any, ...], table: Any) -> Any:
        return table_of_rows(list(flapping_rows(table.to_pylist())), arrow_schema(FLAPPING))

    return tenures.group(["group"], run, FLAPPING)


def flapping_rows(tenures: Sequence[Row]) -> Iterator[Row]:
    """FLAPPING of one group's TENURES."""
    clients: dict[tuple[Any, ...], list[Row]] = {}
    for row in tenures:
        clients.setdefault((row["group"], row["client_id"], row["client_host"]), []).append(row)
    for (group, client_id, client_host), rows in clients.items():
        lives = [row["until_ms"] - row["from_ms"] for row in rows if row["until_ms"] is not None]
        short_lives = sum(life < SHORT_LIFE_MS for life in lives)
        if short_lives >= FLAPPING_LIVES:
            yield {
                "group": group,
                "client_id": client_id,
                "client_host": client_host,
                "lives": len(rows),
                "short_lives": short_lives,
                "median_life_ms": float(statistics.median(lives)),
                "first_ms": min(row["from_ms"] for row in rows),
                "last_ms": max(row["from_ms"] if row["until_ms"] is None else row["until_ms"] for row in rows),
            }
