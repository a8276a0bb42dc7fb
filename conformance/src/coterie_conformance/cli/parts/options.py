"""What the parts of `coterie-conformance compare` share: their options, and a check's line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coterie.console.terminal import write_line

Figures = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PartOptions:
    """The options of the command line for a part; ``version`` is empty for one that chooses by itself what it runs.
    ``brokers``: how many of ours stand beside one of Apache Kafka's."""

    folder: Path
    version: str
    steps: int
    seed: int
    as_json: bool
    questions: int = 100_000
    apis: tuple[str, ...] = ()
    replay: Path | None = None
    record: bool = False
    strikes: int = 30
    minutes: float = 5.0
    clients: tuple[str, ...] = ()
    is_alone: bool = False
    brokers: int = 1
    results: Path | None = None


def write_check(name: str, wrong: str) -> None:
    """One line about one check; ``wrong`` is empty where it is right."""
    write_line(f"{'WRONG' if wrong else 'right'}  {name}{': ' + wrong if wrong else ''}", err=True)
