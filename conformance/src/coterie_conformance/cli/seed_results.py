"""The results of `coterie-conformance stories` in a file, a line of JSON for each seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coterie_conformance.cli.kept_lines import KeptLines

Result = tuple[int, dict[str, Any], str]  # seed, report, failure


class SeedResults:
    """``passed``: seed -> its report. A seed that failed is not among them, and so runs again. Raises as `KeptLines`."""

    def __init__(self, path: Path, story: str, minutes: float) -> None:
        self._lines = KeptLines(path, {"of": story, "minutes": minutes})
        try:
            kept = [(int(r["seed"]), dict(r["report"]), r["failure"]) for r in self._lines.results]
        except (ValueError, KeyError, TypeError) as error:
            raise self._lines.refused() from error
        self.passed: dict[int, dict[str, Any]] = {seed: report for seed, report, failure in kept if not failure}

    def add(self, result: Result, commit: str) -> None:
        """Appends a line; ``commit``: of the source that ran."""
        seed, report, failure = result
        self._lines.add({"seed": seed, "report": report, "failure": failure, "commit": commit})
