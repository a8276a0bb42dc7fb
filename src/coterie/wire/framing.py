"""Frames: int32 size, header, body. Reading a request out of one, and writing responses and requests into one.

A request's header is api key, version, correlation id and client id, which is never compact; behind it, where the request's
version is flexible (header version 2, else 1), tags. A response's header is the correlation id, and tags where the version is
flexible, except for ApiVersions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from coterie.wire.codec import Encoder, decode, encoder
from coterie.wire.declaration import Message
from coterie.wire.primitives import WireError, read_unsigned_varint

M = TypeVar("M", bound=Message)

API_VERSIONS_KEY = 18
MAX_HEADER_TAGS = 1_000
_NO_TAGS = b"\0"
_SIZE = struct.Struct(">i")
_RESPONSE_V0 = struct.Struct(">ii")
_RESPONSE_V1 = struct.Struct(">iib")
_REQUEST_START = struct.Struct(">hhih")


@dataclass(slots=True)
class Head:
    """A request's header, read, and where its body starts."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_at: int


def read_head(frame: bytes, start: int = 0) -> Head:
    """The header of a request, which begins at ``start``, behind the frame's size, up to the client id. Raises WireError.

    `skip_tags` must follow for a flexible request version: only the caller knows which versions are flexible.
    """
    try:
        api_key, api_version, correlation_id, length = _REQUEST_START.unpack_from(frame, start)
    except struct.error as error:
        raise WireError(f"a request of {len(frame) - start} bytes is too short for its header") from error
    client_at = start + _REQUEST_START.size
    if length < 0:
        return Head(api_key, api_version, correlation_id, None, client_at)
    body_at = client_at + length
    try:
        client_id = frame[client_at:body_at].decode()
    except UnicodeDecodeError as not_utf8:
        raise WireError("the client id is not UTF-8") from not_utf8
    if body_at > len(frame):
        raise WireError("the client id runs past the end of the request")
    return Head(api_key, api_version, correlation_id, client_id, body_at)


def skip_tags(frame: bytes, position: int) -> int:
    """The position after a tag section whose fields are unknown here."""
    try:
        count, position = read_unsigned_varint(frame, position)
        if count > MAX_HEADER_TAGS:
            raise WireError(f"a header of {count} tagged fields; {MAX_HEADER_TAGS} are allowed")
        for _ in range(count):
            _, position = read_unsigned_varint(frame, position)
            size, position = read_unsigned_varint(frame, position)
            position += size
            if position > len(frame):
                raise WireError("a tagged field of the header runs past the end of the request")
    except IndexError as error:
        raise WireError("the tagged fields of the header are cut short") from error
    return position


ResponseFrame = Callable[[int, Message], bytes]


def response_frame(cls: type[Message], version: int) -> ResponseFrame:
    """A function of (correlation id, response) to the whole frame, size included; raises as `codec.encoder` does."""
    encode = encoder(cls, version)
    tagged = _has_tags(cls, version)

    def frame(correlation_id: int, response: Message) -> bytes:
        pieces: list[bytes] = [b""]
        encode(response, pieces)
        size = sum(map(len, pieces))
        if tagged:
            pieces[0] = _RESPONSE_V1.pack(size + 5, correlation_id, 0)
        else:
            pieces[0] = _RESPONSE_V0.pack(size + 4, correlation_id)
        return b"".join(pieces)

    return frame


def encode_response(correlation_id: int, response: Message, version: int) -> bytes:
    """The whole frame of a response, size included."""
    return response_frame(type(response), version)(correlation_id, response)


_REQUEST_CODECS: dict[tuple[type[Message], int], tuple[Encoder, bytes]] = {}


def _request_codec(cls: type[Message], version: int) -> tuple[Encoder, bytes]:
    """The encoder of the body, and the tags at the end of the header; kept for the next request."""
    made = _REQUEST_CODECS[cls, version] = encoder(cls, version), _NO_TAGS if version in cls.flexible else b""
    return made


def encode_request(correlation_id: int, client_id: str | None, request: Message, version: int) -> bytes:
    """The whole frame of a request, size included."""
    client = b"" if client_id is None else client_id.encode()
    start = _REQUEST_START.pack(request.api_key, version, correlation_id, -1 if client_id is None else len(client))
    cls = type(request)
    encode, tags = _REQUEST_CODECS.get((cls, version)) or _request_codec(cls, version)
    pieces = [b"", start, client, tags]
    encode(request, pieces)
    pieces[0] = _SIZE.pack(sum(map(len, pieces)))
    return b"".join(pieces)


def _has_tags(cls: type[Message], version: int) -> bool:
    """Whether a response's header does."""
    return version in cls.flexible and cls.api_key != API_VERSIONS_KEY


def decode_response(cls: type[M], frame: bytes, version: int) -> M:
    """The body of a response's frame (without its size), its header skipped. Raises WireError."""
    position = 4
    if _has_tags(cls, version):
        position = 5 if frame[4:5] == _NO_TAGS else skip_tags(frame, 4)  # nearly always there are none
    return decode(cls, frame, version, position)[0]
