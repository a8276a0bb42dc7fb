"""How ten clients did in the stories of `coterie certify-client`, of docs/results/certify-client.json, which
`./run conformance --part certify-client --json` prints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reference_pages.markdown import table, text

RESULTS = Path(__file__).parents[1] / "results" / "certify-client.json"
Row = dict[str, Any]


def certified_clients() -> str:
    """One row for each client, with its counts as a consumer and as a producer, and the stories that were wrong in the first of
    two runs alone."""
    by_client: dict[str, dict[str, Row]] = {}
    for row in _rows():
        by_client.setdefault(row["client"], {})[row["role"]] = row
    cells = (
        [text(client), *_counts(of.get("consumer")), *_counts(of.get("producer")), text(", ".join(_once(of)) or "-")]
        for client, of in by_client.items()
    )
    heading = ("consumer: right", "wrong", "not met", "producer: right", "wrong", "not met", "wrong in one run of two")
    return table(("client", *heading), cells)


def certified_defects() -> str:
    """One row for each defect of a client's, with the stories and rules that show it."""
    by_defect: dict[tuple[str, str, str, str], list[Row]] = {}
    for row in _rows():
        for finding in row["wrong"]:
            key = (row["client"], row["role"], finding["defect"], finding["report"])
            by_defect.setdefault(key, []).append(finding)
    return table(("client", "what happens", "stories", "rules", "reported"), _defect_rows(by_defect))


def _defect_rows(by_defect: dict[tuple[str, str, str, str], list[Row]]) -> Iterator[list[str]]:
    for (client, role, defect, report), findings in by_defect.items():
        stories, rules = (", ".join(dict.fromkeys(finding[key] for finding in findings)) for key in ("story", "rule"))
        what = defect or "not explained yet: " + findings[0]["text"]
        yield [text(client), text(f"{role}: {what}"), text(stories), text(rules), text(report or "-")]


def _rows() -> list[Row]:
    """Of every client that was run, by role."""
    (part,) = json.loads(RESULTS.read_text())["results"]
    rows: list[Row] = part["certify_client"]
    return rows


def _once(of_role: dict[str, Row]) -> list[str]:
    return [story for row in of_role.values() for story in row["once"]]


def _counts(row: Row | None) -> list[str]:
    if row is None or row["skipped"]:
        return ["-", "-", "-"]
    wrong = len({finding["story"] for finding in row["wrong"]})
    not_met = len(row["not_met"])
    return [str(row["stories"] - wrong - not_met), str(wrong), str(not_met)]
