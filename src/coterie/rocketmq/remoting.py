"""RocketMQ's remoting frames: length, header length and kind, a JSON header, a body.

Source: RemotingCommand of Apache RocketMQ 4.9 and 5.5.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field

RESPONSE_FLAG, ONEWAY_FLAG = 1, 2
_VERSION = 399  # of the client, as a number; brokers only compare it with older ones
_KINDS = struct.Struct(">ii")


@dataclass(slots=True)
class RemotingCommand:
    """A request or, with the flag's first bit, a response; ``code`` is a request's or a response's. ``opaque`` ties them."""

    code: int
    fields: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    opaque: int = 0
    flag: int = 0
    remark: str | None = None


def encode(command: RemotingCommand) -> bytes:
    """The whole frame."""
    header = json.dumps(
        {
            "code": command.code,
            "language": "PYTHON",
            "version": _VERSION,
            "opaque": command.opaque,
            "flag": command.flag,
            "remark": command.remark,
            "extFields": command.fields,
            "serializeTypeCurrentRPC": "JSON",
        },
        separators=(",", ":"),
    ).encode()
    return _KINDS.pack(4 + len(header) + len(command.body), len(header)) + header + command.body
