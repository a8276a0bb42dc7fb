"""`Message`, the class that whole messages inherit from; `declaration` makes its heirs."""

from __future__ import annotations

from typing import Self

from coterie.wire.codec import decode, encode
from coterie.wire.fields import VersionedStruct


class Message(VersionedStruct):
    """A whole request, response or stored value; declared with `message`."""

    __slots__ = ()

    def encode(self, version: int) -> bytes:
        """The body in that version. Raises WireError for a value that the version cannot carry."""
        return encode(self, version)

    @classmethod
    def decode(cls, data: bytes, version: int, position: int = 0) -> Self:
        """The message at ``position``. Raises WireError for bytes that are not such a message."""
        return decode(cls, data, version, position)[0]
