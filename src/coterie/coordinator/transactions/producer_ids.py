"""Producer ids, handed out in blocks that are reserved on disk, so that no id is handed out twice (KIP-98, KIP-730)."""

from __future__ import annotations

from coterie.log.filesystem import FileSystem

BLOCK = 1000
_FILE = "producer_ids"


class ProducerIds:
    """The file holds the first id of the next block: what a crash leaves unused of a block is never used."""

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        self._next = self._end = 0

    def take(self) -> int:
        """An id that was never handed out before. Raises OSError when no block can be reserved."""
        if self._next >= self._end:
            first = int(self._fs.read_file(_FILE)) if self._fs.exists(_FILE) else 0
            self._fs.write_file(_FILE, str(first + BLOCK).encode())
            self._next, self._end = first, first + BLOCK
        self._next += 1
        return self._next - 1
