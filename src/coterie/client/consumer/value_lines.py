"""What is polled as lines: each value with a line break behind it, without an object for each record. For `coterie consume`; it
is one of the consumer's methods that has a module of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie.client.consumer.consumer import Consumer
from coterie.records.decoding import decode_lines

POLLED_BYTES = 1024 * 1024  # of a partition
PIECE_BYTES = 65_536  # what a pipe holds


def returns_bytes(consumer: Consumer[Any, Any]) -> bool:
    """Whether neither a deserializer nor an interceptor is to see the records, so that their values may be lines."""
    settings = consumer.settings
    return not (settings.key_deserializer or settings.value_deserializer or settings.interceptor_classes)


async def write_lines(
    consumer: Consumer[Any, Any], timeout_ms: float, limit: int, write: Callable[[bytes], object]
) -> int:
    """Polls, and passes the values to ``write`` in pieces of PIECE_BYTES: ``limit`` of them at most. Returns how many. Raises
    as `Consumer.poll` does, and what ``write`` raises; the position is then that of the first record that was not written."""
    fetcher, count = consumer._fetcher, 0
    polled = await consumer._loop.run(timeout_ms, lambda: fetcher.take_batches(POLLED_BYTES))
    unwritten = {partition: begin for partition, (begin, _) in polled.items()}
    try:
        for partition, (begin, stored) in polled.items():
            for batch in stored:
                if count == limit:
                    return count
                try:
                    pieces = decode_lines(batch.data, batch.at, batch.header, begin, limit - count, PIECE_BYTES)
                except Exception as error:  # any that the bytes made a decoder raise
                    fetcher.put_back(partition, begin, batch, error)
                    break
                for piece in pieces:
                    write(piece.data)
                    count += piece.records
                    unwritten[partition] = piece.last_offset + 1
                if unwritten[partition] <= batch.header.last_offset and count == limit:
                    return count
            del unwritten[partition]  # its position is right already
    finally:
        for partition, offset in unwritten.items():
            fetcher.seek(partition, offset, fetcher.positions[partition].offset_epoch)
    return count
