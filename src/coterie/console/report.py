"""The demo's report: one HTML file that needs no network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from coterie.console.page import Section, markup_text, page
from coterie.console.svg import Line, Mark, Stretch, bars, line_chart, timeline

_TIMELINE_NOTE = "A dashed line is a rebalance, numbered as in the table below; grey: the partition is unowned."


@dataclass(slots=True)
class Rebalance:
    """One row of the table of rebalances."""

    number: int
    time_s: float
    generation: int
    members: int
    took_ms: int
    moved: int
    why: str


@dataclass(slots=True)
class Report:
    """What the page shows. Times in seconds since the start."""

    title: str
    summary: str
    end_s: float
    checks: list[tuple[str, bool, str]] = field(default_factory=list)
    partitions: int = 0
    stretches: list[Stretch] = field(default_factory=list)
    rebalances: list[Rebalance] = field(default_factory=list)
    events: list[tuple[float, str]] = field(default_factory=list)
    lags: list[Line] = field(default_factory=list)
    table_title: str = ""
    table_unit: str = ""
    table: list[tuple[str, float]] = field(default_factory=list)


def render(report: Report) -> str:
    """The page."""
    marks = [Mark(r.time_s, str(r.number)) for r in report.rebalances]
    rows = [f"partition {p}" for p in range(report.partitions)]
    owners = timeline(rows, report.stretches, marks, report.end_s, "owners of each partition over time")
    lags = line_chart(report.lags, report.end_s, "lag of each group over time", "records")
    sections = [
        Section("Checks", "", _checks(report.checks)),
        Section("Owners of each partition", _TIMELINE_NOTE, owners),
        Section("Rebalances", "", _rebalances(report.rebalances)),
        Section("Events", "", _events(report.events)),
        Section("Lag", "Records produced but not yet committed.", lags),
        Section(report.table_title, "", bars(report.table, report.table_title, report.table_unit)),
    ]
    return page(report.title, report.summary, sections)


def _checks(checks: Sequence[tuple[str, bool, str]]) -> str:
    rows = "".join(
        f"<tr><td>{markup_text(name)}</td><td class='{'right' if right else 'wrong'}'>{'right' if right else 'WRONG'}</td>"
        f"<td>{markup_text(detail)}</td></tr>"
        for name, right, detail in checks
    )
    return f"<table><tr><th>what</th><th></th><th>figure</th></tr>{rows}</table>"


def _rebalances(rebalances: Sequence[Rebalance]) -> str:
    rows = "".join(
        f"<tr><td class='n'>{r.number}</td><td class='n'>{r.time_s:.1f} s</td><td class='n'>{r.generation}</td>"
        f"<td class='n'>{r.members}</td><td class='n'>{r.took_ms:,} ms</td><td class='n'>{r.moved}</td>"
        f"<td>{markup_text(r.why)}</td></tr>"
        for r in rebalances
    )
    head = "<tr><th>#</th><th>at</th><th>generation</th><th>members</th><th>took</th><th>moved</th><th>why</th></tr>"
    return f"<table>{head}{rows}</table>"


def _events(events: Sequence[tuple[float, str]]) -> str:
    rows = "".join(f"<tr><td class='n'>{time_s:.1f} s</td><td>{markup_text(text)}</td></tr>" for time_s, text in events)
    return f"<table>{rows}</table>"
