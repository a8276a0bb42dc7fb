"""What the group coordinator uses of the transaction coordinator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from coterie.wire.messages.transactions.txn_offset_commit import TxnOffsetCommitRequest


class OpenTransactions(Protocol):
    """The transactions that are open, once they are loaded."""

    def verify_offsets(self, request: TxnOffsetCommitRequest, version: int) -> None:
        """Raises Refusal where the request is not part of an ongoing transaction."""

    def orphans(self, pending: Iterable[tuple[int, int]], partition: tuple[str, int]) -> list[tuple[int, int]]:
        """Producers (id, epoch) without an open transaction that has the partition."""

    @property
    def loaded(self) -> bool: ...
