"""What a start would find in a data folder, coterie's or Apache Kafka's, without changing anything in it."""

from __future__ import annotations

import fcntl
import tempfile
from dataclasses import dataclass
from pathlib import Path

from coterie.broker.clients.acls import read_acls
from coterie.broker.clients.delegation_tokens import read_tokens
from coterie.broker.clients.quotas import ClientQuotas
from coterie.broker.clients.scram_credentials import ScramCredentials
from coterie.broker.settings import BrokerSettings
from coterie.broker.settings.altered_settings import KeptConfigs
from coterie.broker.settings.features import Features
from coterie.broker.storage.disk import DataFolderInUse
from coterie.broker.storage.identity import read_identity
from coterie.broker.storage.last_run import KeptFiles
from coterie.broker.storage.overlay import OverlayFileSystem
from coterie.broker.storage.topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from coterie.broker.storage.topics import Topics
from coterie.broker.transactions.folder_producer_ids import loaded_producer_ids
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.shard import Shard
from coterie.coordinator.share_state.state import SHARE_STATE_TOPIC
from coterie.coordinator.stored_records.offsets_log import OffsetsLog
from coterie.coordinator.transactions.state import load_by_chunks
from coterie.log.checked_files import Finding, UnreadableFile
from coterie.log.filesystem import FileSystem
from coterie.log.partition_log import PartitionLog
from coterie.log.reading import SkippedBatch


@dataclass(frozen=True, slots=True)
class Checked:
    """The findings in a folder, and how many logs and bytes of segments were read for them."""

    findings: list[Finding]
    logs: int
    size: int


def check_folder(folder: Path) -> Checked:
    """Does all that a start does, on a copy of what it changes, and reads every segment whole. Raises DataFolderInUse,
    OSError."""
    check_unused(folder)
    with tempfile.TemporaryDirectory(prefix="coterie-check-") as changes:
        fs = OverlayFileSystem(folder, Path(changes))
        topics = Topics(fs, BrokerSettings())
        findings = _unreadable(fs)
        KeptFiles(fs, findings.append).report_missing()
        try:
            topics.load()
            loaded_producer_ids(fs, topics)
        except UnreadableFile as error:
            return Checked([*findings, *topics.findings, _refusal(error)], 0, 0)
        logs = list(topics.every_log())
        size = sum(segment.stat().st_size for segment in folder.glob("*-*/*.log"))
        for log in logs:
            log.verify()
            findings += _unreadable_batches(log)
            log.close_files()
        return Checked(findings + topics.findings, len(logs), size)


def check_unused(folder: Path) -> None:
    """Raises DataFolderInUse where a broker has the folder."""
    try:
        with open(folder / ".lock", "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return
    except BlockingIOError as error:
        raise DataFolderInUse(f"a broker uses the data folder {folder}; stop it first") from error


def _unreadable(fs: FileSystem) -> list[Finding]:
    """What ends a start before the logs are looked at."""
    findings = []
    readers = (read_identity, KeptConfigs, ClientQuotas, ScramCredentials, Features, read_acls, read_tokens)
    for read in readers:
        try:
            read(fs)
        except UnreadableFile as error:
            findings.append(_refusal(error))
    return findings


def _unreadable_batches(log: PartitionLog) -> list[Finding]:
    """Batches that a coordinator would skip, of a log that has not closed."""
    topic = log.directory.rpartition("-")[0]
    skipped: list[SkippedBatch] = []
    if topic == OFFSETS_TOPIC:
        offsets = OffsetsLog(log)
        offsets.load(Shard(CoordinatorConfig()))
        skipped = offsets.skipped
    elif topic in (TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC):
        for _ in load_by_chunks(log, lambda key, value, offset: None, skipped.append):
            pass
    action = "its coordinator skips it"
    return [Finding(log.directory, None, str(batch), action) for batch in skipped]


def _refusal(error: UnreadableFile) -> Finding:
    return Finding(error.file, None, error.problem, f"the broker does not start: {error.remedy}")
