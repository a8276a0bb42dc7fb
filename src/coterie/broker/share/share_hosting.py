"""The share partitions that a broker has as the leader of their partitions (Kafka's SharePartitionManager and
SharePartitionCache): made at the first fetch, dropped with the leadership, the topic or the group's last session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from coterie.broker.settings.features import DEAD_LETTERS_FROM, SHARE_VERSION, Features
from coterie.broker.settings.groups import OffsetReset, ShareGroupSettings, share_group_settings
from coterie.broker.share.dead_letter_queue import DeadLetterQueue, LetterServices
from coterie.broker.share.hosted_share_partition import HostedSharePartition, ShareStage
from coterie.broker.share.share_sessions import SessionKey, SharedPartition, ShareSessions
from coterie.broker.share_state.persister import FENCING, SharePersister
from coterie.broker.storage.topic import Partition, Topic
from coterie.coordinator.share_state.state import SharePartitionKey
from coterie.log.reading import offset_for_timestamp
from coterie.share.acknowledging import Acknowledgement
from coterie.share.dead_letters import DeadRecords
from coterie.share.partition import Ended, ShareLimits
from coterie.wire.errors import ErrorCode, Refusal

Results = dict[SharedPartition, Refusal | None]
EndedRecords = Callable[[str, Partition, Sequence[Ended]], None]
BuriedRecords = Callable[[str, Partition, DeadRecords, str, str], None]


class ShareHosting:
    """``on_ended``: gets the records of a group that are archived without having been accepted, with their partition;
    ``on_buried`` the ones that went to the dead letter topic before, with its name, and why letters are missing, or ""."""

    def __init__(self, services: LetterServices, features: Features, persister: SharePersister) -> None:
        self._settings, self._topics = services.settings, services.topics
        self.clock, self.scheduler, self.persister = services.clock, services.scheduler, persister
        self._features = features
        self.dead_letters = DeadLetterQueue(services, self.settings_of)
        self.sessions = ShareSessions(self._settings.share.group_share_max_share_sessions)
        self.sessions.on_lost = self._session_lost
        self.sessions.on_empty = self.group_is_empty
        self.on_ended: EndedRecords = lambda group_id, partition, ended: None
        self.on_buried: BuriedRecords = lambda group_id, partition, records, topic, problem: None
        self._hosted: dict[SharePartitionKey, HostedSharePartition] = {}
        self._own: dict[str, Mapping[str, str]] = {}  # of groups with settings of their own
        self._read: dict[str, ShareGroupSettings] = {}  # the same, as they count

    # -- settings -----------------------------------------------------------------------------------------------------

    def configure(self, group_id: str, own: Mapping[str, str]) -> None:
        """Puts the settings of a group in force; with none it has the broker's."""
        self._own.pop(group_id, None)
        self._read.pop(group_id, None)
        if own:
            self._own[group_id] = own
        for hosted in self._of(lambda key: key.group_id == group_id):
            hosted.configure(self.limits(group_id))

    def settings_of(self, group_id: str) -> ShareGroupSettings:
        """Its own, or the broker's."""
        settings = self._read.get(group_id)
        if settings is None:
            own, level = self._own.get(group_id, {}), self._features.level(SHARE_VERSION)
            settings = share_group_settings(self._settings.share, own, dead_letters=level >= DEAD_LETTERS_FROM)
            if own:
                self._read[group_id] = settings
        return settings

    def features_changed(self) -> None:
        """Share groups are not served at share.version 0, and have no dead letters at 1."""
        self._read.clear()
        if not self._features.level(SHARE_VERSION):
            self.sessions.clear()
            for key in list(self._hosted):
                self.drop(key)
        for hosted in self._hosted.values():
            hosted.configure(self.limits(hosted.key.group_id))

    def limits(self, group_id: str) -> ShareLimits:
        """The limits of a group's share partitions."""
        return self.settings_of(group_id).limits

    def first_offset(self, group_id: str, partition: Partition) -> int:
        """Where a group begins that has no state of the partition, by share.auto.offset.reset. Raises Refusal
        OFFSET_NOT_AVAILABLE, or CORRUPT_MESSAGE."""
        reset = self.settings_of(group_id).offset_reset
        log = partition.log
        if reset.kind is OffsetReset.Kind.EARLIEST:
            return log.log_start_offset
        partition.check_high_watermark()
        if reset.kind is OffsetReset.Kind.LATEST:
            return log.high_watermark
        timestamp = self.clock.now_ms() - reset.duration_ms
        at_time = offset_for_timestamp(log, timestamp)
        if at_time is None or at_time[0] >= log.high_watermark:  # as in Kafka, until a record of that time is there
            where = f"{partition.topic}-{partition.index}"
            text = f"Offset for timestamp {timestamp} not found for topic partition: {where}"
            raise Refusal(ErrorCode.OFFSET_NOT_AVAILABLE, text)
        return at_time[0]

    # -- share partitions ---------------------------------------------------------------------------------------------

    def host(self, group_id: str, named: SharedPartition) -> HostedSharePartition:
        """The group's share partition, made where it is not here yet. Raises Refusal NOT_LEADER_OR_FOLLOWER or
        UNKNOWN_TOPIC_OR_PARTITION."""
        key = SharePartitionKey(group_id, named.topic_id, named.partition)
        hosted = self._hosted.get(key)
        if hosted is None:
            partition = self._topics.partition(named.topic, named.partition)
            partition.check_leader()
            hosted = self._hosted[key] = HostedSharePartition(key, partition, self)
        return hosted

    def drop(self, key: SharePartitionKey) -> None:
        """The share partition is not this broker's, or is to be read again."""
        hosted = self._hosted.pop(key, None)
        if hosted is not None:
            hosted.fence()

    def role_changed(self, partition: Partition) -> None:
        """Drops the share partitions of a partition that this broker leads no longer."""
        if not partition.is_led:
            for hosted in [h for h in self._hosted.values() if h.partition is partition]:
                self.drop(hosted.key)

    def topics_deleted(self, topics: Iterable[Topic]) -> None:
        """Drops the share partitions of topics that are gone."""
        gone = {topic.topic_id for topic in topics}
        for hosted in self._of(lambda key: key.topic_id in gone):
            self.drop(hosted.key)

    def group_is_empty(self, group_id: str) -> None:
        """Drops the share partitions of a group that has no session here."""
        for hosted in self._of(lambda key: key.group_id == group_id):
            self.drop(hosted.key)

    def start_offsets(self, group_id: str) -> dict[int, int]:
        """Of the group's share partitions that are loaded, by partition."""
        hosted = self._of(lambda key: key.group_id == group_id)
        return {h.key.partition: h.state.start_offset for h in hosted if h.stage is ShareStage.ACTIVE}

    def _of(self, is_meant: Callable[[SharePartitionKey], bool]) -> list[HostedSharePartition]:
        return [hosted for key, hosted in self._hosted.items() if is_meant(key)]

    # -- members ------------------------------------------------------------------------------------------------------

    def acknowledge(
        self,
        session: SessionKey,
        batches: Mapping[SharedPartition, Sequence[Acknowledgement]],
        done: Callable[[Results], None],
    ) -> None:
        """``done`` once all are written, with each partition's error."""

        def begin(
            hosted: HostedSharePartition, named: SharedPartition, ended: Callable[[Refusal | None], None]
        ) -> None:
            hosted.acknowledge(session.member_id, batches[named], ended)

        self._each(session.group_id, batches, begin, done)

    def end_session(self, session: SessionKey, done: Callable[[Results], None] = lambda results: None) -> None:
        """A member closes its session: what it has acquired is released. Raises Refusal SHARE_SESSION_NOT_FOUND."""
        ended = self.sessions.remove(session)
        if ended is None:
            raise Refusal(ErrorCode.SHARE_SESSION_NOT_FOUND)
        self._release(session, ended.partitions.values(), done)

    def _session_lost(self, session: SessionKey) -> None:
        known = self.sessions.get(session)
        if known is not None:
            self._release(session, known.partitions.values(), lambda results: None)

    def _release(
        self, session: SessionKey, partitions: Iterable[SharedPartition], done: Callable[[Results], None]
    ) -> None:
        def begin(
            hosted: HostedSharePartition, named: SharedPartition, ended: Callable[[Refusal | None], None]
        ) -> None:
            hosted.release(session.member_id, ended)

        self._each(session.group_id, list(partitions), begin, done)

    def _each(
        self,
        group_id: str,
        named: Iterable[SharedPartition],
        begin: Callable[[HostedSharePartition, SharedPartition, Callable[[Refusal | None], None]], None],
        done: Callable[[Results], None],
    ) -> None:
        """Does it for each share partition that is here; UNKNOWN_TOPIC_OR_PARTITION for the others, and every error with its
        text, as in Kafka."""
        partitions = list(named)
        results: Results = {}

        def ended(partition: SharedPartition, refusal: Refusal | None) -> None:
            if refusal is not None and refusal.code in FENCING:
                self.drop(SharePartitionKey(group_id, partition.topic_id, partition.partition))
            results[partition] = None if refusal is None else Refusal(refusal.code, str(refusal))
            if len(results) == len(partitions):
                done({partition: results[partition] for partition in partitions})

        for partition in partitions:
            hosted = self._hosted.get(SharePartitionKey(group_id, partition.topic_id, partition.partition))
            if hosted is None:
                ended(partition, Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            else:
                begin(hosted, partition, lambda refusal, partition=partition: ended(partition, refusal))  # type: ignore[misc]
        if not partitions:
            done({})

    def ended(self, hosted: HostedSharePartition, ended: Sequence[Ended]) -> None:
        """Records are archived without having been accepted."""
        self.on_ended(hosted.key.group_id, hosted.partition, ended)

    def bury(self, hosted: HostedSharePartition, records: DeadRecords, done: Callable[[], None]) -> None:
        """Sends letters about the records to the group's dead letter topic; ``done`` when that has ended either way."""
        group_id = hosted.key.group_id

        def ended(problem: str) -> None:
            topic = self.settings_of(group_id).dead_letter_topic
            self.on_buried(group_id, hosted.partition, records, topic, problem)
            done()

        self.dead_letters.bury(group_id, hosted.partition, records, ended)
