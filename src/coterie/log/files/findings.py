"""Defects of a data folder, as data: the log's loading makes findings, a driver reports them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """``file`` relative to the data folder; ``position`` in bytes, None for the file as a whole; ``problem`` and ``action``
    are clauses: what does not fit, and what loading did about it."""

    file: str
    position: int | None
    problem: str
    action: str

    def __str__(self) -> str:
        where = self.file if self.position is None else f"{self.file} at byte {self.position}"
        return f"{where}: {self.problem}; {self.action}"


Report = Callable[[Finding], None]


def unreported(finding: Finding) -> None:
    """A `Report` that drops its findings."""


class UnreadableFile(ValueError):
    """A file that cannot be rebuilt; the message has its name and the remedy."""

    def __init__(self, file: str, problem: str, remedy: str) -> None:
        super().__init__(f"{file} cannot be read: {problem}; {remedy}")
        self.file, self.problem, self.remedy = file, problem, remedy
