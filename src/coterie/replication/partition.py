"""One broker's replica of a partition, and its role (Kafka's Partition.makeLeader, makeFollower)."""

from __future__ import annotations

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
