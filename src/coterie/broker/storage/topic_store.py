"""Topics on the disk: `topics.json`, the logs of their partitions, and the checkpoints beside them.

`topics.json` has the leader epochs too, where they are not 0. Each start after an unclean end is a new election: the epochs
rise, so that a client with a position behind a tail that was lost sees it (KIP-320).

A folder without `topics.json` is one that Apache Kafka wrote: its topics are made of the directories of logs. In a cluster
ZooKeeper has the topics, and the folder has none but the logs of this broker's replicas.
"""

from __future__ import annotations

import base64
import logging
import uuid
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from coterie.broker.settings import BrokerSettings
from coterie.broker.storage.checkpoints import FILE as CHECKPOINT
from coterie.broker.storage.checkpoints import HIGH_WATERMARKS, LogCheckpoints
from coterie.broker.storage.identity import read_topic_id, write_topic_id
from coterie.broker.storage.last_run import BootFile
from coterie.broker.storage.topic import OFFSETS_TOPIC, Partition, Topic, internal_configs
from coterie.log import checked_files
from coterie.log.checked_files import Finding, Report, UnreadableFile
from coterie.log.config import LogConfig
from coterie.log.filesystem import FileSystem, rewrite_end
from coterie.log.partition_log import PartitionLog, SyncFailed
from coterie.log.segments.recovery import SET_ASIDE
from coterie.log.segments.segment import segment_name
from coterie.log.segments.segment_loader import ClosedLog, reached
from coterie.replication.states import TopicPartition

logger = logging.getLogger(__name__)

StoredLog = tuple[str, int, PartitionLog]  # topic and partition
_KAFKA_METADATA = "__cluster_metadata"
_FILE = "topics.json"
_CLEAN = ".kafka_cleanshutdown"
_REMEDY = "restore it from a backup, or move it away: topics are then made of the folders, with new ids and settings"


class TopicStore:
    """Loads and saves all topics of a data folder; what does not fit in the folder is reported."""

    def __init__(
        self,
        fs: FileSystem,
        settings: BrokerSettings,
        report: Report,
        sync_failed: SyncFailed,
        boot_file: BootFile,
        *,
        in_cluster: bool,
    ) -> None:
        self._in_cluster, self._boot_file = in_cluster, boot_file
        self._fs, self._settings, self._report, self._sync_failed = fs, settings, report, sync_failed
        self._checkpoints = LogCheckpoints(fs, report)
        self.was_clean = False  # the end before the load
        self.lost_power = False  # before the load, perhaps
        self._rewrites = False  # a sync had failed

    def load(self) -> list[Topic]:
        """Every topic of a broker alone, with its logs open. After a crash each log's last segment is read and its torn tail
        cut off. Raises OSError, or UnreadableFile for `topics.json` where it cannot be read."""
        self._load_checkpoints()
        is_kept = self._fs.exists(_FILE)
        topics = self._load_kept() if is_kept else self._adopt()
        if topics and not (is_kept and self.was_clean):
            for topic in topics:
                for partition in topic.partitions:
                    partition.log.begin_epoch(partition.log.leader_epoch + 1)
            self.save(topics)
        self._begin()
        return topics

    def load_replicas(self) -> dict[TopicPartition, PartitionLog]:
        """The logs of a broker in a cluster, open. Raises OSError."""
        self._load_checkpoints()
        logs = {(topic, index): self.open_log(topic, index) for _, topic, index in self._directories()}
        # What a power cut or damage took may be in the logs of other replicas: no ISR may count on this one.
        self.lost_power = self.lost_power or any(log.gap_offset is not None for log in logs.values())
        self._begin()
        return logs

    def _load_checkpoints(self) -> None:
        self.was_clean = self._checkpoints.load(clean=self._fs.exists(_CLEAN))
        self._rewrites = self._boot_file.sync_has_failed
        self.lost_power = self._boot_file.may_have_lost_records(was_clean=self.was_clean)

    def _begin(self) -> None:
        """From here on an end is unclean, unless `close` was called. A broker of a cluster names the boot once it has
        registered."""
        if not self._in_cluster:
            self._boot_file.write()
        if self._fs.exists(_CLEAN):
            self._fs.remove(_CLEAN)

    def _load_kept(self) -> list[Topic]:
        kept = self._read_file()
        listed = {f"{topic.name}-{index}" for topic, epochs in kept for index in range(len(epochs))}
        for directory, _, _ in self._directories(listed):
            action = "it is left alone, and renamed when a topic of that name is created"
            self._report(Finding(directory, None, f"no topic in {_FILE} has this partition", action))
        for topic, epochs in kept:
            self._open(topic, epochs)
        return [topic for topic, _ in kept]

    def _read_file(self) -> list[tuple[Topic, list[int]]]:
        """Each topic, without its partitions, and their leader epochs. Raises UnreadableFile."""
        try:
            kept = checked_files.read_json(self._fs, _FILE, _REMEDY)
            topics = [
                (
                    Topic(name, base64.urlsafe_b64decode(t["id"]), dict(t["configs"])),
                    _epochs(int(t["partitions"]), t.get("leader_epochs", [])),
                )
                for name, t in kept.items()
            ]
            for topic, _ in topics:
                self._settings.log_config(topic.configs)  # an invalid value is reported before a log is opened
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, UnreadableFile):
                raise
            raise UnreadableFile(_FILE, "it does not hold topics", _REMEDY) from error
        return topics

    def _directories(self, known: Collection[str] = ()) -> Iterator[tuple[str, str, int]]:
        """(directory, topic, partition) of every folder that holds a log, but for those ``known``."""
        for name in self._fs.names(""):
            if name in known:
                continue
            topic_name, dash, index = name.rpartition("-")
            is_log = dash and index.isdigit() and any(file.endswith(".log") for file in self._fs.names(name))
            if is_log and topic_name != _KAFKA_METADATA:
                yield name, topic_name, int(index)

    def _adopt(self) -> list[Topic]:
        """Takes over a folder that Apache Kafka wrote: a directory a partition, topic ids from `partition.metadata`.
        Settings of topics are in Kafka's own metadata, so they begin as the broker's."""
        counts: dict[str, int] = {}
        for _, topic_name, index in self._directories():
            counts[topic_name] = max(counts.get(topic_name, 0), index + 1)
        topics = []
        for topic_name, count in counts.items():
            topic = Topic(topic_name, self._adopted_id(topic_name), internal_configs(topic_name, self._settings))
            self._open(topic, [0] * count)
            topics.append(topic)
        if topics:
            logger.info("took over %d topics of a folder without topics.json", len(topics))
        return topics

    def _adopted_id(self, topic_name: str) -> bytes:
        return self._topic_id(f"{topic_name}-0", "the topic gets a new id") or uuid.uuid4().bytes

    def _topic_id(self, directory: str, without: str) -> bytes | None:
        """``without``: what happens where the file cannot be read. Raises OSError."""
        try:
            return read_topic_id(self._fs, directory)
        except UnreadableFile as error:
            self._report(Finding(error.file, None, error.problem, without))
            return None

    def _open(self, topic: Topic, epochs: list[int]) -> None:
        config = self._settings.log_config(topic.configs)
        for index, leader_epoch in enumerate(epochs):
            log = self.open_log(topic.name, index, config, leader_epoch)
            topic.partitions.append(Partition(topic.name, index, log))

    def open_log(self, topic: str, index: int, config: LogConfig | None = None, leader_epoch: int = 0) -> PartitionLog:
        """A log of the folder as the last process left it, with its checkpoints; ``config``: by default of a topic without
        settings of its own. Raises OSError, UnreadableFile."""
        directory = f"{topic}-{index}"
        if self._in_cluster or not self._fs.exists(directory):
            return self._opened(topic, index, config, leader_epoch)
        closed = self._checkpoints.closed.get(directory)
        shown = reached(self._fs, directory) if closed is None else (closed.end_offset, CHECKPOINT)
        log = self._opened(topic, index, config, leader_epoch)
        if log.epochs.is_stale:  # else the next start would find there what this one reports
            log.epochs.write()
        self._report_lost(log, max(shown, (self._checkpoints.high_watermarks.get(directory, 0), HIGH_WATERMARKS)))
        for base in sorted(set() if closed is None else closed.segments.keys() - {s.base_offset for s in log.segments}):
            self._note_loss(log, base, "the file is gone")
        return log

    def _report_lost(self, log: PartitionLog, shown: tuple[int, str]) -> None:
        """``shown``: the offset that the log had reached, and the file that shows it."""
        end, (offset, name) = log.end_offset, shown
        if end < offset:
            problem = f"the log ends at offset {end}, and {name} shows that it had come to {offset}"
            self._report(
                Finding(f"{log.segments[-1].stem}.log", None, problem, f"offsets {end} to {offset - 1} are lost")
            )
            self._note_loss(log, end, problem)
        start, first = self._checkpoints.starts.get(log.directory, 0), log.segments[0].base_offset
        if self._checkpoints.is_own and not self.was_clean and start < first:
            path = f"{log.directory}/{segment_name(start)}.log"
            action = "they are lost, unless retention removed them just before the end"
            self._report(Finding(path, None, f"offsets {start} to {first - 1} are in no segment", action))
            self._note_loss(log, start, action)

    def _note_loss(self, log: PartitionLog, offset: int, text: str) -> None:
        """Commits may be lost, and no bytes of them are left to be set aside: a file stands for them (`lost_commits`). After a
        power cut they had not been synced, and the group goes on from what was."""
        if not self.lost_power and log.directory.rpartition("-")[0] == OFFSETS_TOPIC:
            self._fs.write_file(f"{log.directory}/{segment_name(offset)}.log{SET_ASIDE}lost", text.encode())

    def _opened(self, topic: str, index: int, config: LogConfig | None, leader_epoch: int) -> PartitionLog:
        directory = f"{topic}-{index}"
        if self._rewrites:
            rewrite_end(self._fs, directory)
        return PartitionLog.open(
            self._fs,
            directory,
            config or self._settings.log_config(internal_configs(topic, self._settings)),
            clean=self.was_clean,
            lost_power=self.lost_power,
            start_offset=self._checkpoints.starts.get(directory, 0),
            high_watermark=self._checkpoints.high_watermarks.get(directory, 0) if self._in_cluster else None,
            leader_epoch=leader_epoch,
            closed=self._checkpoints.closed.get(directory),
            cleaned_until=self._checkpoints.cleaned.get(directory, 0),
            report=self._report,
            sync_failed=self._sync_failed,
        )

    def forget_checkpoints(self, directories: Iterable[str]) -> None:
        """Before logs are made in directories whose names those of deleted topics may have had. Raises OSError."""
        self._checkpoints.forget(directories)

    def new_log(self, directory: str, config: LogConfig) -> PartitionLog:
        """The log of a partition that is new here. Raises OSError, UnreadableFile."""
        high_watermark = 0 if self._in_cluster else None
        return PartitionLog.open(
            self._fs,
            directory,
            config,
            clean=True,
            high_watermark=high_watermark,
            report=self._report,
            sync_failed=self._sync_failed,
        )

    def remove_log(self, log: PartitionLog) -> None:
        """With its files; what cannot be removed is logged. Raises OSError then, in a cluster: a later topic of that name would
        have its records."""
        log.close_files()
        try:
            self._fs.remove_directory(log.directory)
        except OSError as error:
            logger.error("%s could not be removed: %s; remove it by hand", log.directory, error)
            if self._in_cluster and self._fs.exists(log.directory):
                raise

    def remove_new(self, directory: str) -> None:
        """The directory of a partition that is not to be after all."""
        try:
            if self._fs.exists(directory):
                self._fs.remove_directory(directory)
        except OSError as error:
            logger.warning("%s could not be removed: %s; remove it by hand", directory, error.strerror)

    def is_of_topic(self, log: PartitionLog, topic_id: bytes) -> bool:
        """Whether the log's folder has that id, from now on too where it had none. Raises OSError."""
        kept = self._topic_id(log.directory, "the log is taken for one of the present topic of its name")
        if kept is None:
            write_topic_id(self._fs, log.directory, topic_id)
        return kept in (None, topic_id)

    def set_aside(self, directory: str) -> None:
        """A folder of a deleted topic leaves its name to a new topic's: it is renamed, and not looked at again. Its log is
        closed. Raises OSError."""
        stray = f"{directory}.{uuid.uuid4().hex}-stray"
        logger.warning("%s is of a deleted topic; it is %s now, and can be removed", directory, stray)
        self._fs.rename(directory, stray)

    def save(self, topics: Iterable[Topic]) -> None:
        """Writes `topics.json`. Raises OSError."""
        kept = {}
        for t in topics:
            topic_id = base64.urlsafe_b64encode(t.topic_id).decode()
            kept[t.name] = {"id": topic_id, "partitions": len(t.partitions), "configs": t.configs}
            epochs = [partition.log.leader_epoch for partition in t.partitions]
            if any(epochs):
                kept[t.name]["leader_epochs"] = epochs
        self._fs.write_file(_FILE, checked_files.to_json(kept))

    def save_high_watermarks(self, logs: Iterable[StoredLog], *, if_moved: bool = False) -> None:
        """Kafka's checkpoint of high watermarks; ``if_moved``: not where they are as in the file. Raises OSError."""
        self._checkpoints.save_high_watermarks(logs, if_moved=if_moved)

    def save_start_offsets(self, logs: Iterable[StoredLog]) -> None:
        """Kafka's checkpoint of logs whose start was moved by DeleteRecords or retention. Raises OSError."""
        self._checkpoints.save_starts(logs)

    def save_cleaned_offsets(self, logs: Iterable[StoredLog]) -> None:
        """Kafka's checkpoint of how far each log is compacted. Raises OSError."""
        self._checkpoints.save_cleaned(logs)

    def close(self, logs: Collection[StoredLog]) -> None:
        """Fsyncs and closes all logs and marks the folder as cleanly shut down; where the disk fails, it is not marked."""
        closed: dict[str, ClosedLog] = {}
        failed: OSError | None = None
        for _, _, log in logs:
            try:
                closed[log.directory] = log.close()
            except OSError as error:
                failed = error
        try:
            if failed is not None:
                raise failed
            self.save_start_offsets(logs)
            self.save_high_watermarks(logs)
            self._checkpoints.save_closed(closed)
            self._fs.write_file(_CLEAN, b'{"version":0}')
        except OSError as error:
            logger.error("the logs were not closed cleanly: %s; the next start recovers them as after a crash", error)


def _epochs(partitions: int, kept: list[Any]) -> list[int]:
    """The leader epoch of each partition; 0 where none is kept. Raises ValueError."""
    epochs = [int(epoch) for epoch in kept]
    return (epochs + [0] * partitions)[:partitions]
