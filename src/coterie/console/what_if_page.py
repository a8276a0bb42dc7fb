"""The what-if grid as a page: small multiples, one panel per measure, and the whole table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coterie.console.page import Section, table
from coterie.console.svg import Spread, small_multiples
from coterie.text.quantity import quantity

Row = Mapping[str, Any]

# Column, name, unit, by what to divide.
_PANELS = (
    ("rebalances", "Rebalances", "count", 1),
    ("unowned_ms", "Partitions without an owner", "partition-seconds", 1000),
    ("moved", "Partitions moved", "count", 1),
    ("duplicates", "Duplicates", "records", 1),
    ("mean_detection_ms", "Detection of a kill", "seconds", 1000),
    ("false_alarms", "Living members removed", "count", 1),
)
_AXES = (
    ("static", lambda v: "static" if v else "dynamic"),
    ("session_timeout_ms", lambda v: f"session {v / 1000:g} s"),
    ("heartbeat_interval_ms", lambda v: f"beat {v / 1000:g} s"),
    ("initial_delay_ms", lambda v: f"delay {v / 1000:g} s"),
    ("max_poll_interval_ms", lambda v: f"poll {v / 1000:g} s"),
    ("removal", str),
    ("members", lambda v: quantity(v, "member") if v else "all members"),
)
ROWS_SHOWN = 40


def sections(rows: Sequence[Row]) -> list[Section]:
    """``rows``: those of `by_setting`."""
    shown = rows[:ROWS_SHOWN]
    varied = _varied(rows)
    names = [", ".join(label(row[name]) for name, label in varied) or row["assignor"] for row in shown]
    panels = [
        (title, unit, [_spread(name, row, column, by) for name, row in zip(names, shown, strict=True)])
        for column, title, unit, by in _PANELS
        if any(row[column] for row in shown)
    ]
    seeds = rows[0]["seeds"] if rows else 0
    note = (
        f"Bars are means over {quantity(seeds, 'seed')}, the line within each goes from lowest to highest; shorter is better. "
        "Colour is the assignor; only cooperative-sticky keeps reading through a rebalance."
    )
    headers, cells, named = figures(rows)
    if len(rows) > ROWS_SHOWN:
        note += f" The first {ROWS_SHOWN} of {quantity(len(rows), 'setting')}; the table has all."
    return [
        Section("Costs by setting", note, small_multiples(panels, "costs by setting"), "what-if"),
        Section("Figures", _fixed(rows), table(headers, cells, frozenset(range(named, len(headers))))),
    ]


def _spread(name: str, row: Row, column: str, by: int) -> Spread:
    mean, low, high = (row[column] or 0, row[f"{column}_low"] or 0, row[f"{column}_high"] or 0)
    return Spread(name, row["assignor"], mean / by, low / by, high / by)


def _fixed(rows: Sequence[Row]) -> str:
    same = [label(rows[0][name]) for name, label in _AXES if rows and len({row[name] for row in rows}) == 1]
    return "The same everywhere: " + ", ".join(same) + "." if same else ""


def figures(rows: Sequence[Row]) -> tuple[list[str], list[list[str]], int]:
    """Headers, cells, and how many columns name the setting: those in which settings differ. For a page or a terminal."""
    varied = _varied(rows)
    headers = ["assignor", *(name.removesuffix("_ms").replace("_", " ") for name, _ in varied), "rebalances", "avoided"]
    headers += ["unowned", "moved", "duplicates", "detection", "false alarms"]
    cells = [
        [
            row["assignor"],
            *(label(row[name]) for name, label in varied),
            f"{row['rebalances']:,.0f}",
            f"{row['rebalances_avoided'] or 0:+,.0f}",
            f"{row['unowned_ms'] / 1000:,.0f} s",
            f"{row['moved']:,.0f}",
            f"{row['duplicates']:,.0f}",
            "-" if row["mean_detection_ms"] is None else f"{row['mean_detection_ms'] / 1000:.1f} s",
            f"{row['false_alarms']:,.0f}",
        ]
        for row in rows
    ]
    return headers, cells, 1 + len(varied)


def _varied(rows: Sequence[Row]) -> list[tuple[str, Any]]:
    return [(name, label) for name, label in _AXES if len({row[name] for row in rows}) > 1]
