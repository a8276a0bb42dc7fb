"""Kafka's file `partition.metadata` beside a partition's log: the id of its topic (KIP-516)."""

from __future__ import annotations

import base64
import binascii

from coterie.log.files.filesystem import FileSystem
from coterie.log.files.findings import UnreadableFile

_FILE = "partition.metadata"
_ID_BYTES = 16
_REMEDY = "restore it from a backup, or remove it"


def read_topic_id(fs: FileSystem, directory: str) -> bytes | None:
    """None where there is no such file. Raises UnreadableFile, OSError."""
    path = f"{directory}/{_FILE}"
    if not fs.exists(path):
        return None
    text = fs.read_file(path).decode(errors="replace")
    lines = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    try:
        topic_id = base64.urlsafe_b64decode(lines.get("topic_id", "").strip() + "==")
    except (binascii.Error, ValueError) as error:
        raise UnreadableFile(path, "its topic id is damaged", _REMEDY) from error
    if len(topic_id) != _ID_BYTES or lines.get("version", "").strip() != "0":
        raise UnreadableFile(path, "it does not hold version 0 and the id of a topic", _REMEDY)
    return topic_id


def write_topic_id(fs: FileSystem, directory: str, topic_id: bytes) -> None:
    """Raises OSError."""
    text = base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
    fs.write_file(f"{directory}/{_FILE}", f"version: 0\ntopic_id: {text}".encode())
