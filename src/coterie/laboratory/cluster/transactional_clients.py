"""A transactional producer that reads nothing, writes records and commits offsets; and a reader of committed records."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from coterie.coordinator.partitioning import partition_for
from coterie.coordinator.transactions.replicated import (
    AddToTransaction,
    EndTransaction,
    InitProducer,
    TransactionAnswer,
    TransactionCommand,
)
from coterie.coordinator.transactions.state import BUMPS_FROM
from coterie.coordinator.transactions.steps import Claim
from coterie.laboratory.cluster.coordinating_broker import (
    GROUP,
    LEDGER,
    OFFSETS,
    STATE_PARTITIONS,
    STATES,
)
from coterie.laboratory.cluster.ledger_broker import LedgerBroker
from coterie.laboratory.cluster.process import Answer, Network, Process
from coterie.replication.states import NO_LEADER, TopicPartition
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.transactions.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

RETRY_MS, POLL_MS, TIMEOUT_MS = 100, 400, 10_000
_LATER = frozenset(
    {
        None,  # no answer came
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
Handle = Callable[[LedgerBroker, Answer], None]
Steps = Generator[tuple[TopicPartition, Handle] | int, Any, Any]


@dataclass(slots=True)
class SentToLedger:
    """A transaction: its values by partition, the offset committed in it, whether its producer asked for a commit, and how it
    was told that it ended."""

    values: dict[TopicPartition, list[str]] = field(default_factory=dict)
    offset: int | None = None
    wanted: bool | None = None
    answered: bool | None = None


class LedgerClient(Process):
    """Runs ``steps``: each yields a partition and what its leader is to do, which comes to the answer or to None; or a pause in
    ms."""

    def __init__(self, network: Network, name: str, brokers: dict[int, LedgerBroker]) -> None:
        super().__init__(network, name)
        self.brokers = brokers
        self.stopped = False
        self._leaders: dict[TopicPartition, LedgerBroker] = {}

    def start(self) -> None:
        self.started()
        self._running = self.steps()
        self._next(None)

    def steps(self) -> Steps:
        raise NotImplementedError

    def _next(self, result: Any) -> None:
        try:
            step = self._running.send(result)
        except StopIteration:
            return
        if isinstance(step, int):
            self.later(max(step, 1), lambda: self._next(None))
        else:
            self._ask(*step)

    def _ask(self, partition: TopicPartition, handle: Handle) -> None:
        leader = self._leaders.get(partition)
        if leader is None:
            self._find_leader(partition)
            return

        def answered(answer: Any) -> None:
            if code_of(answer) in _LATER:
                self._leaders.pop(partition, None)
            self._next(answer)

        self.call(leader, lambda answer: handle(leader, answer), answered, lambda: answered(None))

    def _find_leader(self, partition: TopicPartition) -> None:
        """Asks a broker; the step fails meanwhile."""
        broker = self.brokers[self.world.random.choice(sorted(self.brokers))]

        def came(state: Any) -> None:
            if state is not None and state.leader > NO_LEADER:
                self._leaders[partition] = self.brokers[state.leader]
            self._next(None)

        self.call(broker, lambda answer: answer(broker.metadata.get(partition)), came, lambda: self._next(None))


def code_of(answer: Any) -> ErrorCode | None:
    """The response's error code; None where no response came."""
    return answer.code if isinstance(answer, TransactionAnswer) else answer if isinstance(answer, ErrorCode) else None


class LedgerProducer(LedgerClient):
    """``sent``: its transactions. Two producers of one ``transactional_id`` fence each other."""

    def __init__(
        self,
        network: Network,
        name: str,
        brokers: dict[int, LedgerBroker],
        partitions: int,
        transactional_id: str,
        source: int,
    ) -> None:
        super().__init__(network, name, brokers)
        self.partitions = [(LEDGER, number) for number in range(partitions)]
        self.transactional_id, self.source = transactional_id, source
        self.sent: list[SentToLedger] = []
        self.bumps_epoch = next(iter(brokers.values())).transaction_version >= BUMPS_FROM
        self._offset = self._made = 0

    def steps(self) -> Steps:
        """One transaction after the other; after an error it begins again with InitProducerId."""
        while not self.stopped:
            answer = yield from self._coordinate(InitProducer(self.transactional_id, TIMEOUT_MS))
            if answer.code != ErrorCode.NONE:
                yield RETRY_MS
                continue
            self._producer, self._sequences = (answer.producer_id, answer.epoch), dict[TopicPartition, int]()
            while not self.stopped and (yield from self._transaction()):
                yield self.world.between(1, 800)
            yield self.world.between(1, 3_000)

    def _coordinate(self, command: TransactionCommand) -> Steps:
        """Until there is an answer that stands."""
        partition = STATES, partition_for(self.transactional_id, STATE_PARTITIONS)
        return self._until(partition, lambda broker, answer: broker.coordinate(command, answer))

    def _until(self, partition: TopicPartition, handle: Handle) -> Steps:
        while True:
            answer = yield partition, handle
            if code_of(answer) not in _LATER:
                return answer
            yield self.world.between(1, RETRY_MS)

    @property
    def _claim(self) -> Claim:
        return Claim(*self._producer, returns_abortable=True)

    def _transaction(self) -> Steps:
        """False where the producer begins anew."""
        sent = SentToLedger()
        self.sent.append(sent)
        for partition in self.world.random.sample(self.partitions, self.world.between(1, len(self.partitions))):
            if not (yield from self._write(sent, partition)):
                return False
        if self.world.chance(0.5) and not (yield from self._commit_offset(sent)):
            return False
        if self.world.chance(0.05):
            return False  # as if the process had died: the next one begins, or the transaction times out
        sent.wanted = self.world.chance(0.65)
        end = EndTransaction(self.transactional_id, self._claim, sent.wanted, self.bumps_epoch)
        answer = yield from self._coordinate(end)
        if answer.code != ErrorCode.NONE:
            return False
        sent.answered = sent.wanted
        if self.bumps_epoch:
            self._producer, self._sequences = (answer.producer_id, answer.epoch), {}
        return True

    def _add(self, partition: TopicPartition) -> Steps:
        """Of version 1: AddPartitionsToTxn, AddOffsetsToTxn."""
        if self.bumps_epoch:
            return True
        added = AddToTransaction(self.transactional_id, self._claim, frozenset({partition}))
        answer = yield from self._coordinate(added)
        return answer.code == ErrorCode.NONE

    def _write(self, sent: SentToLedger, partition: TopicPartition) -> Steps:
        if not (yield from self._add(partition)):
            return False
        name, claim = self.transactional_id, self._claim
        for _ in range(self.world.between(1, 2)):
            value, sequence = f"{self.name}.{self._made}", self._sequences.get(partition, 0)
            self._made += 1
            sent.values.setdefault(partition, []).append(value)

            def produce(broker: LedgerBroker, answer: Answer, value: str = value, sequence: int = sequence) -> None:
                broker.produce_in_transaction(name, claim, partition, sequence, value, answer)

            if (yield from self._until(partition, produce)) != ErrorCode.NONE:
                return False
            self._sequences[partition] = sequence + 1
        return True

    def _commit_offset(self, sent: SentToLedger) -> Steps:
        if not (yield from self._add((OFFSETS, 0))):
            return False
        self._offset += 1
        sent.offset = self._offset
        rows = [TxnOffsetCommitRequestPartition(self.source, self._offset)]
        request = TxnOffsetCommitRequest(
            self.transactional_id, GROUP, *self._producer, topics=[TxnOffsetCommitRequestTopic("in", partitions=rows)]
        )
        version = 5 if self.bumps_epoch else 3
        handle: Handle = lambda broker, answer: broker.commit_offsets(request, version, answer)  # noqa: E731
        return (yield from self._until((OFFSETS, 0), handle)) == ErrorCode.NONE


class LedgerReader(LedgerClient):
    """``read``: what one partition delivered of committed transactions, in order."""

    def __init__(
        self, network: Network, name: str, brokers: dict[int, LedgerBroker], partition: TopicPartition
    ) -> None:
        super().__init__(network, name, brokers)
        self.partition = partition
        self.read: list[str] = []
        self._position = 0

    def steps(self) -> Steps:
        """Reads what is committed, without an end."""
        while True:
            answer = yield self.partition, lambda b, reply: b.read_committed(self.partition, self._position, reply)
            if isinstance(answer, tuple):
                progress = answer[0] > self._position
                self._position = answer[0]
                self.read += answer[1]
                yield 1 if progress else POLL_MS
            else:
                yield RETRY_MS
