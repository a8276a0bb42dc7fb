"""The runs of a study in a file, a JSON line each, so that an interrupted study continues where it stopped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from coterie.laboratory.study.questions import StudyRow

# The rooms whose code a run's figures depend on.
ROOMS = (
    "assignors",
    "consuming",
    "coordinator",
    "laboratory",
    "log",
    "member",
    "records",
    "rocketmq",
    "wire",
    "zookeeper",
)
PACKAGE = Path(__file__).parents[2]


def code_digest(package: Path = PACKAGE) -> str:
    """A digest of the source of ROOMS: runs of one digest are comparable."""
    total = hashlib.sha256()
    for room in ROOMS:
        for path in sorted((package / room).rglob("*.py")):
            total.update(path.read_bytes())
    return total.hexdigest()[:16]


class RowFile:
    """The first line has the digest of the code. Raises UsageError for a file of other code, or of something else."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[StudyRow] = list(self._read())

    def _read(self) -> Iterator[StudyRow]:
        from coterie.laboratory.study.questions import StudyRow

        head = {"code": code_digest()}
        whole, _, torn = self.path.read_text("utf-8").rpartition("\n") if self.path.exists() else ("", "", "")
        try:
            first, *rows = map(json.loads, whole.splitlines() or [json.dumps(head)])
            if first != head:
                text = f"{self.path} holds runs of other code; name another file, or remove it."
                raise click.UsageError(text)
            yield from (StudyRow(**row) for row in rows)
        except (ValueError, TypeError) as error:
            raise click.UsageError(f"{self.path} does not hold the runs of a study; name another file.") from error
        if torn or not whole:  # the run before ended in the middle of a line
            self.path.write_text((whole or json.dumps(head)) + "\n", "utf-8")

    def keep(self, rows: Iterable[StudyRow]) -> Iterator[StudyRow]:
        """The same rows, each written as it passes."""
        with self.path.open("a", encoding="utf-8") as file:
            for row in rows:
                file.write(json.dumps(asdict(row)) + "\n")
                file.flush()
                self.rows.append(row)
                yield row
