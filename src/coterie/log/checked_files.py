"""Defects of a data folder, as data: loading makes findings, a driver reports them. And its small files, which are written as a
whole with a CRC-32C of their content: JSON, and plain lines.

A file without a checksum, as an older coterie or Apache Kafka wrote it, is read unchecked.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import google_crc32c

from coterie.log.filesystem import FileSystem

_CHECKSUM, _CONTENT = "crc32c", "content"
_CHECKSUM_LINE = "#crc32c="


@dataclass(frozen=True, slots=True)
class Finding:
    """``file`` relative to the data folder; ``position`` in bytes, None for the file as a whole; ``problem`` and ``action``
    are clauses: what does not fit, and what loading did about it."""

    file: str
    position: int | None
    problem: str
    action: str

    def __str__(self) -> str:
        where = self.file if self.position is None else f"{self.file} at byte {self.position}"
        return f"{where}: {self.problem}; {self.action}"


Report = Callable[[Finding], None]


def unreported(finding: Finding) -> None:
    """A `Report` that drops its findings."""


class UnreadableFile(ValueError):
    """A file that cannot be rebuilt; the message has its name and the remedy."""

    def __init__(self, file: str, problem: str, remedy: str) -> None:
        super().__init__(f"{file} cannot be read: {problem}; {remedy}")
        self.file, self.problem, self.remedy = file, problem, remedy


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
