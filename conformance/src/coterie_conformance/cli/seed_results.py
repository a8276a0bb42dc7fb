"""The results of `coterie-conformance stories` in a file, so that an interrupted run resumes: a line of JSON that names the
stories, then one for each seed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

Result = tuple[int, dict[str, Any], str]  # seed, report, failure


class SeedResults:
    """``passed``: seed -> its report. A seed that failed is not among them, and so runs again.

    Raises UsageError for a file that is not one of results, or has those of other stories; ClickException for one that
    cannot be read."""

    def __init__(self, path: Path, story: str, minutes: float) -> None:
        self._path, self._head = path, {"of": story, "minutes": minutes}
        self.passed: dict[int, dict[str, Any]] = {}
        try:
            self._load()
        except OSError as error:
            raise click.ClickException(f"{path}: {error.strerror}") from error

    def _load(self) -> None:
        lines = self._path.read_text(errors="replace").splitlines(keepends=True) if self._path.exists() else []
        if lines and not lines[-1].endswith("\n"):
            lines.pop()  # the process ended while it wrote
        try:
            documents = [json.loads(line) for line in lines]
            head, results = (documents[0], documents[1:]) if documents else (self._head, [])
            kept = [(int(r["seed"]), dict(r["report"]), r["failure"]) for r in results]
        except (ValueError, KeyError, TypeError) as error:
            raise click.UsageError(f"{self._path} has no results of stories; name another file.") from error
        if head != self._head:
            other = f"{head.get('of')} and --minutes {head.get('minutes')}"
            raise click.UsageError(f"{self._path} has results of {other}; name another file.")
        self.passed = {seed: report for seed, report, failure in kept if not failure}
        self._path.write_text("".join(lines) or json.dumps(self._head) + "\n")

    def add(self, result: Result, commit: str) -> None:
        """Appends a line; ``commit``: of the source that ran."""
        seed, report, failure = result
        with self._path.open("a") as file:
            file.write(json.dumps({"seed": seed, "report": report, "failure": failure, "commit": commit}) + "\n")
