"""Apache Kafka certified beside its own recording: every difference is a false alarm. Makes the recordings too."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from pathlib import Path

import coterie.certify
from coterie.certify.recording import load
from coterie.certify.replay import Certificate, StoryOutcome, certify
from coterie_conformance.certify.recorder import record, save, stories_for
from coterie_conformance.everything.judge import common_versions
from coterie_conformance.servers.kafka import running

RECORDINGS = Path(coterie.certify.__file__).parent / "recordings"
# Everything else as Kafka comes: a recording is for brokers as their users start them.
_SETTINGS = {"group.initial.rebalance.delay.ms": "0"}


def record_kafka(version: str, folder: Path) -> Path:
    """Asks that Kafka every story and writes its responses into the package; the file. Raises CannotRun."""
    with running(version, folder, _SETTINGS) as address:

        async def ask() -> Path:
            stories = stories_for(await common_versions([address]))
            recording = await record(version, stories, address, int(time.time()) * 1000)
            RECORDINGS.mkdir(exist_ok=True)
            return save(recording, RECORDINGS)

        return asyncio.run(ask())


def certify_kafka(version: str, folder: Path, progress: Callable[[StoryOutcome], None]) -> Certificate:
    """Raises CannotRun."""
    with running(version, folder, _SETTINGS) as address:
        return asyncio.run(certify(load(version), address, secrets.token_hex(2), progress))
