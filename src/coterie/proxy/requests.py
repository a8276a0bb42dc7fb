"""What the proxy reads of every request, and the requests of a connection that wait for their responses, in order: Kafka
responds in the order of the requests.

Read are API key, version, correlation id, client id; of Produce the acks as well, since a request with acks=0 has no response.
Nothing behind them is looked at, so that APIs and versions that are unknown here pass.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from coterie.authentication.sasl import TOKENS
from coterie.wire.apis import APIS, CLUSTER_APIS
from coterie.wire.declaration import Message
from coterie.wire.framing import read_head, skip_tags
from coterie.wire.messages.security.sasl_handshake import SaslHandshakeRequest
from coterie.wire.primitives import WireError, read_unsigned_varint

PRODUCE, FETCH, METADATA, FIND_COORDINATOR, SASL_HANDSHAKE, DESCRIBE_CLUSTER = 0, 1, 3, 10, 17, 60
SHARE_FETCH, SHARE_ACKNOWLEDGE = 78, 79
_START = struct.Struct(">hhi")
_LENGTH = struct.Struct(">h")
_CLIENT_AT = _START.size + _LENGTH.size
_PRODUCE_FLEXIBLE_FROM, _TRANSACTIONAL_ID_FROM = 9, 3
# The client id, the tags of the header and the transactional id are shorter, or the frame passes as one with a response.
_PRODUCE_HEAD_BYTES = 512
_EVERY_TOKEN = 2**31  # of a mechanism that is not known: no request comes any more


@dataclass(slots=True)
class RequestHead:
    """``client_id`` "" where there is none, or none that can be read; ``has_response`` False for acks=0."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    has_response: bool = True


def request_head_bytes(data: bytes, start: int, size: int) -> int:
    """How many bytes of a request its head needs; `FrameStream` calls it with what has arrived."""
    if len(data) < start + _CLIENT_AT:
        return _CLIENT_AT
    if data[start : start + 2] == b"\0\0":
        return _PRODUCE_HEAD_BYTES
    length = int.from_bytes(data[start + _START.size : start + _CLIENT_AT], "big", signed=True)
    return _CLIENT_AT + max(length, 0)


def response_head_bytes(data: bytes, start: int, size: int) -> int:
    """The correlation id."""
    return 4


def request_head(data: bytes) -> RequestHead | None:
    """Of a frame's beginning, its size included; None for a frame that is too short for a request."""
    if len(data) < 4 + _START.size:
        return None
    api_key, api_version, correlation_id = _START.unpack_from(data, 4)
    client_id, body_at = _client_id(data)
    head = RequestHead(api_key, api_version, correlation_id, client_id)
    if api_key == PRODUCE:
        head.has_response = _acks(data, body_at, api_version) != 0
    return head


def _client_id(data: bytes) -> tuple[str, int]:
    at = 4 + _START.size
    if len(data) < at + _LENGTH.size:
        return "", len(data)
    (length,) = _LENGTH.unpack_from(data, at)
    at += _LENGTH.size
    end = at + max(length, 0)
    return data[at:end].decode("utf-8", "replace"), end


def _acks(data: bytes, at: int, version: int) -> int | None:
    """None where it cannot be read."""
    try:
        if version >= _PRODUCE_FLEXIBLE_FROM:
            length, at = read_unsigned_varint(data, skip_tags(data, at))
            at += max(length - 1, 0)
        elif version >= _TRANSACTIONAL_ID_FROM:
            (length,) = _LENGTH.unpack_from(data, at)
            at += _LENGTH.size + max(length, 0)
        (acks,) = _LENGTH.unpack_from(data, at)
    except (WireError, IndexError, struct.error):
        return None
    return int(acks)


def decoded_request(head: RequestHead, frame: bytes) -> Message | None:
    """Of a whole frame, its size included; None for an API or version that is not known here. Raises WireError."""
    api = APIS.get(head.api_key) or CLUSTER_APIS.get(head.api_key)
    if api is None or head.api_version not in api.request.versions:
        return None
    cls = api.request
    body_at = read_head(frame, 4).body_at
    return cls.decode(
        frame, head.api_version, skip_tags(frame, body_at) if head.api_version in cls.flexible else body_at
    )


@dataclass(slots=True, eq=False)
class Exchange:
    """A request and what is to become of its response. ``request`` is decoded where somebody looks at it; ``own_response`` is
    the proxy's frame in place of the broker's, ``is_lost`` a response that the client never gets."""

    head: RequestHead
    request: Any = None
    own_response: bytes | None = None
    is_lost: bool = False
    ticket: Any = None  # of the observer


@dataclass(slots=True)
class Exchanges:
    """Of one connection."""

    waiting: deque[Exchange] = field(default_factory=deque)
    tokens_left: int = 0  # frames of the client that are SASL tokens and no requests
    _tokens_waiting: int = 0

    def sent(self, exchange: Exchange) -> None:
        """The request went to the broker, or has a response of the proxy's own."""
        if exchange.head.has_response:
            self.waiting.append(exchange)

    def token_sent(self) -> None:
        """A SASL token went to the broker, which returns one."""
        self.tokens_left -= 1
        self._tokens_waiting += 1

    def tokens_follow(self, handshake: SaslHandshakeRequest) -> None:
        """The client has sent a SaslHandshake of version 0: tokens without a header follow, then requests again."""
        self.tokens_left = TOKENS.get(handshake.mechanism, _EVERY_TOKEN)

    def responded(self, correlation_id: int) -> Exchange | None:
        """The exchange whose response begins; None for one that no request precedes, and for a SASL token. Earlier
        requests that the broker passed over have none any more."""
        if self._tokens_waiting and not self.waiting:
            self._tokens_waiting -= 1
            return None
        if not any(exchange.head.correlation_id == correlation_id for exchange in self.waiting):
            return None
        while True:
            exchange = self.waiting.popleft()
            if exchange.head.correlation_id == correlation_id:
                return exchange

    def own_responses(self) -> Iterator[bytes]:
        """The proxy's own responses that are due: nothing waits before them."""
        while self.waiting and self.waiting[0].own_response is not None:
            yield self.waiting.popleft().own_response or b""


def has_tokens_behind(head: RequestHead) -> bool:
    """Whether frames without a header follow."""
    return head.api_key == SASL_HANDSHAKE and head.api_version == 0
