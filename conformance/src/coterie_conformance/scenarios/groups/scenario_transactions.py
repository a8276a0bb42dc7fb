"""The scenario language's transaction coordinator: the real machine over lists, and its steps.

    init p
        p: InitProducerId NONE producer=1000 epoch=0
    add-offsets p
        p: AddOffsetsToTxn NONE
    end p commit
        p: EndTxn NONE

From the first `init` on every TxnOffsetCommit of the scenario must belong to an ongoing transaction; a scenario without
one is about the group's side alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from coterie.coordinator.shard import Shard
from coterie.coordinator.transactions.machine import TransactionMachine
from coterie.coordinator.transactions.state import BUMPS_FROM, TopicPartition, Transaction, decode_transaction
from coterie.coordinator.transactions.steps import END_TXN_V2_FROM, TXN_OFFSET_COMMIT_V2_FROM, Claim, offsets_claim
from coterie.coordinator.transactions.verification import for_offsets
from coterie.wire.errors import ErrorCode, Refusal, error_of
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from coterie.wire.messages.transactions.txn_offset_commit import TxnOffsetCommitRequest
from coterie_conformance.scenarios.groups.scenario_requests import RequestActor, plain

OFFSETS_PARTITION = ("__consumer_offsets", 0)  # the scenario's only shard
FIRST_PRODUCER_ID = 1_000
MAX_TIMEOUT_MS = 900_000
INIT_VERSION, END_VERSION = 5, 3
Marker = Callable[[int, int, bool], None]


class ScenarioTransactions:
    """``write`` puts a marker (producer id, epoch, committed) into the shard's log; ``now_ms`` is the scenario's clock."""

    def __init__(self, write: Marker, now_ms: Callable[[], int]) -> None:
        self._write, self._now_ms = write, now_ms
        self._states: list[tuple[bytes, bytes]] = []
        self._next_id = FIRST_PRODUCER_ID
        self._machine: TransactionMachine | None = None
        self.failing_markers = 0
        self.finalized = 0  # the level of transaction.version

    # -- what the machine writes to ---------------------------------------------------------------------------------

    def keep(self, transaction: Transaction) -> None:
        self._states.append((transaction.key(), transaction.value(self.finalized)))

    def transaction_version(self) -> int:
        return self.finalized

    def write_marker(self, partition: TopicPartition, prepared: Transaction) -> None:
        """Raises Refusal while markers are to fail."""
        if self.failing_markers:
            self.failing_markers -= 1
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR)
        self._write(prepared.producer_id, prepared.epoch, prepared.is_commit)

    def new_producer_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1

    # -- its life -----------------------------------------------------------------------------------------------------

    def verify(self, request: TxnOffsetCommitRequest, version: int) -> None:
        if self._machine is not None:
            verify_or_add(self._machine, request, version, self._now_ms())

    def reload(self, shard: Shard) -> None:
        """After a restart, once the shard is loaded: as the broker does it."""
        if self._machine is None:
            return
        self._machine = None
        machine = self._started()
        for key, value in self._states:
            stored = decode_transaction(key, value)
            machine.by_id[stored.transactional_id] = stored
        machine.complete_prepared(self._now_ms())
        for producer_id, epoch in machine.orphans(shard.pending_producers(), OFFSETS_PARTITION):
            self._write(producer_id, epoch, False)

    def _started(self) -> TransactionMachine:
        if self._machine is None:
            self._machine = TransactionMachine(self, MAX_TIMEOUT_MS)
            self._machine.loaded = True
        return self._machine

    # -- steps ------------------------------------------------------------------------------------------------------

    def init(self, actor: RequestActor, name: str, options: dict[str, str]) -> str:
        """`init p`, `init p id=x timeout=1000`, `init p id=none`; `claim=3` names its producer id, under that epoch."""
        given = options.get("id", actor.transactional_id or name)
        claimed = (actor.producer_id, int(options["claim"])) if "claim" in options else (-1, -1)
        transactional_id = None if given == "none" else plain(given)
        request = InitProducerIdRequest(transactional_id, int(options.get("timeout", 60_000)), *claimed)
        response = self._started().init_producer_id(request, int(options.get("version", INIT_VERSION)), self._now_ms())
        code = error_of(response.error_code).name
        if response.error_code:
            return f"{name}: InitProducerId {code}"
        actor.transactional_id = transactional_id or ""
        actor.producer_id, actor.producer_epoch = response.producer_id, response.producer_epoch
        return f"{name}: InitProducerId {code} producer={response.producer_id} epoch={response.producer_epoch}"

    def add_offsets(self, actor: RequestActor, name: str, options: dict[str, str]) -> str:
        """`add-offsets p`: the shard's partition takes part in the transaction."""
        machine = self._started()
        code = _code_of(
            lambda: machine.add_partitions(*_who(actor, options), [OFFSETS_PARTITION], self._now_ms()),
        )
        return f"{name}: AddOffsetsToTxn {code.name}"

    def end(self, actor: RequestActor, name: str, committed: bool, options: dict[str, str]) -> str:
        """`end p commit`, `end p abort`; `version=5` bumps the epoch (KIP-890)."""
        machine = self._started()
        if int(options.get("version", END_VERSION)) >= END_TXN_V2_FROM:
            try:
                producer = machine.end_with_bump(*_who(actor, options), committed, self._now_ms())
            except Refusal as refusal:
                return f"{name}: EndTxn {refusal.code.name}"
            if options.get("response") != "lost":
                actor.producer_id, actor.producer_epoch = producer
            return f"{name}: EndTxn NONE producer={producer[0]} epoch={producer[1]}"
        code = _code_of(lambda: machine.end(*_who(actor, options), committed, self._now_ms()))
        return f"{name}: EndTxn {code.name}"

    def use_epochs(self, actor: RequestActor, epoch: int) -> None:
        """The producer's epoch is from now on ``epoch``, as after many transactions."""
        machine = self._started()
        state = replace(machine.by_id[actor.transactional_id], epoch=epoch)
        machine.by_id[actor.transactional_id] = state
        self.keep(state)
        actor.producer_epoch = epoch

    def upkeep(self) -> list[str]:
        """`transactions-upkeep`: what the broker does every ten seconds."""
        machine = self._started()
        machine.complete_prepared(self._now_ms())
        return [f"aborted: {t.transactional_id}" for t in machine.abort_timed_out(self._now_ms())]


def verify_or_add(machine: TransactionMachine, request: TxnOffsetCommitRequest, version: int, now_ms: int) -> None:
    """As the broker does it before a TxnOffsetCommit. Raises Refusal."""
    claim, name = offsets_claim(request, version), request.transactional_id
    try:
        if version >= TXN_OFFSET_COMMIT_V2_FROM:
            machine.add_partitions(name, claim, [OFFSETS_PARTITION], now_ms, transaction_version=BUMPS_FROM)
        else:
            machine.verify(name, claim, OFFSETS_PARTITION)
    except Refusal as refusal:
        raise Refusal(for_offsets(refusal.code, claim), refusal.message) from refusal


def _who(actor: RequestActor, options: dict[str, str]) -> tuple[str, Claim]:
    transactional_id = plain(options.get("id", actor.transactional_id))
    epoch = int(options.get("epoch", actor.producer_epoch))
    return transactional_id, Claim(int(options.get("producer", actor.producer_id)), epoch)


def _code_of(work: Callable[[], None]) -> ErrorCode:
    try:
        work()
    except Refusal as refusal:
        return refusal.code
    return ErrorCode.NONE
