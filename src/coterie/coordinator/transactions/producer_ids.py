"""Producer ids, generated from blocks that are reserved on disk, so that no id is used twice (KIP-98, KIP-730)."""

from __future__ import annotations

from coterie.log import checked_files
from coterie.log.checked_files import UnreadableFile
from coterie.log.filesystem import FileSystem

BLOCK = 1000
BLOCKS_BEYOND = 1000  # of the largest known id: generated ids may never have been used
FILE = "producer_ids"
_REMEDY = "restart the broker: it makes one beyond every id in the logs"


class ProducerIds:
    """The file holds the first id of the next block: what a crash leaves unused of a block is never used."""

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        self._next = self._end = 0

    def take(self) -> int:
        """A new id, never generated before. Raises OSError when no block can be reserved, UnreadableFile."""
        if self._next >= self._end:
            first = self.next_block()
            self._reserve(first)
            self._next, self._end = first, first + BLOCK
        self._next += 1
        return self._next - 1

    def next_block(self) -> int:
        """The first id of the next block. Raises UnreadableFile."""
        if not self._fs.exists(FILE):
            return 0
        text = checked_files.read_lines(self._fs, FILE, _REMEDY).strip()
        if not text.isdecimal() or int(text) % BLOCK:
            raise UnreadableFile(FILE, "it does not hold the first id of a block", _REMEDY)
        return int(text)

    def rebuild(self, largest: int) -> int:
        """A new file in place of one that cannot be read, far beyond the ``largest`` id that is known; returns the first id.
        Raises OSError."""
        first = (max(largest, 0) // BLOCK + BLOCKS_BEYOND) * BLOCK
        self._reserve(first - BLOCK)
        return first

    def _reserve(self, first: int) -> None:
        self._fs.write_file(FILE, checked_files.to_lines(str(first + BLOCK)))
