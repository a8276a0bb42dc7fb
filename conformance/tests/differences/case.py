"""A difference of two responses, and the row of the table of known differences that explains it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from coterie.certify.question import Question
from coterie.certify.responses import differences
from coterie_conformance.differences.recognisers import DifferingPart
from coterie_conformance.differences.table import row_of

V2, V3, V4 = (2, 6, 3), (3, 9, 1), (4, 3, 0)


@dataclass(frozen=True)
class Case:
    """``row`` is the row's name, "" for none; ``body`` the question's, asked in version ``requested``, and ``covers`` the field
    and class of value that it is about."""

    api: str
    ours: Any
    theirs: Any
    _: KW_ONLY
    row: str = ""
    kafka: tuple[int, ...] = V4
    body: Mapping[str, Any] = field(default_factory=dict)
    covers: tuple[str, str] = ("", "")
    requested: int = 1

    def rows(self) -> set[str]:
        """The names of the rows that explain the parts of the difference."""
        question = Question("q", self.api, self.requested, dict(self.body), covers=self.covers)
        parts = [DifferingPart(question, part, self.ours, self.theirs) for part in differences(self.ours, self.theirs)]
        rows = [row_of(part, self.kafka) for part in parts]
        return {row.name if row is not None else "" for row in rows}
