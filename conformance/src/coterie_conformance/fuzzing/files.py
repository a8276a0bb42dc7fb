"""The files of a log's folder as fuzz targets: one of them holds the input, the others are as a log left them.

A log is opened, read from start to end and by time, and appended to. A batch in it may be unreadable; nothing else may happen.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache

from coterie.log.config import LogConfig
from coterie.log.files.filesystem import MemoryFile, MemoryFileSystem
from coterie.log.partition_log import PartitionLog
from coterie.log.producers.producers import Producers
from coterie.log.producers.transactions import decode_index
from coterie.log.reading import read_committed
from coterie.log.time_lookup import max_timestamp_offset, offset_for_timestamp
from coterie.records.batch import TRANSACTIONAL_BIT, BatchError, batches
from coterie.records.compression import CompressionError
from coterie.records.encoding import encode_batch
from coterie.records.markers import end_of_transaction
from coterie.wire.errors import Refusal
from coterie_conformance.fuzzing.target import Target

_FOLDER = "t-0"
_CONFIG = LogConfig(index_interval_bytes=100, segment_bytes=2_000)
_MOST_READS = 10_000
_DECLARED = (Refusal, BatchError, CompressionError)


@cache
def _closed() -> dict[str, bytes]:
    """The files of a log of three segments, with transactions, after an orderly close."""
    fs = MemoryFileSystem()
    log = PartitionLog.open(fs, _FOLDER, _CONFIG, clean=True)
    for n in range(40):
        log.append(encode_batch([(1_000 + n, b"key", b"value" * 10, ())]), 5_000)
        if n % 4 == 0:
            fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": n // 4}
            log.append(encode_batch([(1_000 + n, b"k", b"v", ())], attributes=TRANSACTIONAL_BIT, **fields), 5_000)
            log.append_own(end_of_transaction(7, 0, n % 8 == 0, 0, 1_000 + n), 5_000)
    log.close()
    return {path: bytes(file.data) for path, file in fs.files.items()}


def _first(suffix: str) -> str:
    return min(path for path in _closed() if path.endswith(suffix))


def _opened(suffix: str, *, clean: bool) -> Callable[[bytes], object]:
    def open_and_read(data: bytes) -> object:
        fs = MemoryFileSystem()
        fs.make_directory(_FOLDER)
        for path, content in (_closed() | {_first(suffix): data}).items():
            file = fs.files[path] = MemoryFile()
            file.append(content)
            file.sync()
        log = PartitionLog.open(fs, _FOLDER, _CONFIG, clean=clean)
        _read_through(log)
        log.append(encode_batch([(1_000, b"key", b"value", ())]), 5_000)
        log.close()
        return None

    return open_and_read


def _read_through(log: PartitionLog) -> None:
    offset, reads = log.log_start_offset, 0
    while offset < log.end_offset:
        before = offset
        for _, header in batches(log.read(offset, 1_000)):
            offset = max(offset, header.last_offset + 1)
        reads += 1
        assert reads < _MOST_READS, "reading does not come to the end of the log"
        if offset == before:  # nothing whole is there to read
            break
    for timestamp in (0, 1_010, 2**62):
        offset_for_timestamp(log, timestamp)
    max_timestamp_offset(log)
    read_committed(log, log.log_start_offset, 100_000, at_least_one=True)


def _make(suffix: str) -> Callable[[random.Random], bytes]:
    return lambda _: _closed()[_first(suffix)]


def _snapshot(data: bytes) -> object:
    return Producers().load_snapshot(data, {})


def _make_snapshot(_: random.Random) -> bytes:
    return _closed()[_first(".snapshot")]


FILE_TARGETS: tuple[Target, ...] = (
    Target("file-segment", "a .log after a crash", _opened(".log", clean=False), _DECLARED, _make(".log")),
    Target("file-segment-closed", "a .log after an orderly end", _opened(".log", clean=True), _DECLARED, _make(".log")),
    Target("file-index", "an .index", _opened(".index", clean=True), _DECLARED, _make(".index")),
    Target("file-timeindex", "a .timeindex", _opened(".timeindex", clean=True), _DECLARED, _make(".timeindex")),
    Target("file-txnindex", "a .txnindex", _opened(".txnindex", clean=True), _DECLARED, _make(".txnindex")),
    Target("file-txnindex-entries", "the entries of a .txnindex", decode_index, (), _make(".txnindex")),
    Target("file-snapshot", "producers' .snapshot", _snapshot, (), _make_snapshot),
)
