"""A topic and its partitions, which names are legal, and the topics that the broker itself writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from coterie.broker.settings import BrokerSettings
from coterie.coordinator.journal.line import TOPIC as JOURNAL_TOPIC
from coterie.coordinator.share_state.state import SHARE_STATE_TOPIC
from coterie.log.leader_epochs import EndOfEpoch
from coterie.log.log_state import Appended
from coterie.log.partition_log import PartitionLog
from coterie.replication.leader import Leader
from coterie.replication.replicas import Replica
from coterie.replication.states import Effect, ReplicaError, ReplicaRefusal
from coterie.replication.stored_log import LeaderAppend
from coterie.wire.errors import ErrorCode, Refusal

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC, JOURNAL_TOPIC})
# As Kafka's GroupCoordinatorService, TransactionLog and ShareCoordinatorService create them; one replica is all that can be
# in sync.
_INTERNAL_CONFIGS = {
    OFFSETS_TOPIC: {"cleanup.policy": "compact", "compression.type": "producer"},
    TRANSACTIONS_TOPIC: {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "1",
        "unclean.leader.election.enable": "false",
    },
    SHARE_STATE_TOPIC: {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "min.insync.replicas": "1",
        "retention.ms": "-1",
    },
}
_INTERNAL_SEGMENT_BYTES = {
    OFFSETS_TOPIC: "offsets.topic.segment.bytes",
    TRANSACTIONS_TOPIC: "transaction.state.log.segment.bytes",
    SHARE_STATE_TOPIC: "share.coordinator.state.topic.segment.bytes",
}
JOURNAL_CLIENT_ID = "coterie-journal"  # with which the brokers of a cluster write the journal at its leader
MAX_PARTITIONS = 100_000
NO_LEADER_EPOCH = -1  # of a client without one
_LEGAL_NAME = r"[a-zA-Z0-9._-]{1,249}"


def is_legal_name(name: str) -> bool:
    """Whether a topic may have that name (Kafka's Topic.validate)."""
    return re.fullmatch(_LEGAL_NAME, name) is not None and name not in (".", "..")


def check_name(name: str) -> None:
    """Raises Refusal INVALID_TOPIC_EXCEPTION unless the name is legal."""
    if not is_legal_name(name):
        raise Refusal(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"{name!r} is not a topic name: 1 to 249 letters, digits, '.', '_' or '-', other than '.' and '..'",
        )


def deletion_disabled(api_version: int) -> Refusal:
    """For DeleteTopics where delete.topic.enable is off: clients before version 3 do not know the error of its own."""
    if api_version < 3:
        return Refusal(ErrorCode.INVALID_REQUEST, ErrorCode.TOPIC_DELETION_DISABLED.text)
    return Refusal(ErrorCode.TOPIC_DELETION_DISABLED)


class UnifiedNames:
    """A set of names that knows which differ in '.' and '_' alone: names in Kafka's metrics have '_' for both (Kafka's
    Topic.hasCollision)."""

    def __init__(self) -> None:
        self._by_unified: dict[str, dict[str, None]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._by_unified.get(_unified(name), ())

    def add(self, name: str) -> None:
        self._by_unified.setdefault(_unified(name), {})[name] = None

    def discard(self, name: str) -> None:
        """Removes the name, if it is there."""
        unified = _unified(name)
        names = self._by_unified.get(unified, {})
        names.pop(name, None)
        if not names:
            self._by_unified.pop(unified, None)

    def check_collision(self, name: str) -> None:
        """Raises Refusal INVALID_TOPIC_EXCEPTION where another name differs from this one in '.' and '_' alone."""
        other = next((other for other in self._by_unified.get(_unified(name), ()) if other != name), None)
        if other is not None:
            text = f"Topic '{name}' collides with existing topic: {other}"
            raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, text)


def _unified(name: str) -> str:
    return name.replace(".", "_")


def internal_configs(name: str, settings: BrokerSettings) -> dict[str, str]:
    """The settings with which Kafka's own topics are created; none for any other topic."""
    configs = dict(_INTERNAL_CONFIGS.get(name, {}))
    if configs:
        configs["segment.bytes"] = str(settings[_INTERNAL_SEGMENT_BYTES[name]])
    return configs


def internal_partitions(settings: BrokerSettings) -> dict[str, int]:
    """How many partitions the topics of the coordinators are created with."""
    return {
        OFFSETS_TOPIC: settings.current.offsets_topic_num_partitions,
        TRANSACTIONS_TOPIC: settings.current.transaction_state_log_num_partitions,
        SHARE_STATE_TOPIC: settings.share.share_coordinator_state_topic_num_partitions,
    }


def code_of(error: ReplicaError) -> ErrorCode:
    """The error that a client receives."""
    return ErrorCode[error.name]


@dataclass(slots=True)
class Partition:
    """A partition: its log, and the callbacks that wait for an append. A broker alone leads it; one that is ``in_cluster`` has
    the role of its ``replica``, and none without; its log is not ``is_stored``, but empty, where there is no replica."""

    topic: str
    index: int
    log: PartitionLog
    watchers: dict[Callable[[], None], None] = field(default_factory=dict)  # in the order of their requests
    in_cluster: bool = False
    replica: Replica | None = None
    is_stored: bool = True

    def __post_init__(self) -> None:
        self.use_log(self.log, is_stored=self.is_stored)
        if not self.in_cluster:
            self.log.begin_epoch(self.log.leader_epoch)

    def use_log(self, log: PartitionLog, *, is_stored: bool) -> None:
        """Takes the log in the place of the one before."""
        self.log, self.is_stored = log, is_stored
        log.flushing.on_visible = self._call_watchers

    @property
    def leader_epoch(self) -> int:
        """The epoch in which batches are appended; -1 where this broker has no replica."""
        if not self.in_cluster:
            return self.log.leader_epoch
        return NO_LEADER_EPOCH if self.replica is None else self.replica.leader_epoch

    @property
    def is_led(self) -> bool:
        """Whether this broker is the leader."""
        return not self.in_cluster or (self.replica is not None and isinstance(self.replica.role, Leader))

    def check_leader(self, current_leader_epoch: int = NO_LEADER_EPOCH) -> None:
        """For each request that only a leader serves; the epoch is the client's, or `NO_LEADER_EPOCH` (KIP-320). Raises Refusal
        NOT_LEADER_OR_FOLLOWER, UNKNOWN_LEADER_EPOCH, FENCED_LEADER_EPOCH."""
        if self.in_cluster and self.replica is None:
            raise Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if current_leader_epoch != NO_LEADER_EPOCH:
            leader_epoch = self.leader_epoch
            if current_leader_epoch > leader_epoch:
                raise Refusal(ErrorCode.UNKNOWN_LEADER_EPOCH)
            if current_leader_epoch < leader_epoch:
                raise Refusal(ErrorCode.FENCED_LEADER_EPOCH)
        if self.replica is not None and not isinstance(self.replica.role, Leader):
            raise Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def check_high_watermark(self) -> None:
        """After an election the high watermark is that of the last fetch until the followers have fetched. Raises Refusal
        OFFSET_NOT_AVAILABLE then."""
        role = None if self.replica is None else self.replica.role
        if isinstance(role, Leader) and role.is_behind_epoch:
            raise Refusal(ErrorCode.OFFSET_NOT_AVAILABLE)

    def append(
        self, work: LeaderAppend, token: object, now_ms: int, *, acks_all: bool
    ) -> tuple[Appended, list[Effect]]:
        """``work`` appends to the log as leader of a partition with replicas. The effects hold the acknowledgement, now or
        later. Raises Refusal NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, and what ``work`` raises."""
        results: list[Appended] = []

        def append(log: PartitionLog) -> Appended:
            results.append(work(log))
            return results[0]

        try:
            if self.replica is None:
                raise ReplicaRefusal(ReplicaError.NOT_LEADER_OR_FOLLOWER)
            effects = self.replica.leading().append(append, token, now_ms, acks_all=acks_all)
        except ReplicaRefusal as refusal:
            raise Refusal(code_of(refusal.error)) from refusal
        return results[0], effects

    def end_of_epoch(self, epoch: int) -> EndOfEpoch:
        """The response to OffsetForLeaderEpoch."""
        epochs = self.log.epochs.cache if self.replica is None else self.replica.log.epochs
        return epochs.end_of(epoch, self.log.end_offset)

    def appended(self) -> None:
        """Calls every watcher, unless readers wait for a sync, which calls them then."""
        if self.watchers and not self.log.flushing.is_held:
            self._call_watchers()

    def _call_watchers(self) -> None:
        for watcher in list(self.watchers):
            watcher()

    def sync_due(self) -> bool:
        """Whether flush.messages requires an fsync before the latest append is acknowledged."""
        return self.log.flushing.messages >= self.log.config.flush_messages

    def sync_if_due(self) -> None:
        """Syncs the log now, where its settings require it. Raises OSError."""
        if self.sync_due():
            self.log.sync()


@dataclass(slots=True)
class Topic:
    """A topic: its id (16 bytes), its own settings, and its partitions by index."""

    name: str
    topic_id: bytes
    configs: dict[str, str]
    partitions: list[Partition] = field(default_factory=list)

    @property
    def internal(self) -> bool:
        """Whether only the broker writes to it."""
        return self.name in INTERNAL_TOPICS


@dataclass(slots=True)
class NewPartitions:
    """New partitions of a topic, which is new itself where it has none ``before``; not visible until they are published.
    ``settings_changes``: the number that their logs know; ``directories`` are new on the disk."""

    topic: Topic
    before: int
    settings_changes: int
    made: list[Partition] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)
