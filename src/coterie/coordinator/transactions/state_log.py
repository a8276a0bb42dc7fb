"""One partition of `__transaction_state`, read when its transactional ids are loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from coterie.log.partition_log import PartitionLog
from coterie.records.batch import batches
from coterie.records.decoding import decode_keys_and_values

LOAD_CHUNK_BYTES = 256 * 1024
Load = Callable[[bytes | None, bytes | None], None]


def load_by_chunks(log: PartitionLog, load: Load) -> Iterator[int]:
    """Passes key and value of each record to ``load``, some milliseconds at a time; yields the number of records in each chunk.
    Raises BatchError, CompressionError, OSError."""
    offset = log.log_start_offset
    while offset < log.end_offset:
        data, loaded = log.read(offset, LOAD_CHUNK_BYTES), 0
        for position, header in batches(data):
            for key, value, _ in decode_keys_and_values(data, position, header):
                load(key, value)
                loaded += 1
            offset = header.last_offset + 1
        yield loaded
