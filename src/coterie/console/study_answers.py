"""The study's texts: Markdown templates (study_text/) with named cells, so that every figure in them is one of the results.

A cell is `${workload | setting | measure}`; a fourth part names a size, where the question has groups of several sizes. The
measure `megabytes` is a thousandth of `kilobytes`. A plain `${name}` is a size, or another value of `values`.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from coterie.laboratory.study.spread import Cell

SESSIONS_S = (6, 10, 20, 30, 45, 90)
ZOOKEEPER_SHOWN = 300  # members: the size that most studies have


class CellTemplate(string.Template):
    """`${...}` may hold anything but braces."""

    braceidpattern = r"[^{}]+"


@dataclass(frozen=True, slots=True)
class StudyAnswer:
    """A question's answer: one sentence, and the paragraphs about it."""

    sentence: str
    details: str


class Cells(Mapping[str, str]):
    """One question's cells as figures, by the names that the templates have for them."""

    def __init__(self, cells: Sequence[Cell], values: Mapping[str, str] | None = None) -> None:
        self.cells = cells
        self._by_name = {(c.workload, c.setting, c.members): c for c in cells}
        self._values = {} if values is None else values

    def mean(self, workload: str, setting: str, measure: str, members: int | None = None) -> float:
        """Raises KeyError for a cell that is not there."""
        size = self.cells[0].members if members is None else members
        return self._by_name[workload, setting, size].mean(measure)

    def largest(self, setting: str, workload: str) -> int:
        """The largest group that had come to rest."""
        return max(
            (c.members for c in self.cells if (c.setting, c.workload) == (setting, workload) and c.mean("formed") == 1),
            default=0,
        )

    def __getitem__(self, name: str) -> str:
        workload, *rest = (part.strip() for part in name.split("|"))
        if not rest:
            return self._values[workload]
        setting, measure, *size = rest
        members = int(self._values[size[0]].replace(",", "")) if size else None
        if measure == "megabytes":
            return _megabytes(self.mean(workload, setting, "kilobytes", members))
        return figure(self.mean(workload, setting, measure, members))

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def figure(value: float) -> str:
    """As a sentence has it: three digits at most after the first."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def _megabytes(kilobytes: float) -> str:
    return f"{kilobytes / 1000:,.0f}" if kilobytes >= 10_000 else f"{kilobytes / 1000:.1f}"


def text(name: str, values: Mapping[str, str]) -> str:
    """A template filled. Raises KeyError for a cell or value that is not there."""
    template = files("coterie.console").joinpath("study_text", f"{name}.md").read_text("utf-8")
    return CellTemplate(template).substitute(values)


def study_answer(question: int, cells: Sequence[Cell]) -> StudyAnswer:
    """The answer to a question from its cells. Raises KeyError where a cell of its text is missing."""
    sentence, _, details = text(str(question), Cells(cells, values(question, cells))).partition("\n---\n")
    return StudyAnswer(sentence.strip(), details.strip())


def values(question: int, cells: Sequence[Cell]) -> dict[str, str]:
    """What a text of this question names beside cells."""
    of = Cells(cells)
    if question == 4:
        best_s = min(SESSIONS_S, key=lambda s: of.mean(f"session {s} s", "eager", "unowned_s"))
        return {"best_session_s": str(best_s)}
    if question == 5:
        zookeeper = of.largest("ZooKeeper", "one joins")
        sizes = {
            "smallest": min(c.members for c in cells),
            "n": min(of.largest("eager", "one joins"), of.largest("RocketMQ", "one joins")),
            "zookeeper_largest": zookeeper,
            "zookeeper_shown": min(ZOOKEEPER_SHOWN, zookeeper),
        }
        return {name: f"{size:,}" for name, size in sizes.items()}
    return {}
