"""The topics of the broker: names, ids, settings, and one log per partition. Kept in `topics.json` in the data folder."""

from __future__ import annotations

import base64
import logging
import re
import uuid
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from dataclasses import dataclass, field

from coterie.broker.checkpoints import LogCheckpoints
from coterie.broker.settings import BrokerSettings, SettingError
from coterie.broker.turns import finish
from coterie.journal import TOPIC as JOURNAL_TOPIC
from coterie.log import checked_files
from coterie.log.filesystem import FileSystem
from coterie.log.findings import Finding, Report, UnreadableFile, unreported
from coterie.log.loading import ClosedLog
from coterie.log.partition_log import PartitionLog
from coterie.wire.errors import ErrorCode, Refusal

logger = logging.getLogger(__name__)

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, JOURNAL_TOPIC})
# As Kafka's GroupCoordinatorService and TransactionLog create them; one replica is all that can be in sync.
_INTERNAL_CONFIGS = {
    OFFSETS_TOPIC: {"cleanup.policy": "compact", "compression.type": "producer"},
    TRANSACTIONS_TOPIC: {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "1",
        "unclean.leader.election.enable": "false",
    },
}
_INTERNAL_SEGMENT_BYTES = {
    OFFSETS_TOPIC: "offsets.topic.segment.bytes",
    TRANSACTIONS_TOPIC: "transaction.state.log.segment.bytes",
}
MAX_PARTITIONS = 100_000
_NO_LIMIT = 2**31
_KAFKA_METADATA = "__cluster_metadata"
_FILE = "topics.json"
_CLEAN = ".kafka_cleanshutdown"
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_legal_name(name: str) -> bool:
    """Whether a topic may have that name."""
    return _LEGAL_NAME.fullmatch(name) is not None and name not in (".", "..")


@dataclass(slots=True)
class Partition:
    """A partition: its log, and who waits for something to be appended to it."""

    topic: str
    index: int
    log: PartitionLog
    watchers: set[Callable[[], None]] = field(default_factory=set)

    def appended(self) -> None:
        """Wakes those who wait for records."""
        for watcher in list(self.watchers):
            watcher()

    def sync_due(self) -> bool:
        """Whether flush.messages calls for a sync before what was just appended is acknowledged."""
        return self.log.unflushed_messages >= self.log.config.flush_messages


@dataclass(slots=True)
class Topic:
    name: str
    topic_id: bytes
    configs: dict[str, str]
    partitions: list[Partition] = field(default_factory=list)

    @property
    def internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


def check_name(name: str) -> None:
    """Raises Refusal INVALID_TOPIC_EXCEPTION unless a topic could be called so."""
    if not is_legal_name(name):
        raise Refusal(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"{name!r} is not a topic name: 1 to 249 letters, digits, '.', '_' or '-'",
        )


class Topics:
    """All topics, by name and by id."""

    def __init__(self, fs: FileSystem, settings: BrokerSettings) -> None:
        self._fs, self._settings = fs, settings
        self.by_name: dict[str, Topic] = {}
        self.by_id: dict[bytes, Topic] = {}
        self.findings: list[Finding] = []
        self.on_finding: Report = unreported
        self._checkpoints = LogCheckpoints(fs, self.report)
        self.on_change: Callable[[], None] = lambda: None
        self.room: Callable[[], int] = lambda: _NO_LIMIT  # how many files may still be opened
        self._creating: set[str] = set()

    def partition_counts(self) -> dict[str, int]:
        """Of each topic. May be asked from any thread."""
        return {name: len(topic.partitions) for name, topic in list(self.by_name.items())}

    def load(self) -> None:
        """Opens every log. After a crash each log's last segment is read and its torn tail cut off. What does not fit is
        mended and kept in ``findings``. Raises OSError, or UnreadableFile for what cannot be made again."""
        clean = self._checkpoints.load(clean=self._fs.exists(_CLEAN))
        if self._fs.exists(_FILE):
            self._load_kept(clean)
        else:
            self._adopt(clean)
        if self._fs.exists(_CLEAN):
            self._fs.remove(_CLEAN)
        self.on_finding = lambda finding: logger.warning("%s", finding)

    def _load_kept(self, clean: bool) -> None:
        remedy = (
            "restore it from a backup, or move it away: topics are then made of the folders, with new ids and settings"
        )
        try:
            kept = checked_files.read_json(self._fs, _FILE, remedy)
            topics = [
                (Topic(name, base64.urlsafe_b64decode(t["id"]), dict(t["configs"])), int(t["partitions"]))
                for name, t in kept.items()
            ]
            for topic, _ in topics:
                self._settings.log_config(topic.configs)  # a value that is none is known before a log is opened
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, UnreadableFile):
                raise
            raise UnreadableFile(_FILE, "it does not hold topics", remedy) from error
        listed = {f"{topic.name}-{index}" for topic, count in topics for index in range(count)}
        for directory, _, _ in self._directories(listed):
            action = "it is left alone; move it away before a topic of that name is created"
            self.report(Finding(directory, None, f"no topic in {_FILE} has this partition", action))
        for topic, count in topics:
            self._open(topic, count, clean=clean)
            self._register(topic)

    def report(self, finding: Finding) -> None:
        """Keeps a finding; of one that comes after the start there is a line at once."""
        self.findings.append(finding)
        self.on_finding(finding)

    def _directories(self, known: Collection[str] = ()) -> Iterator[tuple[str, str, int]]:
        """(directory, topic, partition) of every folder that holds a log, but for those ``known``."""
        for name in self._fs.names(""):
            if name in known:
                continue
            topic_name, dash, index = name.rpartition("-")
            is_log = dash and index.isdigit() and any(file.endswith(".log") for file in self._fs.names(name))
            if is_log and topic_name != _KAFKA_METADATA:
                yield name, topic_name, int(index)

    def _adopt(self, clean: bool) -> None:
        """Takes over a folder that Apache Kafka wrote: a directory a partition, topic ids from `partition.metadata`.
        Settings of topics are in Kafka's own metadata, so they begin as the broker's."""
        found: dict[str, int] = {}
        for _, topic_name, index in self._directories():
            found[topic_name] = max(found.get(topic_name, 0), index + 1)
        for topic_name, count in found.items():
            topic = Topic(topic_name, self._adopted_id(topic_name), self._internal_configs(topic_name))
            self._open(topic, count, clean=clean)
            self._register(topic)
        if found:
            logger.info("took over %d topics of a folder without topics.json", len(found))
            self._save()

    def _adopted_id(self, topic_name: str) -> bytes:
        path = f"{topic_name}-0/partition.metadata"
        if self._fs.exists(path):
            lines = dict(line.split(": ", 1) for line in self._fs.read_file(path).decode().splitlines() if ": " in line)
            if "topic_id" in lines:
                return base64.urlsafe_b64decode(lines["topic_id"] + "==")
        return uuid.uuid4().bytes

    def save_start_offsets(self) -> None:
        """Kafka's checkpoint of logs whose start was moved by DeleteRecords or retention. Raises OSError."""
        self._checkpoints.save_starts(self._logs())

    def save_cleaned_offsets(self) -> None:
        """Kafka's checkpoint of how far each log is compacted. Raises OSError."""
        self._checkpoints.save_cleaned(self._logs())

    def _logs(self) -> Iterator[tuple[str, int, PartitionLog]]:
        return ((p.topic, p.index, p.log) for t in self.by_name.values() for p in t.partitions)

    def _open(self, topic: Topic, count: int, *, clean: bool) -> None:
        config = self._settings.log_config(topic.configs)
        for index in range(len(topic.partitions), count):
            directory = f"{topic.name}-{index}"
            log = PartitionLog.open(
                self._fs,
                directory,
                config,
                clean=clean,
                start_offset=self._checkpoints.starts.get(directory, 0),
                closed=self._checkpoints.closed.get(directory),
                report=self.report,
            )
            log.cleaned_until = min(self._checkpoints.cleaned.get(directory, 0), log.end_offset)
            topic.partitions.append(Partition(topic.name, index, log))

    def _register(self, topic: Topic) -> None:
        self.by_name[topic.name] = topic
        self.by_id[topic.topic_id] = topic

    def _save(self) -> None:
        kept = {
            t.name: {
                "id": base64.urlsafe_b64encode(t.topic_id).decode(),
                "partitions": len(t.partitions),
                "configs": t.configs,
            }
            for t in self.by_name.values()
        }
        self._fs.write_file(_FILE, checked_files.to_json(kept))
        self.on_change()

    def check_new(self, name: str, partitions: int, configs: Mapping[str, str | None]) -> dict[str, str]:
        """The topic's settings, checked. Raises Refusal for anything that a topic may not be."""
        check_name(name)
        if name in self.by_name or name in self._creating:
            raise Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if not 0 < partitions <= MAX_PARTITIONS:
            raise Refusal(
                ErrorCode.INVALID_PARTITIONS, f"a topic has 1 to {MAX_PARTITIONS} partitions, not {partitions}"
            )
        self.check_room(partitions)
        return self.check_configs(configs)

    def check_room(self, partitions: int) -> None:
        """Raises Refusal INVALID_PARTITIONS where the process may not open a file for each of so many more partitions."""
        room = self.room()
        if partitions > room:
            raise Refusal(
                ErrorCode.INVALID_PARTITIONS,
                f"{partitions} partitions need as many open files, and {max(room, 0)} are left; raise ulimit -n",
            )

    def check_configs(self, configs: Mapping[str, str | None]) -> dict[str, str]:
        """The settings as they are kept. Raises Refusal INVALID_CONFIG, also for one without a value, as Kafka does."""
        checked: dict[str, str] = {}
        for name, value in configs.items():
            if value is None:
                raise Refusal(ErrorCode.INVALID_CONFIG, f"{name} needs a value; leave it out for the default")
            checked[name] = value
        try:
            self._settings.check_topic_configs(checked)
        except SettingError as error:
            raise Refusal(ErrorCode.INVALID_CONFIG, str(error)) from error
        return checked

    def create(self, name: str, partitions: int, configs: Mapping[str, str | None] | None = None) -> Topic:
        """A new topic. Raises Refusal."""
        return finish(self.creating(name, partitions, configs or {}))

    def creating(self, name: str, partitions: int, configs: Mapping[str, str | None]) -> Generator[None, None, Topic]:
        """Makes a topic, a partition at each step; nobody sees it before the last, and none of it stays where that is not
        reached. Raises Refusal, KAFKA_STORAGE_ERROR where the disk fails."""
        checked = self.check_new(name, partitions, configs)
        topic = Topic(name, uuid.uuid4().bytes, checked)
        self._creating.add(name)
        try:
            yield from self._adding(topic, partitions)
        finally:
            self._creating.discard(name)
        return topic

    def adding_partitions(self, topic: Topic, count: int) -> Generator[None, None, Topic]:
        """Makes the partitions of a topic ``count``, like `creating`."""
        self.check_room(count - len(topic.partitions))
        if topic.name in self._creating:
            raise Refusal(ErrorCode.REASSIGNMENT_IN_PROGRESS, f"partitions of {topic.name} are being added")
        self._creating.add(topic.name)
        try:
            yield from self._adding(topic, count)
        finally:
            self._creating.discard(topic.name)
        return topic

    def _adding(self, topic: Topic, count: int) -> Generator[None, None, None]:
        config = self._settings.log_config(topic.configs)
        before = len(topic.partitions)
        made: list[Partition] = []
        new: list[str] = []
        try:
            for index in range(before, count):
                directory = f"{topic.name}-{index}"
                if not self._fs.exists(directory):
                    new.append(directory)
                made.append(
                    Partition(
                        topic.name,
                        index,
                        PartitionLog.open(self._fs, directory, config, clean=True, report=self.report),
                    )
                )
                yield
            if before and self.by_name.get(topic.name) is not topic:
                raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic.name} was deleted meanwhile")
            topic.partitions += made
            self._register(topic)
            self._save()
        except BaseException as error:
            self._undo(topic, before, made, new)
            if isinstance(error, OSError):
                text = f"the disk failed while {topic.name} was made: {error.strerror}"
                raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, text) from error
            raise

    def _undo(self, topic: Topic, before: int, made: list[Partition], new: list[str]) -> None:
        """Closes the partitions from ``before`` on, and removes the directories that are new."""
        del topic.partitions[before:]
        if not before and self.by_name.get(topic.name) is topic:
            del self.by_name[topic.name], self.by_id[topic.topic_id]
        for partition in made:
            partition.log.close_files()
        for directory in new:
            try:
                if self._fs.exists(directory):
                    self._fs.remove_directory(directory)
            except OSError as error:
                logger.warning("%s could not be removed: %s; remove it by hand", directory, error.strerror)

    def configure(self, topic: Topic, configs: Mapping[str, str]) -> None:
        """Gives a topic these settings, which are checked already, in place of its own. Raises Refusal KAFKA_STORAGE_ERROR
        where they cannot be kept; then the old ones stay in force."""
        before, topic.configs = topic.configs, dict(configs)
        try:
            self._save()
        except OSError as error:
            topic.configs = before
            text = f"the settings of {topic.name} cannot be written: {error.strerror}"
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, text) from error
        self._configure_logs(topic)

    def settings_changed(self) -> None:
        """Gives every log what its topic's settings now come to, after the broker's have changed."""
        for topic in self.by_name.values():
            self._configure_logs(topic)

    def _configure_logs(self, topic: Topic) -> None:
        config = self._settings.log_config(topic.configs)
        for partition in topic.partitions:
            partition.log.config = config

    def deleting(self, topic: Topic) -> Generator[None, None, None]:
        """Removes a topic, then its files, a partition at each step; fetches that wait for its records are answered. Until
        the last step no topic of its name can be created."""
        self._creating.add(topic.name)
        try:
            del self.by_name[topic.name]
            del self.by_id[topic.topic_id]
            try:
                self._save()
            except OSError as error:
                self._register(topic)
                text = f"the deletion of {topic.name} cannot be written: {error.strerror}"
                raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, text) from error
            for partition in topic.partitions:
                partition.log.close_files()
                try:
                    self._fs.remove_directory(partition.log.directory)
                except OSError as error:
                    logger.error("%s could not be removed: %s; remove it by hand", partition.log.directory, error)
                partition.appended()
                yield
        finally:
            self._creating.discard(topic.name)

    def offsets_topic(self) -> Topic:
        """`__consumer_offsets`, made at first use."""
        topic = self.by_name.get(OFFSETS_TOPIC)
        if topic is None:
            count = self._settings.current.offsets_topic_num_partitions
            topic = self.create(OFFSETS_TOPIC, count, self._internal_configs(OFFSETS_TOPIC))
        return topic

    def _internal_configs(self, name: str) -> dict[str, str]:
        """The settings that a topic of Kafka's own begins with; none for any other."""
        configs = dict(_INTERNAL_CONFIGS.get(name, {}))
        if configs:
            configs["segment.bytes"] = str(self._settings[_INTERNAL_SEGMENT_BYTES[name]])
        return configs

    def transactions_topic(self) -> Topic:
        """`__transaction_state`, made at first use."""
        count = self._settings.current.transaction_state_log_num_partitions
        topic = self.by_name.get(TRANSACTIONS_TOPIC)
        return topic or self.create(TRANSACTIONS_TOPIC, count, self._internal_configs(TRANSACTIONS_TOPIC))

    def journal_topic(self) -> Topic:
        """`__coterie_journal`, made at first use."""
        return self.by_name.get(JOURNAL_TOPIC) or self.create(JOURNAL_TOPIC, 1, {})

    def partition(self, name: str, index: int) -> Partition:
        """Raises Refusal UNKNOWN_TOPIC_OR_PARTITION."""
        topic = self.by_name.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic.partitions[index]

    def name_of(self, name: str, topic_id: bytes, by_id: bool) -> str | None:
        """The name a request means, by name or by id; None for an id that nobody has."""
        if not by_id:
            return name
        topic = self.by_id.get(topic_id)
        return None if topic is None else topic.name

    def every_log(self) -> Iterator[PartitionLog]:
        return (p.log for t in self.by_name.values() for p in t.partitions)

    def close(self) -> None:
        """Syncs and closes all logs and marks the folder as cleanly shut down; not where the disk fails."""
        closed: dict[str, ClosedLog] = {}
        failed: OSError | None = None
        for log in self.every_log():
            try:
                closed[log.directory] = log.close()
            except OSError as error:
                failed = error
        try:
            if failed is not None:
                raise failed
            self.save_start_offsets()
            self._checkpoints.save_closed(closed)
            self._fs.write_file(_CLEAN, b'{"version":0}')
        except OSError as error:
            logger.error(
                "the logs could not be closed in order: %s; the next start treats them as after a crash", error
            )
