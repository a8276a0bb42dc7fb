"""Keys, values and headers as text for people: JSON, text, or hexadecimal where they are neither. No IO."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

SHOWN_BYTES = 64 * 1024
HEX_BYTES = 1024
_PRINTABLE_CONTROLS = "\t\n\r"


class Payload(NamedTuple):
    """``kind``: null, json, text, hex, or the kind of a schema, avro, protobuf or json_schema, with its ``schema``, an id.
    ``size`` in bytes; ``is_cut``: the text is of the first bytes alone. ``problem``: why a schema did not read it."""

    kind: str
    text: str
    size: int
    is_cut: bool = False
    schema: int | None = None
    problem: str | None = None


def payload(data: bytes | None) -> Payload:
    """Without a schema."""
    if data is None:
        return Payload("null", "", 0)
    is_cut = len(data) > SHOWN_BYTES
    try:
        text = data[:SHOWN_BYTES].decode()
    except UnicodeDecodeError as error:
        if not (is_cut and error.start > SHOWN_BYTES - 4):
            return _hexadecimal(data)
        text = data[: error.start].decode()  # a character that is cut
    if any(ord(c) < 32 and c not in _PRINTABLE_CONTROLS for c in text):
        return _hexadecimal(data)
    document = None if is_cut else _document(text)
    if document is not None:
        return Payload("json", document, len(data))
    return Payload("text", text, len(data), is_cut)


def _document(text: str) -> str | None:
    """An object or an array, indented."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return indented(json.loads(text))
    except (ValueError, RecursionError):
        return None


def indented(value: Any) -> str:
    """JSON for people; what JSON does not have is written as text."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=_text_of)


def _text_of(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _hexadecimal(data: bytes) -> Payload:
    """Rows of sixteen bytes, each with its position, and as ASCII."""
    rows = []
    for position in range(0, min(len(data), HEX_BYTES), 16):
        row = data[position : position + 16]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        rows.append(f"{position:08x}  {row.hex(' '):<47}  {shown}")
    return Payload("hex", "\n".join(rows), len(data), len(data) > HEX_BYTES)


def hexadecimal(data: bytes, schema: int, problem: str) -> Payload:
    """What the schema of that id could not read."""
    return _hexadecimal(data)._replace(schema=schema, problem=problem)
