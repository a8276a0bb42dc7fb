"""All groups of a cluster on one page: where partitions had no owner, by which causes, and what deploys cost."""

from __future__ import annotations

import datetime
from collections import Counter
from pathlib import Path
from typing import Any

from coterie.console.page import Section, table
from coterie.console.svg import bars
from coterie.coordinator.journal.line import CAUSE_TITLES
from coterie.pipeline.tables.files import rows_of
from coterie.text.quantity import quantity, span

BARS_SHOWN, ROWS_SHOWN = 20, 100
Row = Any  # of a table


def ranked(fleet: Path) -> list[Row]:
    """The groups, the longest unowned first."""
    return sorted(rows_of(fleet / "fleet_groups"), key=lambda r: (-r["unowned_ms"], -r["rebalances"], r["group"]))


def causes(fleet: Path) -> list[Row]:
    """Each cause over all groups, the one that cost the most first."""
    rebalances, unowned_ms, groups = Counter[str](), Counter[str](), Counter[str]()
    for row in rows_of(fleet / "fleet_causes"):
        rebalances[row["cause"]] += row["rebalances"]
        unowned_ms[row["cause"]] += row["unowned_ms"]
        groups[row["cause"]] += 1
    return [
        {"cause": cause, "rebalances": rebalances[cause], "unowned_ms": unowned_ms[cause], "groups": groups[cause]}
        for cause in sorted(rebalances, key=lambda cause: (-unowned_ms[cause], -rebalances[cause], cause))
    ]


def deploys(fleet: Path) -> list[Row]:
    """The costliest first."""
    return sorted(rows_of(fleet / "fleet_deploys"), key=lambda r: (-r["unowned_ms"], r["from_ms"], r["group"]))


def cause_title(cause: str) -> str:
    """In words."""
    return CAUSE_TITLES.get(cause, cause)


def sections(fleet: Path) -> list[Section]:
    """From FLEET_TABLES in that folder."""
    groups, by_cause, by_deploy = ranked(fleet), causes(fleet), deploys(fleet)
    unowned = [(r["group"], r["unowned_ms"] / 1000) for r in groups[:BARS_SHOWN] if r["unowned_ms"]]
    costs = [(cause_title(r["cause"]), r["unowned_ms"] / 1000) for r in by_cause if r["unowned_ms"]]
    counts = [(cause_title(r["cause"]), float(r["rebalances"])) for r in by_cause]
    note = "For how long partitions had no live owner, summed over partitions"
    of_groups, of_causes = bars(unowned, note, "s"), bars(costs, note, "s")
    first = f"{note}; a rebalance counts under its first cause."
    made = [
        Section("Time unowned by group", f"{note}, of the groups that were so for longest.", of_groups, "unowned"),
        Section("Time unowned by cause", first, of_causes, "causes"),
        Section(
            "Rebalances by cause", "Of all groups.", bars(counts, "rebalances by cause", "rebalances"), "rebalances"
        ),
        _deploys(by_deploy),
        _groups(groups),
    ]
    return [section for section in made if section is not None]


def summary(fleet: Path) -> str:
    """A sentence for the head of the page."""
    groups = ranked(fleet)
    rebalances, unowned_ms = sum(r["rebalances"] for r in groups), sum(r["unowned_ms"] for r in groups)
    first_ms, last_ms = min(r["first_ms"] for r in groups), max(r["last_ms"] for r in groups)
    inferred = sum(r["inferred"] for r in groups) / rebalances
    counted = f"{quantity(len(groups), 'group')}, {quantity(rebalances, 'rebalance')}"
    when = f"from {_time(first_ms)} to {_time(last_ms)} UTC"
    return f"{counted} {when}, {span(unowned_ms)} unowned; {inferred:.0%} of the causes are inferred."


def _deploys(rows: list[Row]) -> Section | None:
    if not rows:
        return None
    cells = [
        [
            r["group"],
            _time(r["from_ms"]),
            span(r["until_ms"] - r["from_ms"]),
            f"{r['restarted']} of {r['members']}",
            r["rebalances"],
            r["moved"],
            span(r["unowned_ms"]),
        ]
        for r in rows[:ROWS_SHOWN]
    ]
    headers = ["group", "from (UTC)", "took", "restarted", "rebalances", "moved", "unowned"]
    note = f"{quantity(len(rows), 'deploy')}, the costliest first: members went and came again under their client ids."
    return Section("Deploys", note, table(headers, cells, frozenset(range(2, 7))))


def _groups(rows: list[Row]) -> Section:
    cells = [
        [
            r["group"],
            r["rebalances"],
            r["members"],
            r["moved"],
            span(r["unowned_ms"]),
            r["deploys"],
            span(r["deploy_unowned_ms"]),
            f"{cause_title(r['cause'])} ({span(r['cause_unowned_ms'])})",
        ]
        for r in rows[:ROWS_SHOWN]
    ]
    headers = ["group", "rebalances", "members", "moved", "unowned", "deploys", "unowned in them", "costliest cause"]
    note = f"{min(len(rows), ROWS_SHOWN)} of {quantity(len(rows), 'group')}, the longest unowned first."
    return Section("Groups", note, table(headers, cells, frozenset(range(1, 7))))


def _time(time_ms: int) -> str:
    return datetime.datetime.fromtimestamp(time_ms / 1000, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")
