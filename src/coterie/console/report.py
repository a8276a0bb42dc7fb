"""The demo's report: one HTML file that needs no network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from coterie.console.svg import Line, Mark, Stretch, bars, line_chart, timeline

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff;
  max-width: 1000px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.6em; margin-bottom: .2em; }
h2 { font-size: 1.15em; margin-top: 2em; }
p.note { color: #555; margin-top: .2em; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { text-align: left; padding: .3em .6em; border-bottom: 1px solid #ddd; vertical-align: top; }
td.n { text-align: right; white-space: nowrap; }
.right { color: #00694d; font-weight: 600; }
.wrong { color: #b00020; font-weight: 600; }
svg { width: 100%; height: auto; font: 13px system-ui, sans-serif; }
svg .small { font-size: 11px; fill: #333; }
svg .bold { font-weight: 600; }
svg .axis { stroke: #666; }
svg .grid { stroke: #ddd; }
svg .mark { stroke: #1a1a1a; stroke-dasharray: 3 3; }
svg .empty { fill: #f4f4f4; }
"""


_TIMELINE_NOTE = (
    "A dashed line is a rebalance, numbered as in the table below; grey means that nobody owned the partition."
)


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
    parts = [
        f"<h1>{escape(report.title)}</h1><p class='note'>{escape(report.summary)}</p>",
        "<h2>Checks</h2>" + _checks(report.checks),
        f"<h2>Who owned which partition</h2><p class='note'>{_TIMELINE_NOTE}</p>",
        timeline(rows, report.stretches, marks, report.end_s, "owners of each partition over time"),
        "<h2>Rebalances</h2>" + _rebalances(report.rebalances),
        "<h2>What the demo did</h2>" + _events(report.events),
        "<h2>Lag</h2><p class='note'>Records produced but not yet committed.</p>",
        line_chart(report.lags, report.end_s, "lag of each group over time", "records"),
        f"<h2>{escape(report.table_title)}</h2>",
        bars(report.table, report.table_title, report.table_unit),
    ]
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        f"<title>{escape(report.title)}</title><style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def _checks(checks: Sequence[tuple[str, bool, str]]) -> str:
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td class='{'right' if right else 'wrong'}'>{'right' if right else 'WRONG'}</td>"
        f"<td>{escape(said)}</td></tr>"
        for name, right, said in checks
    )
    return f"<table><tr><th>what</th><th></th><th>figure</th></tr>{rows}</table>"


def _rebalances(rebalances: Sequence[Rebalance]) -> str:
    rows = "".join(
        f"<tr><td class='n'>{r.number}</td><td class='n'>{r.time_s:.1f} s</td><td class='n'>{r.generation}</td>"
        f"<td class='n'>{r.members}</td><td class='n'>{r.took_ms:,} ms</td><td class='n'>{r.moved}</td>"
        f"<td>{escape(r.why)}</td></tr>"
        for r in rebalances
    )
    head = "<tr><th>#</th><th>at</th><th>generation</th><th>members</th><th>took</th><th>moved</th><th>why</th></tr>"
    return f"<table>{head}{rows}</table>"


def _events(events: Sequence[tuple[float, str]]) -> str:
    rows = "".join(f"<tr><td class='n'>{time_s:.1f} s</td><td>{escape(text)}</td></tr>" for time_s, text in events)
    return f"<table>{rows}</table>"
