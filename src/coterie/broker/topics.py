"""The topics of the broker while it runs: created, extended, configured and deleted; `topic_store` has them on the disk."""

from __future__ import annotations

import itertools
import logging
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping

from coterie.broker.machine_reset import FILE as BOOT_FILE
from coterie.broker.machine_reset import BootFile
from coterie.broker.replica_logs import ReplicaLogs
from coterie.broker.settings import BrokerSettings, SettingError
from coterie.broker.topic import (
    INTERNAL_TOPICS,
    MAX_PARTITIONS,
    OFFSETS_TOPIC,
    TRANSACTIONS_TOPIC,
    Partition,
    Topic,
    check_collision,
    check_name,
    internal_configs,
)
from coterie.broker.topic_store import StoredLog, TopicStore
from coterie.broker.turns import finish
from coterie.journal import TOPIC as JOURNAL_TOPIC
from coterie.log.filesystem import FileSystem
from coterie.log.findings import Finding, Report, unreported
from coterie.log.partition_log import PartitionLog, SyncFailed
from coterie.wire.errors import ErrorCode, Refusal

logger = logging.getLogger(__name__)

_NO_LIMIT = 2**31


class Topics:
    """All topics, by name and by id. Where a change cannot be written, nothing of it stays in force."""

    def __init__(
        self,
        fs: FileSystem,
        settings: BrokerSettings,
        new_topic_id: Callable[[], bytes] = lambda: uuid.uuid4().bytes,
        *,
        in_cluster: bool = False,
        boot_id: str | None = None,
    ) -> None:
        """``boot_id``: of the machine's present boot, None for this machine's."""
        self._fs, self._settings, self._new_topic_id = fs, settings, new_topic_id
        self.in_cluster = in_cluster
        self.by_name: dict[str, Topic] = {}
        self.by_id: dict[bytes, Topic] = {}
        self.findings: list[Finding] = []
        self.on_finding: Report = unreported
        self.on_sync_failed: SyncFailed = lambda error: None
        self.boot_file = BootFile(fs, boot_id)
        self._store = TopicStore(fs, settings, self.report, self.sync_failed, self.boot_file, in_cluster=in_cluster)
        self.replica_logs = ReplicaLogs(self._store)  # of a broker in a cluster
        self.on_change: Callable[[], None] = lambda: None
        self.on_deleted: Callable[[Topic], None] = lambda topic: None
        self.changes = 0  # of topics, partitions and their settings since the start
        self.room: Callable[[], int] = lambda: _NO_LIMIT  # the number of files that the process may still open
        self._creating: set[str] = set()

    def partition_counts(self) -> dict[str, int]:
        """The number of partitions of each topic. Thread-safe."""
        return {name: len(topic.partitions) for name, topic in list(self.by_name.items())}

    def load(self) -> None:
        """Opens every log. What does not fit in the folder is repaired and kept in ``findings``. Raises OSError, or
        UnreadableFile for `topics.json` where it cannot be read."""
        if self.in_cluster:
            self.replica_logs.load()
        else:
            for topic in self._store.load():
                self._register(topic)
        self.on_finding = lambda finding: logger.warning("%s", finding)

    @property
    def lost_power(self) -> bool:
        """Whether logs may lack records that other replicas have: the machine may have gone down before the load, or damage has
        left a gap."""
        return self._store.lost_power

    def report(self, finding: Finding) -> None:
        """Keeps a finding; a finding after the start is logged at once."""
        self.findings.append(finding)
        self.on_finding(finding)

    def sync_failed(self, error: OSError) -> None:
        """A log could not be synced: the broker must stop."""
        self.on_sync_failed(error)

    def distrust_logs(self) -> None:
        """At the next start: the system may never write what it was given, while the boot stays the same."""
        try:
            self.boot_file.forget()
        except OSError as error:
            text = "%s cannot be removed: %s; remove it before the next start, which would trust the end of the logs"
            logger.critical(text, BOOT_FILE, error)

    def save_start_offsets(self) -> None:
        """Kafka's checkpoint of logs whose start was moved by DeleteRecords or retention. Raises OSError."""
        self._store.save_start_offsets(self._stored())

    def save_cleaned_offsets(self) -> None:
        """Kafka's checkpoint of how far each log is compacted. Raises OSError."""
        self._store.save_cleaned_offsets(self._stored())

    def save_high_watermarks(self, *, if_moved: bool = False) -> None:
        """Kafka's checkpoint of high watermarks; ``if_moved``: not where they are as in the file. Raises OSError."""
        self._store.save_high_watermarks(self._stored(), if_moved=if_moved)

    def _stored(self) -> list[StoredLog]:
        """The logs in the folder, with topic and partition."""
        logs = [(p.topic, p.index, p.log) for t in self.by_name.values() for p in t.partitions if p.is_stored]
        return [*logs, *self.replica_logs.waiting()]

    def _register(self, topic: Topic) -> None:
        self.by_name[topic.name] = topic
        self.by_id[topic.topic_id] = topic

    def _save(self) -> None:
        if not self.in_cluster:
            self._store.save(self.by_name.values())
        self.changes += 1
        self.on_change()

    def check_new_name(self, name: str) -> None:
        """Raises Refusal INVALID_TOPIC_EXCEPTION, TOPIC_ALREADY_EXISTS."""
        check_name(name)
        if name in self.by_name or name in self._creating:
            raise Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if name not in INTERNAL_TOPICS:  # without those no group and no transaction would work
            check_collision(name, itertools.chain(self.by_name, self._creating))

    def check_new(self, name: str, partitions: int, configs: Mapping[str, str | None]) -> dict[str, str]:
        """The settings of a new topic, checked. Raises Refusal for an invalid name, number of partitions or setting."""
        self.check_new_name(name)
        if not 0 < partitions <= MAX_PARTITIONS:
            raise Refusal(
                ErrorCode.INVALID_PARTITIONS, f"a topic has 1 to {MAX_PARTITIONS} partitions, not {partitions}"
            )
        self.check_room(partitions)
        return self.check_configs(configs)

    def check_room(self, partitions: int) -> None:
        """Raises Refusal INVALID_PARTITIONS where the process may not open a file for each of that many further partitions."""
        room = self.room()
        if partitions > room:
            raise Refusal(
                ErrorCode.INVALID_PARTITIONS,
                f"{partitions} partitions need as many open files, and {max(room, 0)} are left; raise ulimit -n",
            )

    def check_configs(self, configs: Mapping[str, str | None]) -> dict[str, str]:
        """The settings as they are kept. Raises Refusal INVALID_CONFIG, also for a setting without a value, as Kafka does."""
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
        """Creates a topic at once. Raises Refusal as `creating`."""
        return finish(self.creating(name, partitions, configs or {}))

    def creating(self, name: str, partitions: int, configs: Mapping[str, str | None]) -> Generator[None, None, Topic]:
        """Creates a topic, a partition at each step. It is visible after the last step, and all of it is removed where that is
        not reached. Raises Refusal, KAFKA_STORAGE_ERROR where the disk fails."""
        checked = self.check_new(name, partitions, configs)
        topic = Topic(name, self._new_topic_id(), checked)
        self._creating.add(name)
        try:
            yield from self._adding(topic, partitions)
        finally:
            self._creating.discard(name)
        return topic

    def adding_partitions(self, topic: Topic, count: int) -> Generator[None, None, Topic]:
        """Extends a topic to ``count`` partitions, like `creating`; its deletion waits for the last step."""
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
        directories = [f"{topic.name}-{index}" for index in range(before, count)]
        try:
            self._store.forget_checkpoints(directories)
            for index, directory in enumerate(directories, before):
                if self._fs.exists(directory):
                    self._store.set_aside(directory)
                new.append(directory)
                made.append(Partition(topic.name, index, self._store.new_log(directory, config)))
                yield
            topic.partitions += made
            self._register(topic)
            self._configure_logs(topic)  # the settings may have been altered meanwhile
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

    def announce(
        self, name: str, count: int, topic_id: bytes, configs: Mapping[str, str], written_id: bytes | None = None
    ) -> Topic:
        """In a cluster: the controller's topic, which has so many partitions at least; whether this broker has a replica of
        one is in the partition. One that is here with another id, of a topic of that name that this broker did not see
        deleted or from before its node was read, gets ``topic_id``. ``configs``: of a topic that is new here;
        ``written_id``: the id in ZooKeeper, which then is ``topic_id`` as well. Raises OSError."""
        topic = self.by_name.get(name) or Topic(name, topic_id, dict(configs))
        if count > len(topic.partitions) or topic_id != topic.topic_id:
            self.replica_logs.announced(topic, count, self._settings.log_config(topic.configs), written_id)
            self.by_id.pop(topic.topic_id, None)
            topic.topic_id = topic_id
            self._register(topic)
            self._save()
        return topic

    def store(self, partition: Partition) -> PartitionLog:
        """In a cluster: the log of a replica of this broker, made where there is none. Raises OSError, UnreadableFile."""
        self.replica_logs.store(partition, self._settings.log_config(self.by_name[partition.topic].configs))
        return partition.log

    def configure(self, topic: Topic, configs: Mapping[str, str]) -> None:
        """Replaces a topic's settings by ``configs``, which are checked already. Raises Refusal KAFKA_STORAGE_ERROR where they
        cannot be written; then the old settings stay in force."""
        before, topic.configs = topic.configs, dict(configs)
        try:
            self._save()
        except OSError as error:
            topic.configs = before
            text = f"the settings of {topic.name} cannot be written: {error.strerror}"
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, text) from error
        self._configure_logs(topic)

    def settings_changed(self) -> None:
        """Applies the broker's changed settings to every log."""
        for topic in self.by_name.values():
            self._configure_logs(topic)

    def _configure_logs(self, topic: Topic) -> None:
        config = self._settings.log_config(topic.configs)
        for partition in topic.partitions:
            partition.log.config = config

    def deleting(self, topic: Topic) -> Generator[None, None, None]:
        """Deletes a topic, calls ``on_deleted``, then deletes its files, a partition at each step; fetches that wait for its
        records are answered. Until the last step no topic of its name can be created. Partitions that are being added are
        awaited. Raises Refusal UNKNOWN_TOPIC_OR_PARTITION where another request deletes it first, KAFKA_STORAGE_ERROR."""
        while topic.name in self._creating and self.by_name.get(topic.name) is topic:
            yield
        if self.by_name.get(topic.name) is not topic:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
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
            self.on_deleted(topic)
            for partition in topic.partitions:
                if partition.is_stored:
                    self._store.remove_log(partition.log)
                partition.appended()
                yield
        finally:
            self._creating.discard(topic.name)

    def offsets_topic(self) -> Topic:
        """`__consumer_offsets`, created at first use. Raises Refusal."""
        return self._coordinators_topic(OFFSETS_TOPIC, self._settings.current.offsets_topic_num_partitions)

    def transactions_topic(self) -> Topic:
        """`__transaction_state`, created at first use. Raises Refusal."""
        return self._coordinators_topic(TRANSACTIONS_TOPIC, self._settings.current.transaction_state_log_num_partitions)

    def _coordinators_topic(self, name: str, partitions: int) -> Topic:
        """Raises Refusal COORDINATOR_NOT_AVAILABLE where it cannot be created: no coordinator works without its topic."""
        topic = self.by_name.get(name)
        if topic is None:
            try:
                topic = self.create(name, partitions, internal_configs(name, self._settings))
            except Refusal as error:
                logger.error("%s cannot be created: %s", name, error)
                raise Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error
        return topic

    def journal_topic(self) -> Topic:
        """`__coterie_journal`, created at first use. Raises Refusal."""
        return self.by_name.get(JOURNAL_TOPIC) or self.create(JOURNAL_TOPIC, 1, {})

    def partition(self, name: str, index: int) -> Partition:
        """Raises Refusal UNKNOWN_TOPIC_OR_PARTITION."""
        topic = self.by_name.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic.partitions[index]

    def name_of(self, name: str, topic_id: bytes, by_id: bool) -> str | None:
        """The name of the topic in a request that names it by name or by id; None for an unknown id."""
        if not by_id:
            return name
        topic = self.by_id.get(topic_id)
        return None if topic is None else topic.name

    def every_log(self) -> Iterator[PartitionLog]:
        return (p.log for t in self.by_name.values() for p in t.partitions if p.is_stored)

    def close(self) -> None:
        """Fsyncs and closes all logs and marks the folder as cleanly shut down; where the disk fails, it is not marked."""
        self._store.close(self._stored())
