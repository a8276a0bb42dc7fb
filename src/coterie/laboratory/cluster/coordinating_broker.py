"""A broker of the laboratory's cluster that coordinates transactions: the real machine over replicated logs, the markers of
other coordinators, records and offsets in transactions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count

from coterie.controller import nodes
from coterie.coordinator.offsets_log import OffsetsLog
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.partitioning import partition_for
from coterie.coordinator.shard import Shard
from coterie.coordinator.transactions.marker_queue import RETRY_MS, MarkerQueue, MarkerRequest
from coterie.coordinator.transactions.replicated import (
    AddToTransaction,
    KeepState,
    ReplicatedTransactions,
    TransactionAnswer,
    TransactionCommand,
    TransactionEffect,
    WriteMarkers,
)
from coterie.coordinator.transactions.state import BUMPS_FROM, TopicPartition, Transaction
from coterie.coordinator.transactions.state_log import load_by_chunks
from coterie.coordinator.transactions.steps import Claim
from coterie.laboratory.cluster.process import ZOOKEEPER, Answer
from coterie.laboratory.cluster.records_broker import RecordsBroker
from coterie.log.appended import Appended
from coterie.log.chunks import SkippedBatch
from coterie.log.partition_log import PartitionLog
from coterie.records.encoding import encode_batch
from coterie.records.markers import end_of_transaction
from coterie.replication.states import ReplicaRefusal
from coterie.wire.errors import ErrorCode, Refusal, error_of
from coterie.wire.messages.transactions.write_txn_markers import WriteTxnMarkersRequest
from coterie.zookeeper import paths
from coterie.zookeeper.operations import Read, Znode, ZooKeeperError

LEDGER, OFFSETS, STATES, GROUP = "ledger", "__consumer_offsets", "__transaction_state", "readers"
TRANSACTIONAL = frozenset({LEDGER, OFFSETS, STATES})
STATE_PARTITIONS = 2
UPKEEP_MS = 2_000
MAX_TIMEOUT_MS = 60_000
Work = Callable[[PartitionLog], Appended]


@dataclass(frozen=True, slots=True)
class LedShard:
    """A partition of `__transaction_state` that a broker coordinates."""

    index: int
    shard: ReplicatedTransactions
    is_replicated: bool


class LedStates:
    """A partition of `__transaction_state` that the broker leads. ``end_offset``: of its log when it was loaded."""

    def __init__(self, index: int, shard: ReplicatedTransactions, end_offset: int) -> None:
        self.index, self.shard, self.end_offset = index, shard, end_offset
        self.epoch = -1
        self.is_replicated = False


class LedOffsets:
    """The partition of `__consumer_offsets`, led by the broker."""

    def __init__(self, log: PartitionLog) -> None:
        self.shard, self.log, self.end_offset = Shard(CoordinatorConfig()), OffsetsLog(log), log.end_offset
        self.log.load(self.shard)


class CoordinatingBroker(RecordsBroker):
    """``new_producer_id`` and ``transaction_version`` are the cluster's."""

    record_topics = TRANSACTIONAL
    new_producer_id: Callable[[], int] = count(1_000).__next__
    transaction_version = 2

    def start(self) -> None:
        self.states: dict[int, LedStates] = {}
        self.offsets: LedOffsets | None = None
        self.markers = MarkerQueue(self._leader_of_partition)
        self._retries = False
        self._is_current = False  # `states` and `offsets` are what the roles call for
        super().start()
        self._upkeep()

    # -- what this broker coordinates -----------------------------------------------------------------------------------

    def roles_changed(self) -> None:
        self._is_current = False
        super().roles_changed()

    def acted(self) -> None:
        if self.alive and not self.paused and not self._is_current:
            self._is_current = True
            self._follow_roles()
        super().acted()

    def _follow_roles(self) -> None:
        for index in range(STATE_PARTITIONS):
            epoch, led = self._epoch_of((STATES, index)), self.states.get(index)
            if epoch is None and led is not None:
                del self.states[index]
                self.markers.drop(index)
                self._carry(led, led.shard.unload())
            elif epoch is not None:
                if led is None:
                    led = self.states[index] = self._loaded(index)
                led.epoch = epoch
                self._begin_if_replicated(led)
        if self._epoch_of((OFFSETS, 0)) is None:
            self.offsets = None
        elif self.offsets is None:
            self.offsets = LedOffsets(self.record_log((OFFSETS, 0)))

    def led_states(self) -> list[LedShard]:
        """The partitions of `__transaction_state` that this broker coordinates."""
        return [LedShard(led.index, led.shard, led.is_replicated) for led in self.states.values()]

    def led_groups(self) -> list[Shard]:
        """That of `__consumer_offsets`, if this broker leads it."""
        return [] if self.offsets is None else [self.offsets.shard]

    def _loaded(self, index: int) -> LedStates:
        log = self.record_log((STATES, index))
        shard = ReplicatedTransactions(MAX_TIMEOUT_MS, self.new_producer_id, lambda: self.transaction_version)

        def load(key: bytes | None, value: bytes | None) -> None:
            assert key is not None
            shard.load(key, value)

        def skipped(batch: SkippedBatch) -> None:
            raise AssertionError(str(batch))

        for _ in load_by_chunks(log, load, skipped):
            pass
        return LedStates(index, shard, log.end_offset)

    def _begin_if_replicated(self, led: LedStates) -> None:
        if led.is_replicated:
            return
        if self.is_replicated(led):
            led.is_replicated = True
            self._carry(led, led.shard.loaded(self.now_ms))
        else:
            self._is_current = False

    def is_replicated(self, led: LedStates) -> bool:
        """Whether all replicas in sync have what was loaded."""
        return self.record_log((STATES, led.index)).high_watermark >= led.end_offset

    def _upkeep(self) -> None:
        for led in list(self.states.values()):
            if led.is_replicated:
                self._carry(led, led.shard.tick(self.now_ms))
        self.later(UPKEEP_MS, self._upkeep)

    # -- the coordinator ------------------------------------------------------------------------------------------------

    def coordinate(self, command: TransactionCommand, answer: Answer) -> None:
        """The answer is a `TransactionAnswer`."""
        led = self._led(command.transactional_id, answer)
        if led is not None:
            self._carry(led, led.shard.submit(command, answer, self.now_ms))

    def _led(self, transactional_id: str, answer: Answer) -> LedStates | None:
        """Answers with the refusal where there is none."""
        led = self.states.get(partition_for(transactional_id, STATE_PARTITIONS))
        if led is not None and led.is_replicated:
            return led
        code = ErrorCode.NOT_COORDINATOR if led is None else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        answer(TransactionAnswer(answer, code))
        return None

    def add_or_check(
        self, transactional_id: str, claim: Claim, partition: TopicPartition, adds: bool, answer: Answer
    ) -> None:
        """AddPartitionsToTxn of another broker."""
        if adds:
            self.coordinate(AddToTransaction(transactional_id, claim, frozenset({partition}), BUMPS_FROM), answer)
            return
        led = self._led(transactional_id, answer)
        if led is None:
            return
        try:
            led.shard.check_ongoing(transactional_id, claim, partition)
        except Refusal as refusal:
            answer(TransactionAnswer(answer, refusal.code))
        else:
            answer(TransactionAnswer(answer))

    def _carry(self, led: LedStates, effects: list[TransactionEffect]) -> None:
        for effect in effects:
            match effect:
                case TransactionAnswer(token):
                    assert callable(token)
                    token(effect)
                case KeepState(state):
                    self._keep(led, state)
                case WriteMarkers(prepared):
                    self.markers.add(led.index, led.epoch, prepared)
                    self._send_markers()

    def _keep(self, led: LedStates, state: Transaction) -> None:
        now_ms = self.now_ms
        batch = encode_batch([(now_ms, state.key(), state.value(self.transaction_version), ())])

        def kept(code: ErrorCode) -> None:
            if self.states.get(led.index) is led:
                self._carry(led, led.shard.kept(state, code, self.now_ms))

        try:
            self._append((STATES, led.index), lambda log: log.append_own(batch, now_ms), kept)
        except Refusal as refusal:
            kept(refusal.code)

    def _append(self, partition: TopicPartition, work: Work, decided: Callable[[ErrorCode], None]) -> None:
        """With acks=all. Raises Refusal."""
        token = object()
        self._answers[token] = lambda error: decided(ErrorCode.NONE if error is None else error_of(error.value))
        try:
            leader = self.replicas.leader(partition)
            effects = leader.append(work, token, self.now_ms, acks_all=True)
        except ReplicaRefusal as refusal:
            del self._answers[token]
            raise Refusal(error_of(refusal.error.value)) from refusal
        except OSError as error:
            del self._answers[token]
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR) from error
        except Refusal:
            del self._answers[token]
            raise
        self.appended(partition, leader.state.leader_epoch, self.number)
        self._act(effects)

    # -- markers --------------------------------------------------------------------------------------------------------

    def _leader_of_partition(self, partition: TopicPartition) -> int | None:
        state = self.metadata.get(partition)
        return None if state is None else state.leader

    def _send_markers(self) -> None:
        for request in self.markers.due(self.now_ms):
            target, message = self.peers[request.broker], request.message()
            assert isinstance(target, CoordinatingBroker)
            self.call(
                target,
                partial(target.write_markers, message),
                partial(self._marked, request),
                partial(self._marked, request, {}),
            )
        for partition in sorted(self.markers.unknown()):
            self._look_up(partition)
        if self.markers and not self._retries:
            self._retries = True
            self.later(RETRY_MS, self._send_again)

    def _send_again(self) -> None:
        self._retries = False
        self._send_markers()

    def _marked(self, request: MarkerRequest, codes: dict[tuple[int, TopicPartition], int]) -> None:
        for one in self.markers.answered(request, codes, self.now_ms):
            self._complete(one.owner, one.prepared)
        self._send_markers()

    def _look_up(self, partition: TopicPartition) -> None:
        if self.network.is_cut(self.name, ZOOKEEPER):
            return
        try:
            node = self.server.apply(self._session, Read(paths.topic(partition[0])))
        except ZooKeeperError:
            return
        if not isinstance(node, Znode) or partition[1] not in nodes.replicas_of(node.data):
            for one in self.markers.deleted(partition):
                self._complete(one.owner, one.prepared)

    def _complete(self, owner: int, prepared: Transaction) -> None:
        led = self.states.get(owner)
        if led is not None:
            self._carry(led, led.shard.marked(prepared, self.now_ms))

    def write_markers(self, message: WriteTxnMarkersRequest, answer: Answer) -> None:
        """WriteTxnMarkers: the answer has an error code for each producer id and partition."""
        codes: dict[tuple[int, TopicPartition], int] = {}
        wanted = [
            (marker, (topic.name, index))
            for marker in message.markers
            for topic in marker.topics
            for index in topic.partition_indexes
        ]

        def decided(key: tuple[int, TopicPartition], code: ErrorCode) -> None:
            codes[key] = code
            if len(codes) == len(wanted):
                answer(codes)

        for marker, partition in wanted:
            key = marker.producer_id, partition
            ended = (marker.producer_id, marker.producer_epoch, marker.transaction_result, marker.coordinator_epoch)
            bumps_epoch = marker.transaction_version >= BUMPS_FROM
            try:
                if partition[0] == OFFSETS:
                    self._mark_offsets(ended, bumps_epoch, partial(decided, key))
                else:
                    self._mark(partition, ended, bumps_epoch, partial(decided, key))
            except Refusal as refusal:
                decided(key, refusal.code)

    def _mark(
        self,
        partition: TopicPartition,
        ended: tuple[int, int, bool, int],
        bumps_epoch: bool,
        decided: Callable[[ErrorCode], None],
    ) -> None:
        now_ms = self.now_ms
        batch = end_of_transaction(*ended, now_ms)
        self._append(partition, lambda log: log.append_own(batch, now_ms, bumps_epoch=bumps_epoch), decided)

    def _mark_offsets(
        self, ended: tuple[int, int, bool, int], bumps_epoch: bool, decided: Callable[[ErrorCode], None]
    ) -> None:
        led, now_ms = self.offsets, self.now_ms
        if led is None:
            raise Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._append((OFFSETS, 0), lambda log: led.log.append_marker(*ended, now_ms, bumps_epoch=bumps_epoch), decided)
        led.shard.end_transaction(ended[0], ended[2], now_ms)
