"""The small files of a data folder as fuzz targets: topics, checkpoints, altered settings, quotas, feature levels, credentials,
producer ids.

What cannot be read is an UnreadableFile, which names the file; checkpoints are reported and done without.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator

from coterie.broker.clients.quotas import ClientQuotas
from coterie.broker.clients.scram_credentials import ScramCredentials
from coterie.broker.settings import BrokerSettings
from coterie.broker.settings.features import TRANSACTION_VERSION, Features
from coterie.broker.settings.kept_configs import KeptConfigs
from coterie.broker.storage.checkpoints import CLEANED_OFFSETS, FILE, HIGH_WATERMARKS, START_OFFSETS, LogCheckpoints
from coterie.broker.storage.topics import Topics
from coterie.coordinator.transactions.producer_ids import ProducerIds
from coterie.log.files import checked_files
from coterie.log.files.filesystem import MemoryFileSystem
from coterie.log.files.findings import UnreadableFile, unreported
from coterie_conformance.fuzzing.target import Target

_TOPIC = {"id": "AAAAAAAAQACAAAAAAAAAAQ==", "partitions": 2, "configs": {"cleanup.policy": "compact"}}
_TOPICS = {"t": _TOPIC | {"leader_epochs": [1, 2]}}
_OFFSETS = {"starts": {"t-0": 5}, "cleaned": {"t-1": 7}, "closed": {}}
_LEVELS = {"epoch": 1, "levels": {TRANSACTION_VERSION: 0}}
_CONFIGS = {"TOPIC": {"t": {"retention.ms": "5"}}, "BROKER": {"": {"log.retention.ms": "7"}}}


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
