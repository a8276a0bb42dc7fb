"""Kafka's file `partition.metadata` beside a partition's log: the id of its topic (KIP-516)."""

from __future__ import annotations

import base64
import binascii

from coterie.log.filesystem import FileSystem

_FILE = "partition.metadata"
_ID_BYTES = 16


def read_topic_id(fs: FileSystem, directory: str) -> bytes | None:
    """None where there is no such file, or none that can be read. Raises OSError."""
    path = f"{directory}/{_FILE}"
    if not fs.exists(path):
        return None
    text = fs.read_file(path).decode(errors="replace")
    lines = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    try:
        topic_id = base64.urlsafe_b64decode(lines.get("topic_id", "").strip() + "==")
    except (binascii.Error, ValueError):
        return None
    return topic_id if len(topic_id) == _ID_BYTES else None


def write_topic_id(fs: FileSystem, directory: str, topic_id: bytes) -> None:
    """Raises OSError."""
    text = base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
    fs.write_file(f"{directory}/{_FILE}", f"version: 0\ntopic_id: {text}".encode())
