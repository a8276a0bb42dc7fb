"""From what was seen to the report: owners between rebalances, lags, causes, Spark's table."""

from __future__ import annotations

import time
from collections import defaultdict
from pathlib import Path

from coterie.console.report import Rebalance, Report, render
from coterie.console.svg import Line
from coterie.coordinator.journal.journal_timeline import timelines
from coterie.coordinator.journal.timeline import TimelineMark
from coterie.demo.checks import Check
from coterie.demo.failover import ClusterWatch, leader_moves, leadership
from coterie.demo.view import plain
from coterie.demo.watcher import Watch
from coterie.text.quantity import quantity

TOP_KEYS = 20


def write_report(
    path: Path,
    watch: Watch,
    events: list[tuple[int, str]],
    checks: list[Check],
    table: Path,
    flights: bool,
    cluster: ClusterWatch | None = None,
) -> None:
    """Writes the HTML page; ``cluster`` where there are several brokers."""
    start_ms = events[0][0]
    last_ms = watch.samples[-1].time_ms if watch.samples else start_ms
    end_s = (last_ms - start_ms) / 1000
    crew = timelines(line for line in watch.journal if line.group == "crew").get("crew")
    if crew is not None:
        crew.timeline.reach(start_ms, last_ms)
        crew.timeline.moments = [TimelineMark(time_ms, text) for time_ms, text in events]
    title, unit, rows = _flight_bars(table) if flights else _key_bars(table)
    report = Report(
        "coterie demo",
        f"{quantity(watch.samples[-1].produced if watch.samples else 0, 'record')}, {end_s:.0f} s, "
        f"{time.strftime('%Y-%m-%d %H:%M', time.localtime(start_ms / 1000))}",
        end_s,
        checks=[(c.name, c.right, c.detail) for c in checks],
        owners=None if crew is None else crew.timeline,
        rebalances=_rebalances(watch, start_ms),
        events=[((ms - start_ms) / 1000, text) for ms, text in events],
        lags=[_lag(watch, group, start_ms) for group in ("crew", "delays")],
        table_title=title,
        table_unit=unit,
        table=rows,
    )
    if cluster is not None:
        report.leaders = leadership(cluster, start_ms, last_ms)
        report.leader_moves = leader_moves(cluster, start_ms)
    path.write_text(render(report))


def _rebalances(watch: Watch, start_ms: int) -> list[Rebalance]:
    return [
        Rebalance(
            number,
            (line.time_ms - start_ms) / 1000,
            line.generation,
            members=line.members or 0,
            took_ms=(line.join_ms or 0) + (line.sync_ms or 0),
            moved=line.moved_count or 0,
            why=plain(line.why()),
        )
        for number, line in enumerate(watch.rebalances(), 1)
    ]


def _lag(watch: Watch, group: str, start_ms: int) -> Line:
    points = [
        ((s.time_ms - start_ms) / 1000, float(lag)) for s in watch.samples if (lag := s.lags.get(group)) is not None
    ]
    return Line(f"group {group}", points)


def _flight_bars(table: Path) -> tuple[str, str, list[tuple[str, float]]]:
    import pyarrow.parquet as pq

    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for row in pq.read_table(table).to_pylist():
        sums[row["carrier"]][0] += row["dep_delay_sum"]
        sums[row["carrier"]][1] += row["departed"]
    means = [(carrier, total / count if count else 0.0) for carrier, (total, count) in sums.items()]
    return (
        "Spark's table: mean departure delay per carrier",
        "minutes, over all flights that departed",
        sorted(means, key=lambda m: -m[1]),
    )


def _key_bars(table: Path) -> tuple[str, str, list[tuple[str, float]]]:
    import pyarrow.parquet as pq

    rows = sorted(pq.read_table(table).to_pylist(), key=lambda r: -r["records"])[:TOP_KEYS]
    bars = [(str(r["key"]) if r["key"] is not None else "(no key)", float(r["records"])) for r in rows]
    return f"Spark's table: records per key, the {len(bars)} most frequent", "records", bars
