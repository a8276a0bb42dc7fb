"""What a long run has done so far, in a file: a line of JSON that names the run, then one for each result, so that the same
command resumes an interrupted run."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import click

Document = dict[str, Any]


class KeptLines:
    """``head`` names the run; ``results``: what earlier runs have kept.

    Raises UsageError for a file that is not one of such results, or has those of another run; ClickException for one that
    cannot be read."""

    def __init__(self, path: Path, head: Document) -> None:
        self._path = path
        try:
            text = path.read_text(errors="replace") if path.exists() else ""
            self._load(text[: text.rfind("\n") + 1], head)  # of half a line the process ended while it wrote it
        except OSError as error:
            raise click.ClickException(f"{path}: {error.strerror}") from error

    def _load(self, text: str, head: Document) -> None:
        try:
            documents = [dict(json.loads(line)) for line in text.splitlines()]
        except (ValueError, TypeError) as error:
            raise self.refused() from error
        if documents and documents[0].keys() != head.keys():
            raise self.refused()
        if documents and documents[0] != head:
            story, *settings = documents[0].items()
            other = " and --".join([str(story[1]), *(f"{name} {value}" for name, value in settings)])
            raise click.UsageError(f"{self._path} has results of {other}; name another file.")
        self.results = documents[1:]
        self._path.write_text(text or json.dumps(head) + "\n")

    def refused(self) -> click.UsageError:
        """The error of a file with other lines."""
        return click.UsageError(f"{self._path} has no results of this command; name another file.")

    def add(self, result: Document) -> None:
        """Appends a line."""
        with self._path.open("a") as file:
            file.write(json.dumps(result) + "\n")


def commit_of_source() -> str:
    """The commit of this source tree, or the version of an installed package."""
    here = Path(__file__).parent
    finished = subprocess.run(["git", "-C", str(here), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    if finished.returncode == 0:
        return finished.stdout.strip()
    from importlib.metadata import version

    return f"of coterie {version('coterie')}"
