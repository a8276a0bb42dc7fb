"""Who named the cause of each story of `./run conformance --part observe`, of docs/results/observe.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from reference_pages.markdown import table, text

RESULTS = Path(__file__).parents[1] / "results" / "observe.json"
Row = dict[str, Any]


def observed_stories() -> str:
    """One row for each story, with a column for each version of Apache Kafka."""
    by_version = versions(json.loads(RESULTS.read_text()))
    stories = dict.fromkeys(name for rows in by_version.values() for name in rows)
    cells = ([text(story), *(_named(rows.get(story)) for rows in by_version.values())] for story in stories)
    sums = [["**named by the observer alone**", *(_count(rows, "observer") for rows in by_version.values())]]
    sums.append(["**named with the proxy**", *(_count(rows, "both") for rows in by_version.values())])
    return table(("story, client", *by_version), [*cells, *sums])


def versions(results: Row) -> dict[str, dict[str, Row]]:
    """By version the rows of the part, by story."""
    return {part["kafka"]: {row["story"]: row for row in part["observe"]} for part in results["results"]}


def _named(row: Row | None) -> str:
    if row is None:
        return "-"
    return " and ".join(by for by in ("observer", "proxy") if row[by]) or "nobody"


def _count(rows: dict[str, Row], by: str) -> str:
    return f"**{sum(row[by] for row in rows.values())} of {len(rows)}**"
