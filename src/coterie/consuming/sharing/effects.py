"""What the sharing machine requests of its driver."""

from __future__ import annotations

from dataclasses import dataclass, field

from coterie.consuming.sharing.acknowledgements import Acknowledgements
from coterie.wire.messages.share.share_acknowledge import ShareAcknowledgeRequest
from coterie.wire.messages.share.share_fetch import ShareFetchRequest


@dataclass(frozen=True, slots=True, eq=False)
class SendShare:
    """Send the request to that broker, then call `Sharing.responded` or `Sharing.failed`. ``carried``: the acknowledgements in
    it. A request with ``request.is_renew_ack`` needs version 2 of its API."""

    node_id: int
    request: ShareFetchRequest | ShareAcknowledgeRequest
    carried: list[Acknowledgements] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class RefreshLeaders:
    """Request the metadata of these topics, then call `Sharing.leaders_refreshed`, also where that failed."""

    topics: frozenset[str]


SharingEffect = SendShare | RefreshLeaders
