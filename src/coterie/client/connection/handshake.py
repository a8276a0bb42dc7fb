"""What a client sends first on each connection, as bytes without IO: ApiVersions, in its oldest version where the broker
refuses the newer one (KIP-511), then the login. `connection` carries it out on an event loop, `blocking_socket` in a thread."""

from __future__ import annotations

import struct
import sys
from typing import Any

from coterie import __version__
from coterie.client.connection.api_history import FIRST_KAFKA
from coterie.client.errors import KafkaError
from coterie.client.security import Login
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.framing import decode_response, encode_request
from coterie.wire.messages.clients.api_versions import ApiVersionsRequest, ApiVersionsResponse

SOFTWARE_NAME = "coterie"
MAX_RESPONSE_BYTES = 512 * 1024 * 1024
_API_VERSIONS_FIRST_TRY = 3  # the first that names the software
# What encoding a request raises for a value that the wire cannot carry: text that is no Unicode or too long (ValueError),
# numbers out of range (struct.error), other types.
_NOT_ENCODED = (ValueError, TypeError, AttributeError, OverflowError, struct.error)


def encoded(correlation_id: int, client_id: str, request: Message, version: int) -> bytes:
    """The request's frame, size included. Raises KafkaError INVALID_REQUEST for a value that the wire cannot carry."""
    try:
        return encode_request(correlation_id, client_id, request, version)
    except _NOT_ENCODED as error:
        text = f"{type(request).__name__} holds a value that cannot be sent: {error}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, text) from error


def response_type(request: Message) -> Any:
    """The class of a request's response, which is of the same module."""
    kind = type(request)
    return getattr(sys.modules[kind.__module__], f"{kind.__name__.removesuffix('Request')}Response")


class VersionTable:
    """The versions that a broker and we both speak; ``features``: the finalized level of each (KIP-584), of
    that epoch, -1 where the broker reports none."""

    def __init__(self, response: ApiVersionsResponse) -> None:
        self._broker = {a.api_key: (a.min_version, a.max_version) for a in response.api_keys}
        self.features = {f.name: f.max_version_level for f in response.finalized_features}
        self._chosen: dict[tuple[type[Message], int | None], int] = {}
        self.features_epoch = response.finalized_features_epoch

    def range(self, api_key: int) -> tuple[int, int]:
        """The broker's oldest and newest version of an API; (0, -1) where it has none."""
        return self._broker.get(api_key, (0, -1))

    def serves(self, request: type[Message]) -> bool:
        """Whether the broker has a version of this request that we speak."""
        first, last = self.range(request.api_key)
        return max(first, request.versions.first) <= min(last, request.versions.last)

    def choose(self, request: type[Message], highest: int | None = None) -> int:
        """The newest common version, at most ``highest``. Raises KafkaError UNSUPPORTED_VERSION."""
        chosen = self._chosen.get((request, highest))
        if chosen is None:
            chosen = self._chosen[request, highest] = self._choose(request, highest)
        return chosen

    def _choose(self, request: type[Message], highest: int | None) -> int:
        first, last = self.range(request.api_key)
        ours = request.versions
        version = min(last, ours.last, ours.last if highest is None else highest)
        if version < max(first, ours.first):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, self._not_served(request, first, last))
        return version

    @staticmethod
    def _not_served(request: type[Message], first: int, last: int) -> str:
        name, ours = request.__name__.removesuffix("Request"), request.versions
        if last >= first:
            return (
                f"the broker serves {name} in versions {first} to {last}, this client needs {ours.first} to {ours.last}"
            )
        since = FIRST_KAFKA.get(request.api_key)
        return f"the broker does not serve {name}" + (f", which Apache Kafka has from {since} on" if since else "")


class Handshake:
    """Begin with `start`, then pass each response to `response` until it returns None. ``correlation_id`` is the last
    request's; ``versions`` is None until the broker has reported its own; ``session_ms``: how long the login lasts, 0 for
    ever (KIP-368)."""

    def __init__(self, client_id: str, login: Login) -> None:
        self.versions: VersionTable | None = None
        self.correlation_id = self.session_ms = 0
        self._client_id, self._login = client_id, login
        self._version = _API_VERSIONS_FIRST_TRY  # of the request under way
        self._response: type[Message] = ApiVersionsResponse

    def start(self) -> bytes:
        """The first request's frame, size included."""
        return self._frame(ApiVersionsRequest(SOFTWARE_NAME, __version__), self._version)

    def response(self, frame: bytes) -> bytes | None:
        """Takes the response to the last request, without its size, and returns the next request's frame, or None: the
        connection is ready. Raises KafkaError, WireError."""
        if self.versions is not None:
            return self._next_of_login(decode_response(self._response, frame, self._version))
        code = error_of(int.from_bytes(frame[4:6], "big", signed=True))  # where each version has it
        if code == ErrorCode.UNSUPPORTED_VERSION and self._version > 0:
            return self._frame(ApiVersionsRequest(SOFTWARE_NAME, __version__), 0)
        if code:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"ApiVersions failed with {code.name}")
        self.versions = VersionTable(decode_response(ApiVersionsResponse, frame, self._version))
        return self._next_of_login(None)

    def _next_of_login(self, response: Message | None) -> bytes | None:
        assert self.versions is not None
        try:
            request, self._response = next(self._login) if response is None else self._login.send(response)
        except StopIteration as end:
            self.session_ms = end.value
            return None
        return self._frame(request, self.versions.choose(type(request)))

    def _frame(self, request: Message, version: int) -> bytes:
        self.correlation_id += 1
        self._version = version
        return encoded(self.correlation_id, self._client_id, request, version)
