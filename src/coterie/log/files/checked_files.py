"""Small files that are written as a whole, with a CRC-32C of their content: JSON, and plain lines.

A file without a checksum, as an older coterie or Apache Kafka wrote it, is read unchecked.
"""

from __future__ import annotations

import json
from typing import Any

import google_crc32c

from coterie.log.files.filesystem import FileSystem
from coterie.log.files.findings import UnreadableFile

_CHECKSUM, _CONTENT = "crc32c", "content"
_CHECKSUM_LINE = "#crc32c="


def to_json(content: Any) -> bytes:
    """``content`` with its checksum."""
    # Without an indent, with which it takes four times as long.
    return json.dumps({_CHECKSUM: _of_json(content), _CONTENT: content}).encode()


def _of_json(content: Any) -> int:
    return int(google_crc32c.value(json.dumps(content, sort_keys=True).encode()))


def read_json(fs: FileSystem, path: str, remedy: str) -> Any:
    """The value of a file by `to_json`. Raises UnreadableFile, FileNotFoundError."""
    data = fs.read_file(path)
    try:
        kept = json.loads(data)
    except ValueError as error:
        raise UnreadableFile(path, "it is not JSON", remedy) from error
    if not isinstance(kept, dict) or kept.keys() != {_CHECKSUM, _CONTENT}:
        if isinstance(kept, dict) and len(kept) == 2 and not kept.keys().isdisjoint({_CHECKSUM, _CONTENT}):
            raise UnreadableFile(path, "the name of its checksum or of its content is damaged", remedy)
        return kept
    if kept[_CHECKSUM] != _of_json(kept[_CONTENT]):
        raise UnreadableFile(path, "its checksum does not fit", remedy)
    return kept[_CONTENT]


def to_lines(text: str) -> bytes:
    """``text`` with its checksum in a last line, a comment where the file has comments."""
    text = text.rstrip("\n") + "\n"
    return f"{text}{_CHECKSUM_LINE}{google_crc32c.value(text.encode()):08x}\n".encode()


def read_lines(fs: FileSystem, path: str, remedy: str) -> str:
    """The lines of a file by `to_lines`. Raises UnreadableFile, FileNotFoundError."""
    try:
        text, mark, checksum = fs.read_file(path).decode().rpartition(_CHECKSUM_LINE)
    except UnicodeDecodeError as error:
        raise UnreadableFile(path, "it is not text", remedy) from error
    if not mark:
        return checksum
    if checksum.strip() != f"{google_crc32c.value(text.encode()):08x}":
        raise UnreadableFile(path, "its checksum does not fit", remedy)
    return text
