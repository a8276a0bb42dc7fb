"""A transactional producer in the laboratory: the machines of sending and of transactions against brokers' own handlers, as the
client's driver has them work together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from coterie.laboratory.client_connections import COORDINATORS, ClientConnections
from coterie.laboratory.requesting_producer import PRODUCE_VERSION, RECORD_BYTES, RequestingProducer
from coterie.laboratory.world import World
from coterie.machines.backoff import Backoff
from coterie.producing.batch import ProduceFailure, ProducerBatch, TopicPartition
from coterie.producing.config import ProducingConfig
from coterie.producing.opened_transaction import ABORTED, is_unsent
from coterie.producing.transactions.requests import PRODUCE_OF_VERSION_1, CommittingMember, TransactionOffsets
from coterie.producing.transactions.state import TransactionState
from coterie.producing.transactions.transactions import (
    LookUpCoordinatorOf,
    SendTransactional,
    TransactionCallEnded,
    TransactionEffect,
    Transactions,
)
from coterie.producing.transactions.view import TransactionView
from coterie.wire.apis import APIS
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

USER_MS = 20  # at most, until the user's code goes on after a call
Ended = Callable[[ErrorCode], None]


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """Times in ms. ``newest_version``: the transaction.version that the cluster reports, as far as the client knows it."""

    transactional_id: str
    timeout_ms: int
    api_timeout_ms: int
    newest_version: int


class TransactingProducer(RequestingProducer):
    """Calls end by ``ended(code)``, some milliseconds later than their last response, unless the process ends before."""

    transactions: Transactions

    def __init__(
        self,
        world: World,
        connections: ClientConnections,
        name: str,
        config: ProducingConfig,
        transaction: TransactionConfig,
    ) -> None:
        super().__init__(world, connections, name, config)
        self.transaction_config = transaction
        self._calls: dict[int, Ended] = {}
        self._unended = 0

    # -- its life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """A new process, or a new producer in place of one that cannot go on."""
        self._forget_all()
        config = self.transaction_config
        self._known.features_received({"transaction.version": config.newest_version}, 0)
        self.transactions = Transactions(
            self._known, config.transactional_id, config.timeout_ms, config.api_timeout_ms, Backoff()
        )
        self._calls.clear()
        self._unended = 0
        self._flushes = False
        self._timer_ms = -1.0
        self._view = TransactionView(self.transactions)
        self._begin(self._known.leader, self._known.leader_epoch, self._view)

    def crash(self) -> None:
        """What is in memory is gone; what is under way may still arrive."""
        self._life += 1

    @property
    def state(self) -> TransactionState:
        return self.transactions.state

    # -- calls --------------------------------------------------------------------------------------------------------

    def init(self, ended: Ended) -> None:
        self._act(lambda: self._call(self.transactions.init(self.world.now_ms), ended))

    def begin(self) -> None:
        self.transactions.begin()

    def append(self, partition: TopicPartition, value: bytes) -> None:
        """Appends a record of the open transaction."""

        def append() -> None:
            now_ms = self.world.now_ms
            _, index = self.machine.append(partition, (now_ms, None, value, ()), RECORD_BYTES, now_ms)
            self._unended += index == 0

        self._act(append)

    def send_offsets(self, offsets: TransactionOffsets, member: CommittingMember, ended: Ended) -> None:
        """The state is IN_TRANSACTION."""
        self._act(lambda: self._call(self.transactions.send_offsets(offsets, member, self.world.now_ms), ended))

    def end(self, committed: bool, ended: Ended) -> None:
        """After the last record has its result; an abort fails what was not sent."""

        def end() -> None:
            if not committed:
                for effect in self.machine.fail(self._view.failure or ABORTED, is_unsent):
                    self._carry_out(effect)
            self._call(self.transactions.end(committed, self.world.now_ms, awaits_records=True), ended)
            self.machine.flush()
            self._flushes = True

        self._act(end)

    def _call(self, token: int, ended: Ended) -> None:
        self._calls[token] = lambda code: self._after(self.world.between(0, USER_MS), lambda: ended(code))

    # -- the machines -------------------------------------------------------------------------------------------------

    def _act(self, action: Callable[[], None]) -> None:
        super()._act(action)
        while True:
            if self._flushes and not self._unended:
                self._flushes = False
                self.transactions.records_ended()
            effects = self.transactions.next(self.world.now_ms)
            for effect in effects:
                self._carry_out_transactional(effect)
            if not effects:
                break
            super()._act(lambda: None)
        self._arm_transactions()

    def _arm_transactions(self) -> None:
        now_ms, due_ms = self.world.now_ms, self.transactions.next_deadline_ms()
        if due_ms is None or now_ms < self._timer_ms <= due_ms:
            return
        assert due_ms > now_ms, f"{self.name}: a deadline of {due_ms} at {now_ms}"
        self._timer_ms = due_ms
        self._after(int(due_ms - now_ms) + 1, lambda: None)

    def _carry_out_transactional(self, effect: TransactionEffect) -> None:
        match effect:
            case TransactionCallEnded(token=token, code=code):
                self._calls.pop(token)(code)
            case LookUpCoordinatorOf(key, kind):
                self._look_up(key, kind)
            case SendTransactional(node_id, request, highest):
                last = APIS[request.api_key].advertised.last
                version = last if highest is None else min(last, highest)
                self._request(COORDINATORS, node_id, request, version, self._received)

    def _received(self, response: Message | None) -> None:
        if response is None:
            self.transactions.request_failed(ErrorCode.NETWORK_EXCEPTION, self.world.now_ms, self._jitter())
        else:
            self.transactions.answered(response, self.world.now_ms, self._jitter())

    def _look_up(self, key: str, kind: int) -> None:
        def received(response: Message | None) -> None:
            code = ErrorCode.NETWORK_EXCEPTION
            if isinstance(response, FindCoordinatorResponse):
                code = self._known.coordinator_received(key, kind, response).error_code
            self.transactions.coordinator_looked_up(code, self.world.now_ms, self._jitter())

        version = APIS[FindCoordinatorRequest.api_key].advertised.last
        self._request(COORDINATORS, None, self._known.coordinator_request(key, kind), version, received)

    def _add_partitions(self, partitions: frozenset[TopicPartition]) -> None:
        token = self.transactions.add(partitions, self.world.now_ms)
        if token is None:
            self.machine.partitions_added()
        else:
            self._calls[token] = self._added

    def _added(self, code: ErrorCode) -> None:
        if code:
            self.machine.partitions_refused(ProduceFailure.of_code(code), self.world.now_ms, self._jitter())
        else:
            self.machine.partitions_added()

    def _get_producer_id(self) -> None:
        raise AssertionError("the transaction has the identity")

    def _produce_version(self) -> int:
        return PRODUCE_VERSION if self.transactions.bumps_epoch else PRODUCE_OF_VERSION_1

    def _ended(self, batch: ProducerBatch) -> None:
        self._unended -= 1
        for _, result in batch.results:
            if isinstance(result, ProduceFailure) and not result.is_of_transaction:
                self.transactions.failed(result.code)
        for index, item in enumerate(batch.items):
            there = batch.result_of(index)
            if not isinstance(there, ProduceFailure):
                self._record_acknowledged(batch.partition, there[0], item[2] or b"")

    def _record_acknowledged(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        """The record is in the log."""
