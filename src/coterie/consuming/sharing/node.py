"""A broker that records are acquired from, as the sharing machine knows it."""

from __future__ import annotations

from dataclasses import dataclass, field

from coterie.consuming.sharing.acknowledgements import Acknowledgements, AcknowledgeType, TopicIdPartition
from coterie.consuming.sharing.effects import SendShare
from coterie.consuming.sharing.session import SharingSession
from coterie.wire.errors import ErrorCode


@dataclass(slots=True)
class ShareNode:
    """``with_fetch``: acknowledgements that the next ShareFetch carries; ``queued``: the ones for ShareAcknowledge, in order.
    ``retry_at_ms``: no request before, after ``failures`` in a row. ``closing``: the session ends once nothing is queued.
    ``renewed``: partition and offset of records that the user has in hand again."""

    session: SharingSession = field(default_factory=SharingSession)
    in_flight: SendShare | None = None
    with_fetch: dict[TopicIdPartition, Acknowledgements] = field(default_factory=dict)
    queued: list[Acknowledgements] = field(default_factory=list)
    failures: int = 0
    retry_at_ms: float = float("-inf")
    closing: bool = False
    renewed: set[tuple[TopicIdPartition, int]] = field(default_factory=set)

    def carry(self, acknowledged: Acknowledgements) -> None:
        """The next ShareFetch takes them."""
        former = self.with_fetch.setdefault(acknowledged.partition, acknowledged)
        if former is not acknowledged:
            former.types |= acknowledged.types

    def took(self, acknowledged: Acknowledgements, code: ErrorCode) -> None:
        """The acknowledgements have ended: renewed records are in hand again, all others are not."""
        for offset, type in acknowledged.types.items():
            change = self.renewed.add if type == AcknowledgeType.RENEW and not code else self.renewed.discard
            change((acknowledged.partition, offset))

    def take_carried(self) -> list[Acknowledgements]:
        """The acknowledgements of the next ShareFetch."""
        carried, self.with_fetch = list(self.with_fetch.values()), {}
        return carried

    def take_queued(self) -> list[Acknowledgements]:
        """The acknowledgements of the next ShareAcknowledge: one of each partition, so that each has a result of its own."""
        carried: dict[TopicIdPartition, Acknowledgements] = {}
        for acknowledged in self.queued:
            carried.setdefault(acknowledged.partition, acknowledged)
        self.queued = [acknowledged for acknowledged in self.queued if acknowledged not in carried.values()]
        return list(carried.values())
