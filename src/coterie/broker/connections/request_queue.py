"""A connection's requests in their order: each is decoded and handed to its handler, and the responses are encoded. A route,
how requests of one API and version are decoded and their responses written, is made at its first use.

A response that is there at once is encoded at once, unless others wait before it; a `Pending` stays in the queue until it has
its response. A request that cannot be served raises CannotRespond, for which its own connection is closed and no other.
"""

from __future__ import annotations

import logging
import struct
from dataclasses import dataclass
from sys import intern
from time import monotonic as time_s
from typing import Any, NamedTuple, Protocol

from coterie.broker.clients.throttling import SHARE_FETCH, THROTTLED_BY_HANDLERS
from coterie.broker.handlers.services import Handler, Services
from coterie.broker.requests.calls import Authentication, Call, CannotRespond, ClientConnection
from coterie.broker.requests.pending import NO_RESPONSE, Pending
from coterie.wire.apis import APIS, CLUSTER_APIS, Api
from coterie.wire.codec import Decoder, decoder, unreadable
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.framing import API_VERSIONS_KEY, ResponseFrame, read_head, response_frame, skip_tags
from coterie.wire.primitives import WireError

logger = logging.getLogger(__name__)

UNREADABLE = (WireError, struct.error, IndexError, UnicodeDecodeError, MemoryError, OverflowError)
HEARTBEATS = frozenset({12, 68, 76, 88})  # api keys: Heartbeat, and those of consumer, share and streams groups
_KEY = struct.Struct(">hh")
MAX_WAITING = 200  # requests of one connection that wait for their responses
MOST_HEARTBEAT_BYTES = 512  # of one that is kept
_SIZE = struct.Struct(">i")
_REST_AT = 12  # in a frame: behind the size, the api key, the version and the correlation id


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


class Server(Services, Protocol):
    """What the requests of a connection use of the broker. ``max_elements``: coterie.request.max.elements."""

    handlers: dict[int, Handler]
    max_elements: int


class _Heartbeat(NamedTuple):
    """A heartbeat with the bytes behind its correlation id, of which it was read."""

    route: Route
    rest: bytes
    request: Message
    call: Call


class RequestQueue:
    """``latest``: the call of the latest request; it serves the next one too where the header is the same but for the
    correlation id, as most are; a heartbeat that is the same as the one before is not decoded again. ``waiting``: the requests
    without a response, in their order. ``out``: the frames of responses that are not written yet."""

    __slots__ = ("_body_at", "_broker", "_client", "_heartbeat", "latest", "out", "throttle_ms", "waiting")

    def __init__(self, broker: Server, connection: ClientConnection) -> None:
        self._broker = broker
        self.latest = Call(-1, "", connection)
        self._client, self._body_at = b"", 0  # the end of its header, and where its body began (0: there was none)
        self._heartbeat: _Heartbeat | None = None  # the latest
        # By correlation id, at most MAX_WAITING; not a deque, of which an empty one takes 0.6 KiB.
        self.waiting: list[tuple[int, Route, Pending, int]] = []  # the last: how long its client is throttled, in ms
        self.throttle_ms = 0  # of the responses in ``out``, until the connection is muted for it
        self.out: bytes | bytearray = b""

    @property
    def is_full(self) -> bool:
        """Whether too many requests wait."""
        return len(self.waiting) >= MAX_WAITING

    @property
    def last_in_turns(self) -> bool:
        """Whether the last request that waits is carried out in turns."""
        return bool(self.waiting) and self.waiting[-1][2].in_turns

    def handle(self, frame: bytes) -> Pending | None:
        """Hands one frame, its size included, to its handler; returns a response that comes later, by `take_responded`. Raises
        CannotRespond."""
        route, kept = ROUTES.get(frame[4:8]), self._heartbeat
        if kept is not None and (kept.route is not route or kept.rest != frame[_REST_AT:]):
            kept = None
        authentication = self.latest.connection.authentication
        if authentication is not None and authentication.is_raw:
            return self._raw_token(frame)
        try:
            if kept is not None:
                route, self.latest = kept.route, kept.call
            else:
                route = self._read_header(frame, route)
            if authentication is not None:
                self._admit(route, authentication)
            request = kept.request if kept is not None else self._read_body(frame, route)
        except UNREADABLE as error:
            raise CannotRespond(f"a request that cannot be read: {unreadable(error)}") from error
        except OSError as absent:  # the messages of its API cannot be imported: no descriptor is left
            text = f"a request whose messages cannot be loaded: {absent}; a later one may be served"
            raise CannotRespond(text) from absent
        (correlation_id,) = _SIZE.unpack_from(frame, 8)
        return self._handled(route, request, self.latest, correlation_id, len(frame))

    def _read_header(self, frame: bytes, route: Route | None) -> Route:
        """Makes the call of the header ``latest``, which often is it already; returns the route. Raises UNREADABLE,
        CannotRespond."""
        latest = self.latest
        if route is None or not self._body_at or not frame.startswith(self._client, _REST_AT):
            self._heartbeat = None  # its call is of another client
            head = read_head(frame, 4)
            self._client, self._body_at = frame[_REST_AT : head.body_at], head.body_at
            self.latest = Call(head.api_version, intern(head.client_id or ""), latest.connection)
            route = _find_route(head.api_key, head.api_version)
            if route is None:
                raise CannotRespond(self._broker.unserved.add(self.latest, head.api_key))
        elif latest.api_version != route.version:
            self.latest = Call(route.version, latest.client_id, latest.connection)
        return route

    def _admit(self, route: Route, authentication: Authentication) -> None:
        """Raises CannotRespond for a request that needs a login which the connection lacks."""
        if not self.latest.connection.admits(route.api_key, self._broker.scheduler.time()):
            raise CannotRespond("" if authentication.is_logged else f"{route.name} without authentication")

    def _read_body(self, frame: bytes, route: Route) -> Message:
        """Raises UNREADABLE."""
        body_at = self._body_at
        if route.tagged:  # nearly always without a tag
            body_at = skip_tags(frame, body_at) if frame[body_at] else body_at + 1
        request: Message
        request, _ = route.decode(frame, body_at, self._broker.max_elements)
        if route.is_heartbeat and len(frame) <= MOST_HEARTBEAT_BYTES:
            self._heartbeat = _Heartbeat(route, frame[_REST_AT:], request, self.latest)
        return request

    def _raw_token(self, frame: bytes) -> Pending | None:
        """A token of SASL without a header, as old clients send them after version 0 of SaslHandshake (KIP-43)."""
        from coterie.wire.messages.security.sasl_authenticate import SaslAuthenticateRequest

        call = Call(0, self.latest.client_id, self.latest.connection)
        return self._handled(_RAW_TOKEN, SaslAuthenticateRequest(frame[4:]), call, 0, len(frame))

    def _handled(self, route: Route, request: Message, call: Call, correlation_id: int, size: int) -> Pending | None:
        """Raises CannotRespond."""
        broker, throttle_ms = self._broker, 0
        began_s = time_s() if broker.clients.quotas.values else 0.0
        try:
            result = broker.handlers[route.api_key](broker, request, call)
        except CannotRespond:
            raise
        except Exception as bug:
            raise self._failed(route, bug) from None
        if began_s:
            throttling, now_ms, took_s = broker.clients.throttling, broker.clock.now_ms(), time_s() - began_s
            throttle_ms = max(
                throttling.received(route.api_key, call, size, now_ms),
                throttling.handled(route.api_key, call, took_s, now_ms),
            )
        if result is None:
            self.throttle_ms = max(self.throttle_ms, throttle_ms)
            return None
        if isinstance(result, Pending):
            if result.response is None or self.waiting:
                self.waiting.append((correlation_id, route, result, throttle_ms))
                return result
            result = result.response
        if self.waiting:
            ready = Pending()
            ready.respond(result)
            self.waiting.append((correlation_id, route, ready, throttle_ms))
        else:
            self._put(correlation_id, route, result, throttle_ms)
        return None

    def take_responded(self) -> None:
        """Encodes the responses at the head of the queue. Raises CannotRespond where there will be none."""
        waiting = self.waiting
        while waiting and waiting[0][2].response is not None:
            correlation_id, route, pending, throttle_ms = waiting.pop(0)
            assert pending.response is not None
            if pending.response is not NO_RESPONSE:
                self._put(correlation_id, route, pending.response, throttle_ms)
        if waiting and (failure := waiting[0][2].failure) is not None:
            raise self._failed(waiting[0][1], failure)

    def _put(self, correlation_id: int, route: Route, response: Message, throttle_ms: int) -> None:
        try:
            if route.api_key in THROTTLED_BY_HANDLERS:
                throttle_ms = max(throttle_ms, response.throttle_time_ms)  # type: ignore[attr-defined]
            if throttle_ms:
                self._throttle(response, throttle_ms)
            data = route.frame(correlation_id, response)
            if route.api_key == SHARE_FETCH and self._broker.clients.quotas.values:
                data = self._throttled_share_fetch(correlation_id, route, response, data)
        except Exception:
            # Other clients may wait for the same decision: they get their responses nonetheless.
            logger.exception("a response to %s cannot be encoded", self.latest.connection.host)
            data = route.frame(correlation_id, server_error(response))
        if not self.out:
            self.out = data
        elif isinstance(self.out, bytearray):
            self.out += data
        else:
            self.out = bytearray(self.out)
            self.out += data

    def _throttle(self, response: Message, throttle_ms: int) -> None:
        self.throttle_ms = max(self.throttle_ms, throttle_ms)
        if hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = throttle_ms

    def _throttled_share_fetch(self, correlation_id: int, route: Route, response: Message, data: bytes) -> bytes:
        """The response again, where its own bytes are too many."""
        broker = self._broker
        throttle_ms = broker.clients.throttling.sent(self.latest, len(data), broker.clock.now_ms())
        if throttle_ms <= self.throttle_ms:
            return data
        self._throttle(response, throttle_ms)
        return route.frame(correlation_id, response)

    def _failed(self, route: Route, error: Exception) -> CannotRespond:
        """The end of a connection whose request has failed; a bug is logged with its traceback."""
        if isinstance(error, CannotRespond):
            return error
        text = "%s from %s failed; its connection is closed"
        logger.error(text, route.name, self.latest.connection.host, exc_info=error)
        return CannotRespond("")

    def close(self) -> None:
        """Ends the work for responses that nobody will read."""
        for _, _, pending, _ in self.waiting:
            pending.abandon()
        self.waiting.clear()
        self.out = b""


def _find_route(api_key: int, version: int) -> Route | None:
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


def _raw_frame(correlation_id: int, response: Message) -> bytes:
    """Only the token; a login that failed has no response."""
    token: bytes = response.auth_bytes  # type: ignore[attr-defined]
    return len(token).to_bytes(4, "big") + token


def _no_request(data: bytes, at: int, room: int = 0) -> tuple[Any, int]:
    raise WireError("a token of SASL has no request")


_RAW_TOKEN = Route(36, 0, "SaslAuthenticate", _no_request, False, False, _raw_frame)
