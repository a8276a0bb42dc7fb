"""What the proxy reads of every request: API key, version, correlation id, client id; of Produce the acks as well, since a
request with acks=0 has no response. Nothing behind them is looked at, so that APIs and versions that are unknown here pass.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from coterie.wire.apis import APIS, CLUSTER_APIS
from coterie.wire.declaration import Message
from coterie.wire.framing import read_head, skip_tags
from coterie.wire.primitives import WireError, read_unsigned_varint

PRODUCE, FETCH, METADATA, FIND_COORDINATOR, SASL_HANDSHAKE, DESCRIBE_CLUSTER = 0, 1, 3, 10, 17, 60
SHARE_FETCH, SHARE_ACKNOWLEDGE = 78, 79
_START = struct.Struct(">hhi")
_LENGTH = struct.Struct(">h")
_CLIENT_AT = _START.size + _LENGTH.size
_PRODUCE_FLEXIBLE_FROM, _TRANSACTIONAL_ID_FROM = 9, 3
# The client id, the tags of the header and the transactional id are shorter, or the frame passes as one with a response.
_PRODUCE_HEAD_BYTES = 512


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
