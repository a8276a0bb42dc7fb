"""Frames: int32 size, header, body. Reading a request out of one, and writing answers and requests into one."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TypeVar

from coterie.wire.codec import Encoder, decode, encoder
from coterie.wire.declaration import Message
from coterie.wire.messages.header import RequestHeader
from coterie.wire.primitives import WireError, read_unsigned_varint

M = TypeVar("M", bound=Message)

API_VERSIONS_KEY = 18
MAX_HEADER_TAGS = 1_000
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


def read_head(frame: bytes) -> Head:
    """The header of a frame (without its size), up to the client id. Raises WireError.

    `skip_tags` must follow for a flexible request version: only the caller knows which versions are flexible.
    """
    try:
        api_key, api_version, correlation_id, length = _REQUEST_START.unpack_from(frame)
    except struct.error as error:
        raise WireError(f"a request of {len(frame)} bytes is too short for its header") from error
    if length < 0:
        return Head(api_key, api_version, correlation_id, None, 10)
    try:
        client_id = frame[10 : 10 + length].decode()
    except UnicodeDecodeError as not_utf8:
        raise WireError("the client id is not UTF-8") from not_utf8
    if 10 + length > len(frame):
        raise WireError("the client id runs past the end of the request")
    return Head(api_key, api_version, correlation_id, client_id, 10 + length)


def skip_tags(frame: bytes, position: int) -> int:
    """The position after a tag section whose fields nobody here knows."""
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


# (answer, version) -> its encoder, and whether its header has a tag section; asked for with every answer
_ANSWERS: dict[tuple[type[Message], int], tuple[Encoder, bool]] = {}


def encode_response(correlation_id: int, response: Message, version: int) -> bytes:
    """The whole frame of an answer, size included."""
    key = (type(response), version)
    cached = _ANSWERS.get(key)
    if cached is None:
        tagged = version in response.flexible and response.api_key != API_VERSIONS_KEY
        cached = _ANSWERS[key] = (encoder(type(response), version), tagged)
    encode, tagged = cached
    pieces: list[bytes] = [b""]
    encode(response, pieces)
    size = sum(map(len, pieces))
    if tagged:
        pieces[0] = _RESPONSE_V1.pack(size + 5, correlation_id, 0)
    else:
        pieces[0] = _RESPONSE_V0.pack(size + 4, correlation_id)
    return b"".join(pieces)


def encode_request(correlation_id: int, client_id: str | None, request: Message, version: int) -> bytes:
    """The whole frame of a request, size included."""
    header = RequestHeader(request.api_key, version, correlation_id, client_id)
    pieces: list[bytes] = [b"", header.encode(1)]
    if version in request.flexible:
        pieces.append(b"\0")
    encoder(type(request), version)(request, pieces)
    pieces[0] = _SIZE.pack(sum(map(len, pieces)))
    return b"".join(pieces)


def decode_response(cls: type[M], frame: bytes, version: int) -> M:
    """The body of an answer's frame (without its size), its header skipped. Raises WireError."""
    position = 4
    if version in cls.flexible and cls.api_key != API_VERSIONS_KEY:
        position = skip_tags(frame, 4)
    return decode(cls, frame, version, position)[0]
