"""All groups of a cluster over the whole of a history: what their rebalances cost, by group, by cause and by deploy.
Frame -> Frame, and the job."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.coordinator.journal.line import DEPARTURES, JournalLine
from coterie.coordinator.journal.patterns import INFERRED, RESTART_MS, UNKNOWN, Life, is_deploy, restarts_of
from coterie.pipeline.history.job import frames_of
from coterie.pipeline.history.reading.record_sources import JOURNAL, RECORD_BYTES
from coterie.pipeline.history.rebalances import ENDS
from coterie.pipeline.history.tables import FLEET_CAUSES, FLEET_DEPLOYS, FLEET_GROUPS, REBALANCES, TENURES
from coterie.pipeline.tables.files import row_count
from coterie.pipeline.tables.frame import Frame, Frames, arrow_schema
from coterie.records.arrow_arrays import batch_of_rows, table_of_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]
LIVES = "group string, time_ms bigint, member_id string, client_id string, has_come boolean"
SETTLED_MS = 60_000  # a rebalance so soon after the last member has come is of the deploy
SOURCES = ("rebalances", "tenures", "journal", "observed")


def run_fleet(spark: SparkSession | None, history: Path, out: Path) -> dict[str, int]:
    """Makes FLEET_TABLES of the history in that folder; returns their row counts. ``spark`` None: in this process."""
    frames = frames_of(spark)
    rebalances = frames.read(history / "rebalances", REBALANCES)
    lives = _lives(frames, history)
    tables = {
        "fleet_groups": rebalances.cogroup(lives, "group", _of_group, FLEET_GROUPS),
        "fleet_causes": rebalances.group(["group"], _of_causes, FLEET_CAUSES),
        "fleet_deploys": rebalances.cogroup(lives, "group", _of_deploys, FLEET_DEPLOYS),
    }
    for name, frame in tables.items():
        frame.write(out / name, files=1)
    return {name: row_count(out / name) for name in tables}


def input_bytes(history: Path) -> int:
    """An estimate of what a run works on, by the number of rows."""
    return sum(row_count(history / name) for name in SOURCES) * RECORD_BYTES


# -- when members came and went -----------------------------------------------------------------------------------------------


def _lives(frames: Frames, history: Path) -> Frame:
    """By the offsets, which know client ids, and by the lines of journals; a member may be in both."""
    lives = frames.read(history / "tenures", TENURES).map(_of_tenures, LIVES)
    for name in ("journal", "observed"):
        lives = lives.union(frames.read(history / name, JOURNAL).map(_of_lines, LIVES))
    return lives


def _of_tenures(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        rows = []
        for row in batch.to_pylist():
            known = {name: row[name] for name in ("group", "member_id", "client_id")}
            rows.append(known | {"time_ms": row["from_ms"], "has_come": True})
            if row["until_ms"] is not None:
                rows.append(known | {"time_ms": row["until_ms"], "has_come": False})
        yield batch_of_rows(rows, arrow_schema(LIVES))


def _of_lines(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        rows = [row for value in batch.column("value").to_pylist() for row in _of_line(value)]
        yield batch_of_rows(rows, arrow_schema(LIVES))


def _of_line(value: bytes | None) -> Iterator[Row]:
    try:
        line = JournalLine.from_json(value or b"")
    except (ValueError, TypeError):
        return
    if line.event not in ENDS:
        return
    for cause in line.causes:
        has_come = cause["kind"] == "member_joined"
        if (has_come or cause["kind"] in DEPARTURES) and cause.get("client_id"):
            yield {
                "group": line.group,
                "time_ms": line.time_ms,
                "member_id": cause.get("member_id", ""),
                "client_id": cause["client_id"],
                "has_come": has_come,
            }


# -- a group -----------------------------------------------------------------------------------------------------------


def _of_group(rebalances: Any, lives: Any) -> Any:
    row = group_row(rebalances.to_pylist(), lives.to_pylist())
    return table_of_rows([] if row is None else [row], arrow_schema(FLEET_GROUPS))


def _of_causes(key: tuple[Any, ...], rebalances: Any) -> Any:
    return table_of_rows(cause_rows(rebalances.to_pylist()), arrow_schema(FLEET_CAUSES))


def _of_deploys(rebalances: Any, lives: Any) -> Any:
    return table_of_rows(deploy_rows(rebalances.to_pylist(), lives.to_pylist()), arrow_schema(FLEET_DEPLOYS))


def group_row(rebalances: list[Row], lives: list[Row]) -> Row | None:
    """FLEET_GROUPS of one group; None where it never rebalanced."""
    if not rebalances:
        return None
    deploys = deploy_rows(rebalances, lives)
    worst = max(cause_rows(rebalances), key=lambda row: (row["unowned_ms"] or 0, row["rebalances"], row["cause"]))
    origins = Counter(row["origin"] for row in rebalances)
    known = origins[INFERRED] + origins[UNKNOWN] + origins[None]
    return {
        "group": rebalances[0]["group"],
        "rebalances": len(rebalances),
        "unowned_ms": _known(rebalances, "unowned_ms"),
        "undetected_ms": _known(rebalances, "undetected_ms"),
        "moved": _sum(rebalances, "moved"),
        "members": max(row["members"] or 0 for row in rebalances),
        "deploys": len(deploys),
        "deploy_unowned_ms": _known(deploys, "unowned_ms") if deploys else 0,
        "cause": worst["cause"],
        "cause_unowned_ms": worst["unowned_ms"],
        "stated": len(rebalances) - known,
        "inferred": origins[INFERRED],
        "unknown": origins[UNKNOWN] + origins[None],
        "first_ms": min(row["time_ms"] for row in rebalances),
        "last_ms": max(row["time_ms"] for row in rebalances),
    }


def cause_rows(rebalances: list[Row]) -> list[Row]:
    """FLEET_CAUSES of one group."""
    by_cause: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rebalances:
        by_cause[row["cause"] or UNKNOWN].append(row)
    return [
        {
            "group": rows[0]["group"],
            "cause": cause,
            "rebalances": len(rows),
            "unowned_ms": _known(rows, "unowned_ms"),
            "moved": _sum(rows, "moved"),
        }
        for cause, rows in sorted(by_cause.items())
    ]


def deploy_rows(rebalances: list[Row], lives: list[Row]) -> list[Row]:
    """FLEET_DEPLOYS of one group, by the observer's rule."""
    rows = []
    for churn in _churns(lives):
        from_ms, until_ms = churn[0].time_ms, churn[-1].time_ms
        cost = [row for row in rebalances if from_ms <= row["time_ms"] <= until_ms + SETTLED_MS]
        members = max((row["members"] or 0 for row in cost), default=0)
        restarts = restarts_of(churn)
        if cost and is_deploy(restarts, members):
            rows.append(
                {
                    "group": cost[0]["group"],
                    "from_ms": from_ms,
                    "until_ms": until_ms,
                    "restarted": restarts.first.total(),
                    "members": members,
                    "rebalances": len(cost),
                    "unowned_ms": _known(cost, "unowned_ms"),
                    "moved": _sum(cost, "moved"),
                }
            )
    return rows


def _churns(lives: list[Row]) -> Iterator[list[Life]]:
    """Stretches of comings and goings, each of which begins with a member that goes; a pause of RESTART_MS divides them."""
    churn: list[Life] = []
    once = {(row["member_id"], row["has_come"]): row for row in sorted(lives, key=lambda row: -row["time_ms"])}
    for row in sorted(once.values(), key=lambda row: (row["time_ms"], row["has_come"])):
        if churn and row["time_ms"] - churn[-1].time_ms > RESTART_MS:
            yield churn
            churn = []
        if churn or not row["has_come"]:
            churn.append(Life(row["time_ms"], row["member_id"], row["client_id"] or "", row["has_come"]))
    if churn:
        yield churn


def _sum(rows: Iterable[Row], column: str) -> int:
    return sum(row[column] or 0 for row in rows)


def _known(rows: Iterable[Row], column: str) -> int | None:
    """The sum of the values that are known; None where none is, as times are not by the offsets alone."""
    values = [row[column] for row in rows if row[column] is not None]
    return sum(values) if values else None
