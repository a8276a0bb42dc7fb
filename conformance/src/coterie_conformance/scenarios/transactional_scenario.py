"""Scenarios of one transactional producer (tests/spec/transactional_producer): its machine of batches and its machine of
transactions, as a driver has them work together.

== testBasicTransaction
init
    UNINITIALIZED -> INITIALIZING
    look up the coordinator of x
coordinator 1
    InitProducerId - to node 1
answer producer=7/0
    init: NONE
    INITIALIZING -> READY
"""

from __future__ import annotations

from coterie.machines.backoff import Backoff
from coterie.machines.cluster_metadata import GROUP, ClusterMetadata
from coterie.producing.batch import ABORTED, ProduceFailure, ProducerBatch, TopicPartition, is_unsent
from coterie.producing.transactions.requests import (
    CommittingMember,
    LookUpCoordinatorOf,
    SendTransactional,
    TransactionCallEnded,
    TransactionEffect,
)
from coterie.producing.transactions.transactions import Transactions
from coterie.producing.transactions.view import TransactionView
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.find_coordinator import Coordinator, FindCoordinatorResponse
from coterie.wire.messages.transactions.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from coterie.wire.messages.transactions.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from coterie.wire.messages.transactions.end_txn import EndTxnRequest, EndTxnResponse
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from coterie.wire.messages.transactions.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from coterie_conformance.scenarios.groups.scenario import ScenarioError
from coterie_conformance.scenarios.producer_scenario import Options, ProducerScenario

ID, GROUP_ID = "x", "g"
API_TIMEOUT_MS = 60_000


class TransactionalScenario(ProducerScenario):
    """Its transactional id is x; ``config`` also has ``transaction_version``, which the cluster reports."""

    transactions: Transactions

    def __init__(self) -> None:
        self._calls: dict[int, str] = {}  # the verb of each call that has not ended
        self._sent: SendTransactional | LookUpCoordinatorOf | None = None  # without a response
        self._unended = 0  # batches
        self._flushes = False
        super().__init__()
        self.verbs |= {
            "init": lambda *_: self._call("init", self.transactions.init(self.now_ms)),
            "begin": lambda *_: self.transactions.begin(),
            "in-transaction": self._in_transaction,
            "commit": lambda *_: self._end("commit"),
            "abort": lambda *_: self._end("abort"),
            "offsets": self._offsets,
            "coordinator": self._coordinator,
            "answer": self._respond,
            "lost": lambda *_: self._lost(),
        }

    def begin(self, options: Options) -> None:
        named = dict(options)
        known = ClusterMetadata(300_000)
        known.features_received({"transaction.version": int(named.pop("transaction_version", 1))}, 0)
        self.transactions = Transactions(known, ID, 60_000, API_TIMEOUT_MS, Backoff())
        self._view = TransactionView(self.transactions)
        self.machine = self.made(named, self._view)

    def step(self, line: str) -> list[str]:
        before = self.transactions.state
        super().step(line)
        after = self.transactions.state
        return self.trace + ([] if after is before else [f"{before.name} -> {after.name}"])

    # -- the user -----------------------------------------------------------------------------------------------------

    def _in_transaction(self, words: list[str], options: Options) -> None:
        """As testBasicTransaction begins: the producer is 7/0, node 1 its coordinator, and a transaction is open."""
        for line in ("init", "coordinator 1", "answer producer=7/0", "begin"):
            super().step(line)
        self.trace = []

    def _append(self, words: list[str], options: Options) -> None:
        before = set(self._waiting())
        super()._append(words, options)
        self._unended += len(set(self._waiting()) - before)

    def _waiting(self) -> list[ProducerBatch]:
        return [batch for queue in self.machine.accumulator.queues.values() for batch in queue.batches]

    def _call(self, verb: str, token: int) -> None:
        self._calls[token] = verb

    def _end(self, verb: str) -> None:
        """After the last record has its result; an abort fails what was not sent."""
        if verb == "abort":
            for effect in self.machine.fail(self._view.failure or ABORTED, is_unsent):
                self.carry_out(effect)
        self._call(verb, self.transactions.end(verb == "commit", self.now_ms, awaits_records=True))
        self.machine.flush()
        self._flushes = True

    def _offsets(self, words: list[str], options: Options) -> None:
        """``offsets t-0:5``: of the group g, as its member "me" of generation 3."""
        pairs = (word.rpartition(":") for word in words)
        offsets = {(name.rpartition("-")[0], int(name.rpartition("-")[2])): int(offset) for name, _, offset in pairs}
        member = CommittingMember(GROUP_ID, 3, "me")
        self._call("offsets", self.transactions.send_offsets(offsets, member, self.now_ms))

    # -- the machines -------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        while True:
            super().settle()
            if self._flushes and not self._unended:
                self._flushes = False
                self.transactions.records_ended()
            effects = self.transactions.next(self.now_ms)
            if not effects:
                return
            for effect in effects:
                self._carry_out_transactional(effect)

    def due_ms(self) -> float | None:
        due = [super().due_ms(), self.transactions.next_deadline_ms()]
        return min((ms for ms in due if ms is not None), default=None)

    def _carry_out_transactional(self, effect: TransactionEffect) -> None:
        match effect:
            case LookUpCoordinatorOf(key, kind):
                self._sent = effect
                self.add_line(f"look up the coordinator of {'the group ' if kind == GROUP else ''}{key}")
            case SendTransactional(node_id, request):
                self._sent = effect
                self.add_line(f"{_request_text(request)} to node {node_id}")
            case TransactionCallEnded(token, code, is_refused):
                self._call_ended(self._calls.pop(token), code, is_refused)

    def _call_ended(self, verb: str, code: ErrorCode, is_refused: bool) -> None:
        if verb != "add":
            self.add_line(f"{verb}: {'refused, ' if is_refused else ''}{code.name}")
        elif code:
            self.machine.partitions_refused(ProduceFailure.of_code(code), self.now_ms, 0.0)
        else:
            self.machine.partitions_added()

    def add_partitions(self, partitions: frozenset[TopicPartition]) -> None:
        """The machine's effect: the transaction adds them, or has them already."""
        token = self.transactions.add(partitions, self.now_ms)
        if token is None:
            self.machine.partitions_added()
        else:
            self._call("add", token)

    def ended(self, batch: ProducerBatch) -> None:
        super().ended(batch)
        self._unended -= 1
        for _, result in batch.results:
            if isinstance(result, ProduceFailure) and not result.is_of_transaction:
                self.transactions.failed(result.code)

    def numbered(self, partition: TopicPartition, producer_id: int, epoch: int, first: int, values: list[str]) -> None:
        """After UNKNOWN_PRODUCER_ID numbers begin at 0 within the epoch, since the broker has none: nothing to check."""

    # -- the coordinators ---------------------------------------------------------------------------------------------

    def _taken(self) -> SendTransactional | LookUpCoordinatorOf:
        sent, self._sent = self._sent, None
        if sent is None:
            raise ScenarioError("there is no request of the transaction without a response")
        return sent

    def _coordinator(self, words: list[str], options: Options) -> None:
        """``coordinator 1``: the node that the look-up names; or the code of an error."""
        sent = self._taken()
        if not isinstance(sent, LookUpCoordinatorOf):
            raise ScenarioError("no coordinator is looked up")
        code = ErrorCode[words[0]] if words[0].isupper() else ErrorCode.NONE
        if not code:
            here = Coordinator(sent.key, int(words[0]), "b", 9092)
            self.transactions.known.coordinator_received(
                sent.key, sent.kind, FindCoordinatorResponse(coordinators=[here])
            )
        self.transactions.coordinator_looked_up(code, self.now_ms, 0.0)

    def _respond(self, words: list[str], options: Options) -> None:
        """``answer``, or ``answer CODE``; ``producer=7/1``: what InitProducerId, or EndTxn of version 2, returns."""
        sent = self._taken()
        if not isinstance(sent, SendTransactional):
            raise ScenarioError("a look-up is answered by `coordinator`")
        producer_id, _, epoch = options.get("producer", "-1/-1").partition("/")
        code = ErrorCode[words[0]] if words else ErrorCode.NONE
        response = response_to(sent.request, code, (int(producer_id), int(epoch)))
        self.transactions.responded(response, self.now_ms, 0.0)

    def _lost(self) -> None:
        """The connection breaks before the response."""
        if isinstance(self._taken(), LookUpCoordinatorOf):
            self.transactions.coordinator_looked_up(ErrorCode.NETWORK_EXCEPTION, self.now_ms, 0.0)
        else:
            self.transactions.request_failed(ErrorCode.NETWORK_EXCEPTION, self.now_ms, 0.0)


def response_to(request: Message, code: ErrorCode, producer: tuple[int, int]) -> Message:
    """The response to a transactional producer's request; the code is that of every partition."""
    match request:
        case InitProducerIdRequest():
            return InitProducerIdResponse(0, code, *producer)
        case AddPartitionsToTxnRequest():
            results = [
                AddPartitionsToTxnTopicResult(
                    topic.name, [AddPartitionsToTxnPartitionResult(index, code) for index in topic.partitions]
                )
                for topic in request.topics
            ]
            return AddPartitionsToTxnResponse(results_by_topic=results)
        case AddOffsetsToTxnRequest():
            return AddOffsetsToTxnResponse(0, code)
        case TxnOffsetCommitRequest():
            topics = [
                TxnOffsetCommitResponseTopic(
                    topic.name,
                    partitions=[TxnOffsetCommitResponsePartition(p.partition_index, code) for p in topic.partitions],
                )
                for topic in request.topics
            ]
            return TxnOffsetCommitResponse(topics=topics)
        case _:
            return EndTxnResponse(0, code, *producer)


def _request_text(request: Message) -> str:
    who = f"{getattr(request, 'producer_id', -1)}/{getattr(request, 'producer_epoch', -1)}".replace("-1/-1", "-")
    match request:
        case InitProducerIdRequest():
            return f"InitProducerId {who}"
        case AddPartitionsToTxnRequest():
            names = [f"{topic.name}-{index}" for topic in request.topics for index in topic.partitions]
            return f"AddPartitionsToTxn {who} {' '.join(names)}"
        case AddOffsetsToTxnRequest():
            return f"AddOffsetsToTxn {who} {request.group_id}"
        case TxnOffsetCommitRequest():
            offsets = [
                f"{t.name}-{p.partition_index}:{p.committed_offset}" for t in request.topics for p in t.partitions
            ]
            member = f"{request.group_id} member={request.member_id} generation={request.generation_id_or_member_epoch}"
            return f"TxnOffsetCommit {who} {member} {' '.join(offsets)}"
        case EndTxnRequest():
            return f"EndTxn {who} {'commit' if request.committed else 'abort'}"
        case _:
            raise AssertionError(f"a producer sends no {type(request).__name__}")
