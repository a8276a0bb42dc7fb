"""A broker's replica of a partition with its role (Kafka's Partition.makeLeader, makeFollower), and all its replicas with the
requests of the controller for them (Kafka's ReplicaManager, KIP-380)."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence

from coterie.replication.follower import Follower
from coterie.replication.leader import Leader
from coterie.replication.states import (
    NO_EPOCH,
    Effect,
    PartitionState,
    ReplicaError,
    ReplicaLog,
    ReplicaRefusal,
    ReplicationConfig,
    StoppedReplica,
    TopicPartition,
)


class Replica:
    """``high_watermark``: as the checkpoint file has it, at the start. There is no role before the first LeaderAndIsr."""

    def __init__(
        self, broker_id: int, partition: TopicPartition, log: ReplicaLog, config: ReplicationConfig, high_watermark: int
    ) -> None:
        self.broker_id, self.partition, self.log, self.config = broker_id, partition, log, config
        self.role: Leader | Follower | None = None
        log.high_watermark = max(min(high_watermark, log.end_offset), log.start_offset)

    def configure(self, config: ReplicationConfig) -> None:
        """Puts settings in force, for what comes."""
        self.config = config
        if self.role is not None:
            self.role.config = config

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    @property
    def leader_epoch(self) -> int:
        return NO_EPOCH if self.role is None else self.role.state.leader_epoch

    def assume(self, state: PartitionState, now_ms: int) -> list[Effect]:
        """Takes the role that the controller gives. Raises ReplicaRefusal STALE_CONTROLLER_EPOCH where the state is no newer
        than the one at hand."""
        if state.leader_epoch <= self.leader_epoch:
            raise ReplicaRefusal(ReplicaError.STALE_CONTROLLER_EPOCH)
        return self._lead(state, now_ms) if state.leader == self.broker_id else self._follow(state)

    def _lead(self, state: PartitionState, now_ms: int) -> list[Effect]:
        if isinstance(self.role, Leader):
            return self.role.resumed(state, now_ms)
        self.role = Leader(
            self.broker_id,
            self.partition,
            self.log,
            self.config,
            state=state,
            high_watermark=self.high_watermark,
            now_ms=now_ms,
        )
        return self.role.begin(now_ms)

    def _follow(self, state: PartitionState) -> list[Effect]:
        if isinstance(self.role, Follower):
            self.role.resumed(state)
            return []
        effects = self.role.end() if self.role is not None else []
        self.role = Follower(self.broker_id, self.log, self.config, state, self.high_watermark)
        return effects

    def stop(self) -> list[Effect]:
        """StopReplica: no role any more."""
        effects = self.role.end() if isinstance(self.role, Leader) else []
        self.role = None
        return effects

    def leading(self, current_leader_epoch: int = NO_EPOCH) -> Leader:
        """A follower too checks the epoch of a request first. Raises ReplicaRefusal NOT_LEADER_OR_FOLLOWER,
        FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH."""
        if self.role is not None:
            self.role.state.check_epoch(current_leader_epoch)
        if not isinstance(self.role, Leader):
            raise ReplicaRefusal(ReplicaError.NOT_LEADER_OR_FOLLOWER)
        return self.role


def _raised(partition: TopicPartition, error: Exception) -> None:
    raise error


class Replicas:
    """``open_log`` makes or opens the log of a partition, with the high watermark of the checkpoint file; ``delete_log``
    removes both, if there are any; both raise ReplicaRefusal KAFKA_STORAGE_ERROR. ``broker_epoch``: the transaction id that
    created the broker's registration, None before it; requests for an earlier one were meant for an earlier process, whose log
    may have been longer. ``config_of``: the settings of one partition, where topics have their own. ``failed`` is called with
    an error that is no refusal; it ends at its partition then: the others get their roles, and their effects are not lost."""

    def __init__(
        self,
        broker_id: int,
        config: ReplicationConfig,
        open_log: Callable[[TopicPartition], tuple[ReplicaLog, int]],
        delete_log: Callable[[TopicPartition], None],
    ) -> None:
        self.broker_id, self.config, self._open_log, self._delete_log = broker_id, config, open_log, delete_log
        self.config_of: Callable[[TopicPartition], ReplicationConfig] = lambda partition: config
        self.failed: Callable[[TopicPartition, Exception], None] = _raised
        self.broker_epoch: int | None = None
        self.controller_epoch = 0
        self.partitions: dict[TopicPartition, Replica] = {}

    def registered(self, broker_epoch: int) -> list[Effect]:
        """The broker is registered. Where it was before, its session had expired: the controller has counted it as failed, and
        may have moved replicas that it could not stop. They have no role until a controller gives them one; in Kafka 2.6 they
        keep it. Requests for this epoch are to be held back until then. The same epoch a second time is the same registration,
        whose roles stay: the news that a session had expired came after the broker had registered in the next one."""
        is_again, self.broker_epoch = self.broker_epoch not in (None, broker_epoch), broker_epoch
        return [effect for replica in self.partitions.values() for effect in replica.stop()] if is_again else []

    def leader_and_isr(
        self,
        controller_epoch: int,
        broker_epoch: int,
        states: Mapping[TopicPartition, PartitionState],
        now_ms: int,
        new: Container[TopicPartition] = (),
    ) -> tuple[dict[TopicPartition, ReplicaError], list[Effect]]:
        """Returns the partitions that refused, and the effects. Raises ReplicaRefusal where the whole request is stale. A
        partition that is ``new`` to the cluster begins with an empty log: one that is there is of a deleted topic of that name,
        and was left when its broker was down; Apache Kafka 2.6 would make it the new topic's. A replica whose role ``failed``
        has none, with UNKNOWN_SERVER_ERROR for the controller."""
        self.check_controller(controller_epoch, broker_epoch)
        refused: dict[TopicPartition, ReplicaError] = {}
        effects: list[Effect] = []
        for partition, state in states.items():
            try:
                if partition in new and state.leader_epoch == 0:
                    self._begin_anew(partition)
                effects += self._replica(partition).assume(state, now_ms)
            except ReplicaRefusal as refusal:
                refused[partition] = refusal.error
            except Exception as error:
                self.failed(partition, error)
                refused[partition] = ReplicaError.UNKNOWN_SERVER_ERROR
                effects += self.partitions[partition].stop() if partition in self.partitions else []
        return refused, effects

    def update_metadata(
        self, controller_epoch: int, broker_epoch: int, states: Mapping[TopicPartition, PartitionState], now_ms: int
    ) -> list[Effect]:
        """Raises ReplicaRefusal where the request is stale."""
        self.check_controller(controller_epoch, broker_epoch)
        effects: list[Effect] = []
        for partition, state in states.items():
            replica = self.partitions.get(partition)
            if replica is not None and isinstance(replica.role, Leader):
                effects += replica.role.update_metadata(state, now_ms)
        return effects

    def stop_replicas(
        self, controller_epoch: int, broker_epoch: int, stopped: Mapping[TopicPartition, StoppedReplica]
    ) -> tuple[dict[TopicPartition, ReplicaError], list[Effect]]:
        """Returns the partitions that refused, FENCED_LEADER_EPOCH for an older epoch, and the effects. A log is deleted
        whether it has a role or not. Raises ReplicaRefusal where the whole request is stale."""
        self.check_controller(controller_epoch, broker_epoch)
        refused: dict[TopicPartition, ReplicaError] = {}
        effects: list[Effect] = []
        for partition, one in stopped.items():
            replica = self.partitions.get(partition)
            if replica is not None and 0 <= one.leader_epoch < replica.leader_epoch:
                refused[partition] = ReplicaError.FENCED_LEADER_EPOCH
                continue
            if replica is not None:
                effects += replica.stop()
            try:
                if one.delete:
                    self.partitions.pop(partition, None)
                    self._delete_log(partition)
            except ReplicaRefusal as refusal:
                refused[partition] = refusal.error
        return refused, effects

    def check_controller(self, controller_epoch: int, broker_epoch: int) -> None:
        """Raises ReplicaRefusal STALE_CONTROLLER_EPOCH for a controller that was replaced, and STALE_BROKER_EPOCH."""
        if self.broker_epoch is None or broker_epoch < self.broker_epoch:
            raise ReplicaRefusal(ReplicaError.STALE_BROKER_EPOCH)
        if controller_epoch < self.controller_epoch:
            raise ReplicaRefusal(ReplicaError.STALE_CONTROLLER_EPOCH)
        self.controller_epoch = controller_epoch

    def _begin_anew(self, partition: TopicPartition) -> None:
        """Not a replica that has a role: the request is a repeated one then."""
        replica = self.partitions.get(partition)
        if replica is None or replica.role is None:
            self.partitions.pop(partition, None)
            self._delete_log(partition)

    def _replica(self, partition: TopicPartition) -> Replica:
        if partition not in self.partitions:
            log, high_watermark = self._open_log(partition)
            self.partitions[partition] = Replica(
                self.broker_id, partition, log, self.config_of(partition), high_watermark
            )
        return self.partitions[partition]

    def leader(self, partition: TopicPartition, current_leader_epoch: int = NO_EPOCH) -> Leader:
        """Raises ReplicaRefusal as `Replica.leading`."""
        if partition not in self.partitions:
            raise ReplicaRefusal(ReplicaError.NOT_LEADER_OR_FOLLOWER)
        return self.partitions[partition].leading(current_leader_epoch)

    def topic_configured(self, topic: str) -> None:
        """``config_of`` gives its partitions something else."""
        for partition, replica in self.partitions.items():
            if partition[0] == topic:
                replica.configure(self.config_of(partition))

    def followers(self) -> Sequence[Replica]:
        return [replica for replica in self.partitions.values() if isinstance(replica.role, Follower)]

    def tick(self, now_ms: int) -> list[Effect]:
        """To be called every half of replica.lag.time.max.ms: followers that lag leave the ISR."""
        effects: list[Effect] = []
        for replica in self.partitions.values():
            if isinstance(replica.role, Leader):
                effects += replica.role.tick(now_ms)
        return effects
