"""Which records of a partition of `__share_group_state` later ones have overridden (Kafka's ShareCoordinatorOffsetsManager)."""

from __future__ import annotations

from collections.abc import Hashable


class RedundantOffsets:
    """The offset of the newest snapshot of each state: what is below all of them may be deleted. A deleted state holds
    nothing back."""

    def __init__(self) -> None:
        self._newest: dict[Hashable, int] = {}
        self._last = 0

    def snapshot(self, key: Hashable, offset: int, *, deleted: bool = False) -> None:
        """A state has a snapshot at that offset, or its tombstone."""
        self._last = offset
        if deleted:
            self._newest.pop(key, None)
        else:
            self._newest[key] = offset

    def before(self) -> int | None:
        """The offset below which every record was overridden; None where that is not known."""
        return min(self._newest.values(), default=self._last) or None
