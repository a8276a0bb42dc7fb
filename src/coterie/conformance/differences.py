"""The differences that are known, each with its reason: one table for the group stories and for `everything`.

A row recognises one part of one answer: the api, the place in it, the values on both sides, and the versions of Kafka.
Whatever no row recognises is a failure; a row that recognises nothing in a full run is reported, so that it goes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coterie.conformance.everything.answers import Part
    from coterie.conformance.everything.question import Question

Version = tuple[int, ...]
NEWEST: Version = (99,)


@dataclass(frozen=True, slots=True)
class Row:
    """``apis`` and ``path`` are regular expressions over the whole api name and the part's place without names.

    ``before`` and ``since``: the versions of Kafka, the first that is not meant and the first that is.
    """

    name: str
    reason: str
    apis: str
    path: str
    recognises: Callable[[Question, Part], bool] = lambda _question, _part: True
    since: Version = ()
    before: Version = NEWEST

    def explains(self, question: Question, part: Part, version: Version) -> bool:
        return (
            self.since <= version < self.before
            and re.fullmatch(self.apis, question.api) is not None
            and re.fullmatch(self.path, part.general()) is not None
            and self.recognises(question, part)
        )


ROWS: tuple[Row, ...] = (
    Row("order", "Kafka keeps these in hash maps, whose order it does not define", ".*", r".*\.order"),
)


def row_of(question: Question, part: Part, version: Version) -> Row | None:
    """The first row that explains this part."""
    return next((row for row in ROWS if row.explains(question, part, version)), None)
