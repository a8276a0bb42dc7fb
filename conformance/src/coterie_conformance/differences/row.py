"""A row of the table of known differences."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from coterie_conformance.differences.recognisers import DifferingPart

Version = tuple[int, ...]
NEWEST: Version = (99,)


@dataclass(frozen=True, slots=True)
class KnownDifference:
    """``apis`` and ``path`` are regular expressions over the whole api name and the part's path without names.

    ``before`` and ``since``: the versions of Kafka, the first that is not meant and the first that is. ``lasting``: what the
    brokers keep differs since, so that a strict story ends with it.
    """

    name: str
    reason: str
    apis: str
    path: str
    recognises: Callable[[DifferingPart], bool] = lambda _case: True
    since: Version = ()
    before: Version = NEWEST
    lasting: bool = False

    def explains(self, case: DifferingPart, version: Version) -> bool:
        """Whether the row is about that version, API and path, and recognises the difference."""
        return (
            self.since <= version < self.before
            and re.fullmatch(self.apis, case.question.api) is not None
            and re.fullmatch(self.path, case.part.general()) is not None
            and self.recognises(case)
        )
