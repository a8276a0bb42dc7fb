"""Text in the files that commands read: UTF-8 and UTF-16, with or without a byte order mark, as editors and shells write it."""

from __future__ import annotations

import codecs

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class NotText(ValueError):
    """A file whose bytes are no text; the message has the line, and what to do."""


def text_encoding(head: bytes, otherwise: str = "utf-8") -> str:
    """The encoding by the first bytes of a file: that of its byte order mark; UTF-16 where every other byte is zero; else
    ``otherwise``."""
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding
    if len(head) >= 4 and not any(head[1:64:2]) and all(head[0:64:2]):
        return "utf-16-le"
    if len(head) >= 4 and not any(head[0:64:2]) and all(head[1:64:2]):
        return "utf-16-be"
    return otherwise


def decode_text(data: bytes) -> str:
    """The text of a whole file. Raises NotText."""
    encoding = text_encoding(data)
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        if encoding.startswith("utf-16"):
            raise NotText("begins as UTF-16 and is no text; save it as UTF-8") from None
        line = data.count(b"\n", 0, error.start) + 1
        raise NotText(
            f"is no UTF-8 text: byte 0x{data[error.start]:02x} in line {line}; save it as UTF-8 (it may be Latin-1)"
        ) from None


def decode_properties(data: bytes) -> str:
    """The text of a properties file: Latin-1, as Java reads it, unless a byte order mark or its zeros say otherwise. Raises
    NotText."""
    return data.decode("latin-1") if text_encoding(data, "latin-1") == "latin-1" else decode_text(data)
