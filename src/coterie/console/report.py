"""The demo's report: one HTML file that needs no network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from coterie.console.page import Markup, Section, element, page, table
from coterie.console.svg import Line, bars, line_chart
from coterie.console.timeline_page import TIMELINE_NOTE, timeline_section
from coterie.coordinator.journal.timeline import Timeline

_BROKERS_NOTE = "The leader of a group's partition is its coordinator. Hatched: the partition has no leader."


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


@dataclass(frozen=True, slots=True)
class LeaderMove:
    """One row of the table of partitions whose leader was killed. ``without_s``: from the kill until there was another leader;
    ``of_group``: it has the group's offsets."""

    time_s: float
    partition: int
    of_group: bool
    former: int
    leader: int
    without_s: float


@dataclass(slots=True)
class Report:
    """What the page shows. Times in seconds since the start."""

    title: str
    summary: str
    end_s: float
    checks: list[tuple[str, bool, str]] = field(default_factory=list)
    owners: Timeline | None = None
    rebalances: list[Rebalance] = field(default_factory=list)
    events: list[tuple[float, str]] = field(default_factory=list)
    lags: list[Line] = field(default_factory=list)
    leaders: Timeline | None = None  # of the partitions of the offsets, with several brokers
    leader_moves: list[LeaderMove] = field(default_factory=list)
    table_title: str = ""
    table_unit: str = ""
    table: list[tuple[str, float]] = field(default_factory=list)


def render(report: Report) -> Markup:
    """The page."""
    lags = line_chart(report.lags, report.end_s, "lag of each group over time", "records")
    sections = [
        Section("Checks", "", _checks(report.checks)),
        *(
            []
            if report.owners is None
            else [timeline_section("Owners of each partition", TIMELINE_NOTE, report.owners)]
        ),
        Section("Rebalances", "", _rebalances(report.rebalances)),
        *([] if report.leaders is None else _brokers(report.leaders, report.leader_moves)),
        Section("Events", "", table([], [(f"{s:.1f} s", text) for s, text in report.events], frozenset({0}))),
        Section("Lag", "Records produced but not yet committed.", lags),
        Section(report.table_title, "", bars(report.table, report.table_title, report.table_unit)),
    ]
    return page(report.title, report.summary, sections)


def _checks(checks: Sequence[tuple[str, bool, str]]) -> Markup:
    results = {True: element("span", "right", css="right"), False: element("span", "WRONG", css="wrong")}
    return table(["what", "", "figure"], [(name, results[right], detail) for name, right, detail in checks])


def _rebalances(rebalances: Sequence[Rebalance]) -> Markup:
    rows = [
        (r.number, f"{r.time_s:.1f} s", r.generation, r.members, f"{r.took_ms:,} ms", r.moved, r.why)
        for r in rebalances
    ]
    return table(["#", "at", "generation", "members", "took", "moved", "why"], rows, frozenset(range(6)))


def _brokers(leaders: Timeline, leader_moves: Sequence[LeaderMove]) -> list[Section]:
    moves = [
        (f"{m.time_s:.1f} s", m.partition, m.former, m.leader, f"{m.without_s:.1f} s", "crew" if m.of_group else "")
        for m in leader_moves
    ]
    heads = ["at", "partition", "from broker", "to broker", "without a leader", "group"]
    return [
        timeline_section("Brokers: who leads each partition of the offsets", _BROKERS_NOTE, leaders),
        Section("What moved when the coordinator was killed", "", table(heads, moves, frozenset(range(5)))),
    ]
