"""A broker of the laboratory's cluster as the leader of partitions: appends, readers, followers, changes of ISRs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie.controller.isr_writer import IsrRefused, IsrWriter, IsrWritten
from coterie.laboratory.cluster.process import Answer
from coterie.laboratory.cluster.replica_fetcher import ReplicatingBroker
from coterie.replication.leader import Leader
from coterie.replication.replicas import Replicas
from coterie.replication.states import (
    AppendDecided,
    Effect,
    EpochLookup,
    FollowerStartMoved,
    HighWatermarkMoved,
    ReplicaError,
    ReplicaFetch,
    ReplicaRefusal,
    TopicPartition,
    WriteIsr,
)


class LeadingBroker(ReplicatingBroker):
    """``appended`` is called with partition, leader epoch and broker at each append of a leader. ``_answers``: by the token of
    an append, or of a request to the controller."""

    number: int
    replicas: Replicas
    isr_writer: IsrWriter
    appended: Callable[[TopicPartition, int, int], None]
    _answers: dict[object, Answer]

    def with_role(self) -> set[TopicPartition]:
        """The partitions that this broker leads or follows."""
        return {p for p, replica in self.replicas.partitions.items() if replica.role is not None}

    def leader_of(self, partition: TopicPartition) -> Leader | None:
        replica = self.replicas.partitions.get(partition)
        return replica.role if replica is not None and isinstance(replica.role, Leader) else None

    def _act(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case WriteIsr():
                    self.isr_writer.write(effect)
                case AppendDecided(token, error):
                    self._decided(token, error)
                case HighWatermarkMoved() | FollowerStartMoved():
                    pass  # consumers ask again by themselves

    def _decided(self, token: object, error: ReplicaError | None) -> None:
        """All replicas in sync have the append, or it is refused."""
        self._answers.pop(token)(error)

    def _isr_effect(self, effect: Any) -> None:
        match effect:
            case IsrWritten(write, version):
                leader = self.leader_of(write.partition)
                if leader is not None:
                    self._act(leader.isr_written(write.state, version, self.now_ms))
            case IsrRefused(write, current):
                leader = self.leader_of(write.partition)
                if leader is not None:
                    self._act(leader.isr_refused(write.state, current, self.now_ms))

    def produce(self, partition: TopicPartition, value: str, answer: Answer) -> None:
        """acks=all; the answer is None, or an error."""
        token = object()
        self._answers[token] = answer
        try:
            leader = self.replicas.leader(partition)
            effects = leader.append(value, token, self.now_ms, acks_all=True)
        except (ReplicaRefusal, OSError) as error:
            refused = error.error if isinstance(error, ReplicaRefusal) else ReplicaError.KAFKA_STORAGE_ERROR
            self._answers.pop(token)(refused)
            return
        self.appended(partition, leader.state.leader_epoch, self.number)
        self._act(effects)

    def consume(self, partition: TopicPartition, offset: int, answer: Answer) -> None:
        """The answer is a ReplicaFetched, or an error."""
        try:
            answer(self.replicas.leader(partition).read(offset))
        except ReplicaRefusal as refusal:
            answer(refusal.error)

    def answer_follower(self, partition: TopicPartition, request: EpochLookup | ReplicaFetch, answer: Answer) -> None:
        """Answers a follower's fetch or epoch lookup, with an error where this broker does not lead."""
        try:
            leader = self.replicas.leader(partition, request.current_leader_epoch)
            if isinstance(request, EpochLookup):
                answer(leader.end_of_epoch(request))
                return
            result, effects = leader.fetch(request, self.now_ms)
        except ReplicaRefusal as refusal:
            answer(refusal.error)
            return
        answer(result)
        self._act(effects)

    def answer_ends(self, partition: TopicPartition, current_leader_epoch: int, answer: Answer) -> None:
        """Answers with the start and the end of the led log, or with an error."""
        try:
            leader = self.replicas.leader(partition, current_leader_epoch)
        except ReplicaRefusal as refusal:
            answer(refusal.error)
            return
        answer((leader.log.start_offset, leader.log.end_offset))
