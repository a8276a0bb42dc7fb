"""How requests of each API and version are decoded; a route is made at its first use."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from coterie.wire.apis import APIS
from coterie.wire.codec import Decoder, decoder
from coterie.wire.primitives import WireError

UNREADABLE = (WireError, struct.error, IndexError, UnicodeDecodeError, MemoryError, OverflowError)


@dataclass(frozen=True, slots=True)
class Route:
    """``decode`` raises one of UNREADABLE for bytes that are no such request; ``tagged``: the request's header ends with a
    tag section."""

    name: str
    decode: Decoder
    tagged: bool


ROUTES: dict[tuple[int, int], Route] = {}  # by api key and version


def find_route(api_key: int, version: int) -> Route | None:
    """Makes a route and keeps it in ROUTES; None for an API or version that is not served."""
    api = APIS.get(api_key)
    if api is None or version not in api.advertised:
        return None
    route = Route(api.name, decoder(api.request, version), version in api.request.flexible)
    ROUTES[api_key, version] = route
    return route
