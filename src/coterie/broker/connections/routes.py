"""How requests of each API and version are decoded, and their responses written; a route is made at its first use."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from coterie.wire.apis import APIS, CLUSTER_APIS, Api
from coterie.wire.codec import Decoder, decoder
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.framing import API_VERSIONS_KEY, ResponseFrame, response_frame
from coterie.wire.primitives import WireError

UNREADABLE = (WireError, struct.error, IndexError, UnicodeDecodeError, MemoryError, OverflowError)
HEARTBEATS = frozenset({12, 68, 76, 88})  # api keys: Heartbeat, and those of consumer, share and streams groups
_KEY = struct.Struct(">hh")


@dataclass(frozen=True, slots=True)
class Route:
    """``decode`` raises one of UNREADABLE for bytes that are no such request; ``tagged``: the request's header ends with a
    tag section; ``is_heartbeat``: its request only says that a member is there; ``frame`` makes the bytes of a response."""

    api_key: int
    version: int
    name: str
    decode: Decoder
    tagged: bool
    is_heartbeat: bool
    frame: ResponseFrame


ROUTES: dict[bytes, Route] = {}  # by the first bytes of a header, which are the api key and the version


def find_route(api_key: int, version: int) -> Route | None:
    """Makes a route and keeps it in ROUTES; None for an API or version that is not served."""
    key = _KEY.pack(api_key, version)
    route = ROUTES.get(key)
    if route is not None:
        return route
    api = APIS.get(api_key) or CLUSTER_APIS.get(api_key)
    if api is None:
        return None
    if version not in api.advertised:
        return _other_api_versions(api, version) if api_key == API_VERSIONS_KEY else None
    tagged = version in api.request.flexible
    frame = response_frame(api.response, version)
    route = ROUTES[key] = Route(
        api_key, version, api.name, decoder(api.request, version), tagged, api_key in HEARTBEATS, frame
    )
    return route


def _other_api_versions(api: Api, version: int) -> Route:
    """Of a version that is not served: it is not read, and the response is one of version 0 (KIP-511)."""
    request = api.request()

    def unread(data: bytes, at: int, room: int = 0) -> tuple[Any, int]:
        return request, at

    return Route(api.key, version, api.name, unread, False, False, response_frame(api.response, 0))


def server_error(response: Message) -> Message:
    """UNKNOWN_SERVER_ERROR in the shape of a response (scenario testInvokeJoinCallbackFails)."""
    failed = type(response)()
    if hasattr(failed, "error_code"):
        failed.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
    return failed
