"""The topics of the broker while it runs: created, extended, configured and deleted; `topic_store` has them on the disk."""

from __future__ import annotations

import logging
import uuid
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

from coterie.broker.requests.turns import finish
from coterie.broker.settings import BrokerSettings, SettingError
from coterie.broker.storage.last_run import BOOT_FILE, BootFile
from coterie.broker.storage.replicas import ReplicaLogs
from coterie.broker.storage.topic import (
    INTERNAL_TOPICS,
    MAX_PARTITIONS,
    OFFSETS_TOPIC,
    TRANSACTIONS_TOPIC,
    NewPartitions,
    Partition,
    Topic,
    UnifiedNames,
    check_name,
    internal_configs,
    internal_partitions,
)
from coterie.broker.storage.topic_store import StoredLog, TopicStore
from coterie.coordinator.journal.line import TOPIC as JOURNAL_TOPIC
from coterie.log.checked_files import Finding, Report, unreported
from coterie.log.filesystem import FileSystem
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
        self.warn: Callable[..., None] = logger.warning  # about what each request of a client may repeat
        self.on_change: Callable[[], None] = lambda: None
        self.on_deleted: Callable[[list[Topic]], None] = lambda topics: None
        self.changes = self._settings_changes = (
            0  # since the start: of topics, partitions and their settings; of settings
        )
        self.room: Callable[[], int] = lambda: _NO_LIMIT  # the number of files that the process may still open
        self._names, self._creating = UnifiedNames(), UnifiedNames()

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
            self.boot_file.note_failed_sync()
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
        self._names.add(topic.name)

    def _unregister(self, topic: Topic) -> None:
        del self.by_name[topic.name], self.by_id[topic.topic_id]
        self._names.discard(topic.name)

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
            self._names.check_collision(name)
            self._creating.check_collision(name)

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
        growth = yield from self.preparing(name, partitions, configs)
        self.publish([growth])
        return growth.topic

    def preparing(
        self, name: str, partitions: int, configs: Mapping[str, str | None]
    ) -> Generator[None, None, NewPartitions]:
        """Makes a new topic's logs, a partition at each step; `publish` or `abandon` follows. Raises Refusal as `creating`."""
        checked = self.check_new(name, partitions, configs)
        return (yield from self._growing(Topic(name, self._new_topic_id(), checked), partitions))

    def adding_partitions(self, topic: Topic, count: int) -> Generator[None, None, Topic]:
        """Extends a topic to ``count`` partitions, like `creating`; its deletion waits for the last step."""
        growth = yield from self.extending(topic, count)
        self.publish([growth])
        return topic

    def extending(self, topic: Topic, count: int) -> Generator[None, None, NewPartitions]:
        """Makes the logs of further partitions, like `preparing`."""
        self.check_room(count - len(topic.partitions))
        if topic.name in self._creating:
            raise Refusal(ErrorCode.REASSIGNMENT_IN_PROGRESS, f"partitions of {topic.name} are being added")
        return (yield from self._growing(topic, count))

    def _growing(self, topic: Topic, count: int) -> Generator[None, None, NewPartitions]:
        config = self._settings.log_config(topic.configs)
        growth = NewPartitions(topic, len(topic.partitions), self._settings_changes)
        directories = [f"{topic.name}-{index}" for index in range(growth.before, count)]
        self._creating.add(topic.name)
        try:
            self._store.forget_checkpoints(directories)
            for index, directory in enumerate(directories, growth.before):
                if self._fs.exists(directory):
                    self._store.set_aside(directory)
                growth.directories.append(directory)
                growth.made.append(Partition(topic.name, index, self._store.new_log(directory, config)))
                yield
        except BaseException as error:
            self.abandon([growth])
            if isinstance(error, OSError):
                raise _disk_failed(topic.name, error) from error
            raise
        return growth

    def publish(self, growths: Sequence[NewPartitions]) -> None:
        """Makes new partitions visible, with one write. Raises Refusal KAFKA_STORAGE_ERROR, and then all are removed."""
        try:
            for growth in growths:
                growth.topic.partitions += growth.made
                self._register(growth.topic)
                if growth.settings_changes != self._settings_changes:
                    self._configure_logs(growth.topic)
            self._save()
        except BaseException as error:
            self.abandon(growths)
            if isinstance(error, OSError):
                raise _disk_failed(growths[0].topic.name, error) from error
            raise
        for growth in growths:
            self._creating.discard(growth.topic.name)

    def abandon(self, growths: Iterable[NewPartitions]) -> None:
        """Closes new partitions, and removes their directories."""
        for growth in growths:
            topic = growth.topic
            self._creating.discard(topic.name)
            del topic.partitions[growth.before :]
            if not growth.before and self.by_name.get(topic.name) is topic:
                self._unregister(topic)
            for partition in growth.made:
                partition.log.close_files()
            for directory in growth.directories:
                self._store.remove_new(directory)

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
        """Replaces a topic's settings at once. Raises Refusal as `configuring`."""
        finish(self.configuring([(topic, configs)]))

    def configuring(self, altered: Iterable[tuple[Topic, Mapping[str, str]]]) -> Generator[None, None, None]:
        """Replaces the settings of topics, which are checked already: writes all, then applies a topic's with each step. Raises
        Refusal KAFKA_STORAGE_ERROR where they cannot be written; then the old settings stay in force."""
        altered = list(altered)
        before = [(topic, topic.configs) for topic, _ in altered]
        for topic, configs in altered:
            topic.configs = dict(configs)
        try:
            self._save()
        except OSError as error:
            for topic, configs in before:
                topic.configs = configs
            names = ", ".join(topic.name for topic, _ in before[:3])
            text = f"the settings of {names} cannot be written: {error.strerror}"
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, text) from error
        yield from self.configuring_logs(topic for topic, _ in before)

    def configuring_logs(self, topics: Iterable[Topic]) -> Generator[None, None, None]:
        """Applies changed settings, the broker's or the topics' own, to the logs of a topic with each step."""
        self._settings_changes += 1
        for topic in topics:
            self._configure_logs(topic)
            yield

    def _configure_logs(self, topic: Topic) -> None:
        config = self._settings.log_config(topic.configs)
        for partition in topic.partitions:
            partition.log.config = config

    def deleting(self, topic: Topic) -> Generator[None, None, None]:
        """Like `deleting_all`. Raises Refusal, UNKNOWN_TOPIC_OR_PARTITION where another request was first."""
        if (yield from self.deleting_all([topic])):
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def deleting_all(self, topics: Sequence[Topic]) -> Generator[None, None, set[str]]:
        """Deletes topics with one write, calls ``on_deleted``, then deletes their files, a partition at each step; fetches that
        wait for their records have their responses. Until then no topic of their names can be created. Partitions that are
        being added are awaited. Returns the names of topics that another request deletes first. Raises Refusal
        KAFKA_STORAGE_ERROR."""
        while any(topic.name in self._creating and self.by_name.get(topic.name) is topic for topic in topics):
            yield
        deleted = [topic for topic in topics if self.by_name.get(topic.name) is topic]
        for topic in deleted:
            self._creating.add(topic.name)
            self._unregister(topic)
        left = deque(deleted)
        try:
            try:
                self._save()
            except OSError as error:
                for topic in deleted:
                    self._register(topic)
                text = f"the deletion of {deleted[0].name} cannot be written: {error.strerror}"
                raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, text) from error
            self.on_deleted(deleted)
            while left:
                for partition in left[0].partitions:
                    if partition.is_stored:
                        self._store.remove_log(partition.log)
                    partition.appended()
                    yield
                self._creating.discard(left.popleft().name)
        finally:
            for topic in left:
                self._creating.discard(topic.name)
        return {topic.name for topic in topics} - {topic.name for topic in deleted}

    def offsets_topic(self) -> Topic:
        """`__consumer_offsets`, created at first use. Raises Refusal."""
        return self.coordinators_topic(OFFSETS_TOPIC)

    def transactions_topic(self) -> Topic:
        """`__transaction_state`, created at first use. Raises Refusal."""
        return self.coordinators_topic(TRANSACTIONS_TOPIC)

    def coordinators_topic(self, name: str) -> Topic:
        """Raises Refusal COORDINATOR_NOT_AVAILABLE where it cannot be created: no coordinator works without its topic."""
        if name not in self.by_name:
            try:
                self.create(name, internal_partitions(self._settings)[name], internal_configs(name, self._settings))
            except Refusal as error:
                self.warn("%s cannot be created: %s", name, error)
                raise Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error
        return self.by_name[name]

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


def _disk_failed(topic: str, error: OSError) -> Refusal:
    return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"the disk failed while {topic} was made: {error.strerror}")
