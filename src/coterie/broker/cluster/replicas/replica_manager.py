"""A broker's replicas in real time (Kafka's ReplicaManager): the controller's requests for them, appends that wait for the high
watermark, followers' fetches, changes of ISRs, checkpoints."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, Protocol

from coterie.broker.storage.replicas import AppendToken
from coterie.controller.isr_writer import IsrRefused, IsrWritten
from coterie.log.leader_epochs import EndOfEpoch
from coterie.replication.leader import Leader
from coterie.replication.replicas import Replica, Replicas
from coterie.replication.states import (
    AppendDecided,
    Effect,
    EpochLookup,
    FollowerStartMoved,
    HighWatermarkMoved,
    PartitionState,
    ReplicaError,
    ReplicaFetch,
    ReplicaFetched,
    ReplicaLog,
    ReplicationConfig,
    StoppedReplica,
    TopicPartition,
    WriteIsr,
)

logger = logging.getLogger(__name__)

Watchers = dict[TopicPartition, dict[Callable[[], None], None]]


class ReplicaStorage(Protocol):
    """The broker's topics, as replicas use them. Batches of its logs are bytes: whole record batches."""

    def open_log(self, partition: TopicPartition) -> tuple[ReplicaLog, int]:
        """The log of a replica, made where there is none, and its high watermark of the last checkpoint."""

    def roles_changed(self, replicas: Sequence[Replica]) -> None:
        """These have another role, another epoch, or none any more."""

    def high_watermark_moved(self, partition: TopicPartition, high_watermark: int) -> None:
        """Consumers may read up to there; after a truncation it may be lower than before."""

    def after_sync(self, partition: TopicPartition, then: Callable[[], None]) -> bool:
        """Whether flush.messages wants what was appended on the disk before the leader may count on it; ``then`` is called
        once it is there."""

    def remove_log(self, partition: TopicPartition) -> None:
        """The topic is deleted, or the replica is on another broker now; there need not be such a log. Raises ReplicaRefusal
        KAFKA_STORAGE_ERROR."""

    def save_high_watermarks(self) -> None:
        """Writes replication-offset-checkpoint. Raises OSError."""


class ReplicaManager:
    """``write_isr`` is set by the driver of the ISR writer. ``watchers`` are called with a partition whose leader here has
    appended or has resigned, its ``low_watermark_watchers`` then as well and when a follower's log begins elsewhere."""

    def __init__(
        self, broker_id: int, config: ReplicationConfig, storage: ReplicaStorage, now_ms: Callable[[], int]
    ) -> None:
        self.replicas = Replicas(broker_id, config, storage.open_log, self._remove_log)
        self.replicas.failed = self._failed
        self.storage, self.now_ms = storage, now_ms
        self.write_isr: Callable[[WriteIsr], None]
        self.watchers: dict[Callable[[TopicPartition], None], None] = {}
        self.low_watermark_watchers: Watchers = {}
        self._visible: dict[TopicPartition, int] = {}  # high watermarks that the storage knows

    def registered(self, broker_epoch: int) -> None:
        """This broker is registered; what had a role in an earlier session has none until a controller gives it one."""
        before = [replica for replica in self.replicas.partitions.values() if replica.role is not None]
        effects = self.replicas.registered(broker_epoch)
        self._without_role(before)
        self.act(effects)

    def _without_role(self, before: Iterable[Replica]) -> None:
        """``before``: replicas that had one; they may be removed."""
        stopped = [replica for replica in before if replica.role is None]
        self.storage.roles_changed(stopped)
        for replica in stopped:
            if replica.partition in self.replicas.partitions:
                self.show_high_watermark(replica)
            self.notify(replica.partition)

    # -- the controller's requests --------------------------------------------------------------------------------------

    def leader_and_isr(
        self,
        controller_epoch: int,
        broker_epoch: int,
        states: Mapping[TopicPartition, PartitionState],
        new: Container[TopicPartition] = (),
    ) -> dict[TopicPartition, ReplicaError]:
        """Returns the partitions that refused. Raises ReplicaRefusal where the whole request is stale."""
        refused, effects = self.replicas.leader_and_isr(controller_epoch, broker_epoch, states, self.now_ms(), new)
        unchanged = {p for p, error in refused.items() if error is not ReplicaError.UNKNOWN_SERVER_ERROR}
        self._roles_changed([p for p in states if p in self.replicas.partitions and p not in unchanged])
        self.act(effects)
        return refused

    def _failed(self, partition: TopicPartition, error: Exception) -> None:
        """A defect, which ends at its partition."""
        logger.error(
            "the new role of %s-%d has failed; this replica has none until the next", *partition, exc_info=error
        )

    def update_metadata(
        self, controller_epoch: int, broker_epoch: int, states: Mapping[TopicPartition, PartitionState]
    ) -> None:
        """Raises ReplicaRefusal where the request is stale."""
        self.act(self.replicas.update_metadata(controller_epoch, broker_epoch, states, self.now_ms()))

    def stop_replicas(
        self, controller_epoch: int, broker_epoch: int, stopped: Mapping[TopicPartition, StoppedReplica]
    ) -> dict[TopicPartition, ReplicaError]:
        """Returns the partitions that refused. Raises ReplicaRefusal where the whole request is stale."""
        before = [replica for p, replica in self.replicas.partitions.items() if p in stopped]
        refused, effects = self.replicas.stop_replicas(controller_epoch, broker_epoch, stopped)
        self._without_role(before)
        self.act(effects)
        return refused

    def forgotten(self, partitions: Iterable[TopicPartition]) -> None:
        """Their topics are deleted, and their logs closed, before StopReplica: none is led or followed any more."""
        known = self.replicas.partitions
        before = [known[partition] for partition in partitions if partition in known]
        effects = [effect for replica in before for effect in replica.stop()]
        self._without_role(before)
        self.act(effects)

    def _remove_log(self, partition: TopicPartition) -> None:
        self._visible.pop(partition, None)
        self.storage.remove_log(partition)

    def _roles_changed(self, partitions: Iterable[TopicPartition]) -> None:
        replicas = [self.replicas.partitions[partition] for partition in partitions]
        self.storage.roles_changed(replicas)
        for replica in replicas:
            self.show_high_watermark(replica)
            self.notify(replica.partition)

    # -- as a leader ----------------------------------------------------------------------------------------------------

    def fetch(self, partition: TopicPartition, request: ReplicaFetch) -> ReplicaFetched:
        """A follower's. Raises ReplicaRefusal."""
        result, effects = self.replicas.leader(partition, request.current_leader_epoch).fetch(request, self.now_ms())
        if effects:
            self.act(effects)
        return result

    def end_of_epoch(self, partition: TopicPartition, request: EpochLookup) -> EndOfEpoch:
        """A follower's OffsetForLeaderEpoch. Raises ReplicaRefusal."""
        return self.replicas.leader(partition, request.current_leader_epoch).end_of_epoch(request)

    def isr_effect(self, effect: Any) -> None:
        """`IsrWritten` or `IsrRefused` of the ISR writer."""
        role = self._role_of(effect.write.partition)
        if not isinstance(role, Leader):
            return
        match effect:
            case IsrWritten(write, version):
                self.act(role.isr_written(write.state, version, self.now_ms()))
            case IsrRefused(write, current):
                self.act(role.isr_refused(write.state, current, self.now_ms()))

    def _role_of(self, partition: TopicPartition) -> object:
        replica = self.replicas.partitions.get(partition)
        return None if replica is None else replica.role

    def act(self, effects: Iterable[Effect]) -> None:
        """Carries out effects of a `Leader`."""
        for effect in effects:
            match effect:
                case WriteIsr():
                    logger.info("requesting the ISR of %s-%d to be %s", *effect.partition, effect.state.isr)
                    self.write_isr(effect)
                case AppendDecided(token, error):
                    assert isinstance(token, AppendToken), "an append without its token"
                    token.decide(error)
                case HighWatermarkMoved(partition):
                    self.show_high_watermark(self.replicas.partitions[partition])
                case FollowerStartMoved(partition):
                    self._low_watermark_moved(partition)

    def notify(self, partition: TopicPartition) -> None:
        """Calls the watchers, and those of the partition's low watermark."""
        for watcher in list(self.watchers):
            watcher(partition)
        self._low_watermark_moved(partition)

    def _low_watermark_moved(self, partition: TopicPartition) -> None:
        for watcher in list(self.low_watermark_watchers.get(partition, ())):
            watcher()

    def live_brokers_changed(self) -> None:
        """Low watermarks are those of the live replicas."""
        for partition in list(self.low_watermark_watchers):
            self._low_watermark_moved(partition)

    def show_high_watermark(self, replica: Replica) -> None:
        """Passes it to the storage where it is another than before."""
        high_watermark = replica.high_watermark
        if self._visible.get(replica.partition) != high_watermark:
            self._visible[replica.partition] = high_watermark
            self.storage.high_watermark_moved(replica.partition, high_watermark)

    # -- upkeep ---------------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """To be called every half of replica.lag.time.max.ms: replicas that lag leave the ISR."""
        self.act(self.replicas.tick(self.now_ms()))

    def checkpoint(self) -> None:
        """To be called every replica.high.watermark.checkpoint.interval.ms. Raises OSError."""
        self.storage.save_high_watermarks()
