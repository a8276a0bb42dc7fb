"""A broker that partitions are fetched from, as the fetching machine knows it."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.consuming.fetching.effects import SendFetch, SendValidation
from coterie.consuming.fetching.session import FetchSession


@dataclass(slots=True)
class FetchNode:
    """``session_lost``: the last response was that the session is lost, and the request after it is under way or due."""

    session: FetchSession
    in_flight: SendFetch | None = None
    validating: SendValidation | None = None
    session_lost: bool = False
