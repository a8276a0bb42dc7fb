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
    return sorted(
        rows_of(fleet / "fleet_groups"), key=lambda r: (-(r["unowned_ms"] or 0), -r["rebalances"], r["group"])
    )


def causes(fleet: Path) -> list[Row]:
    """Each cause over all groups, the one that cost the most first."""
    rebalances, groups = Counter[str](), Counter[str]()
    unowned_ms: dict[str, int | None] = {}
    for row in rows_of(fleet / "fleet_causes"):
        rebalances[row["cause"]] += row["rebalances"]
        unowned_ms.setdefault(row["cause"], None)
        if row["unowned_ms"] is not None:
            unowned_ms[row["cause"]] = (unowned_ms[row["cause"]] or 0) + row["unowned_ms"]
        groups[row["cause"]] += 1
    return [
        {"cause": cause, "rebalances": rebalances[cause], "unowned_ms": unowned_ms[cause], "groups": groups[cause]}
        for cause in sorted(rebalances, key=lambda cause: (-(unowned_ms[cause] or 0), -rebalances[cause], cause))
    ]


def deploys(fleet: Path) -> list[Row]:
    """The costliest first."""
    return sorted(rows_of(fleet / "fleet_deploys"), key=lambda r: (-(r["unowned_ms"] or 0), r["from_ms"], r["group"]))


def known_span(ms: int | None) -> str:
    """A time, or that it is not known."""
    return "-" if ms is None else span(ms)


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
    rebalances, times = sum(r["rebalances"] for r in groups), [r["unowned_ms"] for r in groups]
    known = [ms for ms in times if ms is not None]
    unowned = f"{span(sum(known))} unowned" if known else "for how long partitions were unowned is not known"
    first_ms, last_ms = min(r["first_ms"] for r in groups), max(r["last_ms"] for r in groups)
    inferred = sum(r["inferred"] for r in groups) / rebalances
    counted = f"{quantity(len(groups), 'group')}, {quantity(rebalances, 'rebalance')}"
    when = f"from {_time(first_ms)} to {_time(last_ms)} UTC"
    return f"{counted} {when}, {unowned}; {inferred:.0%} of the causes are inferred."


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
            known_span(r["unowned_ms"]),
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
            known_span(r["unowned_ms"]),
            r["deploys"],
            known_span(r["deploy_unowned_ms"]),
            f"{cause_title(r['cause'])} ({known_span(r['cause_unowned_ms'])})",
        ]
        for r in rows[:ROWS_SHOWN]
    ]
    headers = ["group", "rebalances", "members", "moved", "unowned", "deploys", "unowned in them", "costliest cause"]
    note = f"{min(len(rows), ROWS_SHOWN)} of {quantity(len(rows), 'group')}, the longest unowned first."
    return Section("Groups", note, table(headers, cells, frozenset(range(1, 7))))


def _time(time_ms: int) -> str:
    return datetime.datetime.fromtimestamp(time_ms / 1000, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")
