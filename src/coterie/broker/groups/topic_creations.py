"""The internal topics of streams groups that are being created, and why the last attempt at one failed."""

from __future__ import annotations

from collections.abc import Iterable


class TopicCreations:
    """Each heartbeat requests them again: one attempt at a time, and its error is in the next response."""

    KEPT = 10_000  # errors

    def __init__(self) -> None:
        self._running: set[str] = set()
        self._errors: dict[str, str] = {}

    def begin(self, name: str) -> bool:
        """Whether an attempt is to begin: none is under way."""
        if name in self._running:
            return False
        self._running.add(name)
        return True

    def ended(self, name: str, error: str) -> None:
        """The attempt has ended, with an error or ""."""
        self._running.discard(name)
        self._errors.pop(name, None)
        if error and len(self._errors) < self.KEPT:
            self._errors[name] = error

    def of(self, names: Iterable[str]) -> dict[str, str]:
        """The errors of these topics."""
        return {name: self._errors[name] for name in names if name in self._errors}
