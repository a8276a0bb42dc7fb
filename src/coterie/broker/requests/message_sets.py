"""Batches converted for clients of Fetch 0 to 3, kept for a while: what many request is converted once."""

from __future__ import annotations

from threading import Lock

from coterie.records.message_sets import to_message_set

KEPT_BYTES = 16 * 1024 * 1024


class MessageSets:
    """The message sets of late, by a digest of the batches. May be used in several threads: one converts at a time, and the
    others find what it made."""

    def __init__(self, limit_bytes: int = KEPT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._lock = Lock()
        self._kept: dict[tuple[bytes, int, int], bytes] = {}
        self._kept_bytes = 0

    def of(self, data: bytes, magic: int, first_offset: int) -> bytes:
        """As `to_message_set`."""
        from hashlib import blake2b  # with OpenSSL's digests: a twentieth of a start, for clients older than 0.11

        key = blake2b(data, digest_size=16).digest(), magic, first_offset
        with self._lock:
            message_set = self._kept.pop(key, None)
            if message_set is None:
                message_set = to_message_set(data, magic, first_offset)
                self._kept_bytes += len(message_set)
            self._kept[key] = message_set
            while self._kept_bytes > self._limit_bytes:
                self._kept_bytes -= len(self._kept.pop(next(iter(self._kept))))
            return message_set
