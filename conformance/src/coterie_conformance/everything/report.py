"""The outcome of a run: scenarios to read, coverage, and the figures as data."""

from __future__ import annotations

from typing import Any

from coterie.certify.question import API_BY_NAME, written
from coterie.wire.apis import APIS
from coterie_conformance.differences.of_clusters import OF_CLUSTERS
from coterie_conformance.differences.row import Version
from coterie_conformance.differences.table import ROWS
from coterie_conformance.everything.comparison import Difference
from coterie_conformance.everything.generated.domains import BOUNDED, SHARED
from coterie_conformance.everything.generated.systematic import fields
from coterie_conformance.everything.judge import VALUES_KEPT, JudgeResult
from coterie_conformance.everything.run import HARMFUL

KINDS_OF_A_ROW = 30


def scenario(difference: Difference) -> str:
    """The story up to the question that was answered differently, with both responses."""
    names = [question.name for question in difference.story.questions]
    until = difference.story.questions[: names.index(difference.question.name) + 1]
    lines = [f"  {written(question)}" for question in until]
    return "\n".join([difference.signature(), *lines, *difference.text().splitlines()[1:]])


def coverage(verdict: JudgeResult) -> dict[str, dict[str, Any]]:
    """By api: its versions asked, how many fields and how many (version, field, class) of the systematic questions.

    ``refused``: the versions that were never answered without an error; ``one_value``: the fields of which no two values were
    in such requests. What depends on them was not compared. ``errors``: how many questions had which errors.
    """
    made: dict[str, dict[str, Any]] = {}
    for api in sorted({api for api, *_ in verdict.covered}):
        keys = [key for key in verdict.covered if key[0] == api]
        versions = {version for _, version, _, _ in keys}
        made[api] = {
            "versions": sorted(versions),
            "refused": sorted(versions - verdict.accepted.get(api, set())),
            "one_value": [] if api not in verdict.accepted else _with_one_value(api, versions, verdict),
            "fields": len({path for _, _, path, _ in keys if path}),
            "cases": len(keys),
            "questions": sum(verdict.covered[key] for key in keys),
            "errors": {code: met for (asked, code), met in verdict.errors.most_common() if asked == api},
        }
    return made


def _with_one_value(api: str, versions: set[int], verdict: JudgeResult) -> list[str]:
    requested = {
        path: None
        for version in sorted(versions)
        for path, spec in fields(api, API_BY_NAME[api].request, version)
        if spec.kind.shape is None and (spec.kind.element is None or spec.kind.element.shape is None)
    }
    return [path for path in requested if len(verdict.values.get((api, path), ())) < VALUES_KEPT]


def figures(verdict: JudgeResult) -> dict[str, Any]:
    """The report as data."""
    version = tuple(int(part) for part in verdict.version.split("."))
    used = {name for name, _ in verdict.rows}
    kinds = [
        {
            "kind": kind,
            "met": met,
            "about": " ".join(verdict.kinds[kind][0].question.covers),
            "scenario": scenario(verdict.kinds[kind][0]),
            "story": verdict.kinds[kind][0].story.as_json(),
        }
        for kind, met in verdict.met.most_common()
    ]
    return {
        "questions": verdict.requested,
        "stories": verdict.stories,
        "seconds": round(verdict.seconds, 1),
        "apis": len({api for api, *_ in verdict.covered}),
        "served": len([api for api in APIS.values() if not api.hidden]),
        "coverage": coverage(verdict),
        "differences": kinds,
        "rows": _rows(verdict),
        "not_requested": _not_requested(version),
        "unused_rows": [row.name for row in ROWS if row.since <= version < row.before and row.name not in used],
    }


def _rows(verdict: JudgeResult) -> dict[str, dict[str, Any]]:
    """By row: how often it explained a difference, why, and the kinds that it explained most often."""
    reasons = {row.name: row.reason for row in (*ROWS, *OF_CLUSTERS)}
    made: dict[str, dict[str, Any]] = {}
    for (name, kind), met in verdict.rows.most_common():
        row = made.setdefault(name, {"met": 0, "reason": reasons[name], "kinds": []})
        row["met"] += met
        if len(row["kinds"]) < KINDS_OF_A_ROW:
            example = written(verdict.explained[name, kind])
            row["kinds"].append({"kind": kind, "met": met, "question": example})
    return dict(sorted(made.items(), key=lambda item: -int(item[1]["met"])))


def _not_requested(version: Version) -> dict[str, str]:
    """The fields and APIs without a question in this part, on that version -> the reason."""
    shared = {f"{api}, {name}": reason for (api, name), reason in SHARED.items()}
    bounded = {
        f"{api or 'every API'}, {field}: any value but its own": reason for (api, field), reason in BOUNDED.items()
    }
    harmful = {f"{api}, {what}": reason for (api, what), (reason, before, _) in HARMFUL.items() if version < before}
    return shared | bounded | harmful
