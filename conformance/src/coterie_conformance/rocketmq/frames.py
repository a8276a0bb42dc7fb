"""Frames of RocketMQ's remoting protocol and the messages in them, as they are read.

Source: RemotingCommand and MessageDecoder of Apache RocketMQ 4.9 and 5.5.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from coterie.rocketmq.requests import RemotingCommand

MAX_FRAME_BYTES = 16 * 1024 * 1024  # RocketMQ's own limit
MAX_BODY_BYTES = 256 * 1024 * 1024  # of one message, decompressed; brokers accept 4 MiB unless maxMessageSize is raised
_UNQUOTED_KEY = re.compile(rb"([{,])(\d+):")  # fastjson writes maps of numbers so
_MESSAGE_HEAD = struct.Struct(">iIiiiqqiq")
_MAGIC_V1, _MAGIC_V2 = 0xDAA320A7, 0xDAA320A8
_COMPRESSED, _BORN_V6, _STORED_V6 = 0x1, 0x10, 0x20
# What reading JSON of another shape raises: a number may be infinite, a list nested too deeply.
MALFORMED = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


class FrameError(ValueError):
    """Bytes that no RocketMQ sends."""


def decode(frame: bytes) -> RemotingCommand:
    """A frame without its first length. Raises FrameError for one that is none."""
    kind = int.from_bytes(frame[:4], "big")
    length = kind & 0xFFFFFF
    if kind >> 24 or 4 + length > len(frame):
        raise FrameError("not a RocketMQ frame with a JSON header")
    try:
        header = json.loads(frame[4 : 4 + length])
        fields = {str(k): str(v) for k, v in (header.get("extFields") or {}).items()}
        body = bytes(frame[4 + length :])
        remark = header.get("remark")
        text = None if remark is None else str(remark)
        return RemotingCommand(
            int(header["code"]), fields, body, int(header["opaque"]), int(header.get("flag", 0)), text
        )
    except MALFORMED as error:
        raise FrameError("a RocketMQ frame's header cannot be read") from error


def read_body(body: bytes) -> Any:
    """JSON as RocketMQ writes it: the keys of some maps are numbers without quotes. Raises FrameError."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        try:
            return json.loads(_UNQUOTED_KEY.sub(rb'\1"\2":', body))
        except (ValueError, RecursionError) as error:
            raise FrameError("a RocketMQ body is not valid JSON") from error


class StoredMessage(NamedTuple):
    """A message as a broker keeps it. ``timestamp``: when the producer made it, in ms."""

    topic: str
    queue_id: int
    queue_offset: int
    timestamp: int
    body: bytes
    properties: dict[str, str]


def read_messages(data: bytes) -> Iterator[StoredMessage]:
    """The messages of a pull's response. Raises FrameError for a broken one."""
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big", signed=True)
        if size < _MESSAGE_HEAD.size or at + size > len(data):
            raise FrameError("a RocketMQ message is cut off")
        yield _message(data[at : at + size])
        at += size


def _message(data: bytes) -> StoredMessage:
    _, magic, _, queue_id, _, queue_offset, _, flags, born_ms = _MESSAGE_HEAD.unpack_from(data)
    if magic not in (_MAGIC_V1, _MAGIC_V2):
        raise FrameError("a RocketMQ message has an unknown format")
    at = _MESSAGE_HEAD.size + (20 if flags & _BORN_V6 else 8) + 8 + (20 if flags & _STORED_V6 else 8) + 4 + 8
    try:
        body, at = _counted(data, at, ">i")
        topic, at = _counted(data, at, ">B" if magic == _MAGIC_V1 else ">h")
        properties, at = _counted(data, at, ">h")
        text = _decompressed(body) if flags & _COMPRESSED else body
    except (struct.error, zlib.error) as error:
        raise FrameError("a RocketMQ message cannot be read") from error
    pairs = (item.partition("\x01") for item in properties.decode(errors="replace").split("\x02") if item)
    return StoredMessage(
        topic.decode(errors="replace"), queue_id, queue_offset, born_ms, text, {k: v for k, _, v in pairs}
    )


def _decompressed(body: bytes) -> bytes:
    unfolding = zlib.decompressobj()
    text = unfolding.decompress(body, MAX_BODY_BYTES)
    if not unfolding.eof and (unfolding.unconsumed_tail or unfolding.decompress(b"", 1)):
        raise FrameError(f"a RocketMQ message's body is larger than {MAX_BODY_BYTES} bytes")
    if not unfolding.eof:
        raise FrameError("a RocketMQ message's compressed body is cut off")
    return text


def _counted(data: bytes, at: int, kind: str) -> tuple[bytes, int]:
    (length,) = struct.unpack_from(kind, data, at)
    begin = at + struct.calcsize(kind)
    if length < 0 or begin + length > len(data):
        raise FrameError("a RocketMQ message is cut off")
    return data[begin : begin + length], begin + length
