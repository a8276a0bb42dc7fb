"""What the group coordinator of a broker alone uses of the transaction coordinator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class OpenTransactions(Protocol):
    """The transactions that are open, once they are loaded."""

    def orphans(self, pending: Iterable[tuple[int, int]], partition: tuple[str, int]) -> list[tuple[int, int]]:
        """Producers (id, epoch) without an open transaction that has the partition."""

    @property
    def loaded(self) -> bool: ...
