"""The files of a data folder as fuzz targets: those of a log, of which one holds the input and the others are as a log left
them; and the small ones: topics, checkpoints, altered settings, quotas, feature levels, credentials, producer ids.

A log is opened, read from start to end and by time, and appended to. A batch in it may be unreadable; nothing else may happen.
A small file that cannot be read is an UnreadableFile, which names it; checkpoints are reported and done without.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from functools import cache

from coterie.broker.clients.quotas import ClientQuotas
from coterie.broker.clients.scram_credentials import ScramCredentials
from coterie.broker.settings import BrokerSettings
from coterie.broker.settings.altered_settings import KeptConfigs
from coterie.broker.settings.features import TRANSACTION_VERSION, Features
from coterie.broker.storage.checkpoints import CLEANED_OFFSETS, FILE, HIGH_WATERMARKS, START_OFFSETS, LogCheckpoints
from coterie.broker.storage.topics import Topics
from coterie.coordinator.transactions.producer_ids import ProducerIds
from coterie.log import checked_files
from coterie.log.checked_files import UnreadableFile, unreported
from coterie.log.config import LogConfig
from coterie.log.filesystem import MemoryFile, MemoryFileSystem
from coterie.log.partition_log import PartitionLog
from coterie.log.producer_states import Producers, decode_index
from coterie.log.reading import max_timestamp_offset, offset_for_timestamp, read_committed
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
_TOPIC = {"id": "AAAAAAAAQACAAAAAAAAAAQ==", "partitions": 2, "configs": {"cleanup.policy": "compact"}}
_TOPICS = {"t": _TOPIC | {"leader_epochs": [1, 2]}}
_OFFSETS = {"starts": {"t-0": 5}, "cleaned": {"t-1": 7}, "closed": {}}
_LEVELS = {"epoch": 1, "levels": {TRANSACTION_VERSION: 0}}
_CONFIGS = {"TOPIC": {"t": {"retention.ms": "5"}}, "BROKER": {"": {"log.retention.ms": "7"}}}


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


def _topics(fs: MemoryFileSystem) -> object:
    topics = Topics(fs, BrokerSettings({}))
    topics.load()
    return topics


def _checkpoints(fs: MemoryFileSystem) -> object:
    return LogCheckpoints(fs, unreported).load(clean=True)


_READERS: tuple[tuple[str, str, Callable[[MemoryFileSystem], object], bytes], ...] = (
    ("topics", "topics.json", _topics, checked_files.to_json(_TOPICS)),
    ("log-checkpoint", FILE, _checkpoints, checked_files.to_json(_OFFSETS)),
    ("start-offsets", START_OFFSETS, _checkpoints, b"0\n1\nt 0 5\n"),
    ("cleaned-offsets", CLEANED_OFFSETS, _checkpoints, b"0\n1\nt 1 7\n"),
    ("high-watermarks", HIGH_WATERMARKS, _checkpoints, b"0\n1\nt 1 7\n"),
    ("configs", "altered-configs.json", KeptConfigs, checked_files.to_json(_CONFIGS)),
    ("quotas", "client_quotas.json", ClientQuotas, checked_files.to_json([])),
    ("features", "finalized-features.json", Features, checked_files.to_json(_LEVELS)),
    ("scram", "scram_credentials.json", ScramCredentials, checked_files.to_json({})),
    ("producer-ids", "producer_ids", lambda fs: ProducerIds(fs).next_block(), checked_files.to_lines("1000")),
)


def small_file_targets() -> Iterator[Target]:
    """A target for each file; inputs without a checksum, as older folders have them, reach what is behind it."""
    for name, path, read, content in _READERS:
        yield Target(f"file-{name}", path, _decoder(path, read), (UnreadableFile,), _maker(content))


def _decoder(path: str, read: Callable[[MemoryFileSystem], object]) -> Callable[[bytes], object]:
    def decode(data: bytes) -> object:
        fs = MemoryFileSystem()
        fs.write_file(path, data)
        return read(fs)

    return decode


def _maker(content: bytes) -> Callable[[random.Random], bytes]:
    def make(rng: random.Random) -> bytes:
        if content.startswith(b"{") and rng.random() < 0.7:
            return json.dumps(json.loads(content)["content"]).encode()
        return content

    return make
