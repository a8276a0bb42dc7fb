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

from collections.abc import Callable, Iterable
from dataclasses import replace

from coterie.coordinator.shard import Shard
from coterie.coordinator.transactions.machine import (
    AddToTransaction,
    EndTransaction,
    InitProducer,
    KeepState,
    RemoveStates,
    TransactionCommand,
    TransactionEffect,
    TransactionMachine,
    TransactionResult,
    WriteMarkers,
)
from coterie.coordinator.transactions.state import BUMPS_FROM, Transaction
from coterie.coordinator.transactions.steps import (
    END_TXN_V2_FROM,
    TXN_OFFSET_COMMIT_V2_FROM,
    Claim,
    claimed_producer,
    init_error,
    offsets_claim,
    orphans,
)
from coterie.coordinator.transactions.verification import for_offsets
from coterie.wire.errors import ErrorCode, Refusal
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
        self._unmarked: list[Transaction] = []  # their markers failed
        self.failing_markers = 0
        self.finalized = 0  # the level of transaction.version

    # -- what the machine wants done ----------------------------------------------------------------------------------

    def _act(self, effects: Iterable[TransactionEffect]) -> list[TransactionResult]:
        """Within one turn, as a broker alone."""
        results: list[TransactionResult] = []
        for effect in effects:
            match effect:
                case TransactionResult():
                    results.append(effect)
                case KeepState(state):
                    self._keep(state)
                    results += self._act(self._started().kept(state, ErrorCode.NONE, self._now_ms()))
                case WriteMarkers(prepared):
                    self._mark(prepared)
                case RemoveStates():
                    raise AssertionError("no scenario has transactional ids expire")
        return results

    def _keep(self, state: Transaction) -> None:
        self._states.append((state.key(), state.value(self.finalized)))

    def _mark(self, prepared: Transaction) -> None:
        if self.failing_markers:
            self.failing_markers -= 1
            self._unmarked.append(prepared)
            return
        self._write(prepared.producer_id, prepared.epoch, prepared.is_commit)
        self._act(self._started().marked(prepared, self._now_ms()))

    def _new_producer_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1

    def _request(self, command: TransactionCommand) -> TransactionResult:
        (result,) = self._act(self._started().submit(command, None, self._now_ms()))
        return result

    # -- its life -----------------------------------------------------------------------------------------------------

    def verify(self, request: TxnOffsetCommitRequest, version: int) -> None:
        """As `VerifiedRequests.offsets`, before a TxnOffsetCommit. Raises Refusal."""
        if self._machine is None or not request.group_id:
            return
        claim, name = offsets_claim(request, version), request.transactional_id
        try:
            if not name:
                raise Refusal(ErrorCode.INVALID_REQUEST)
            if version < TXN_OFFSET_COMMIT_V2_FROM:
                self._machine.check_ongoing(name, claim, OFFSETS_PARTITION)
            else:
                added = AddToTransaction(name, claim, frozenset({OFFSETS_PARTITION}), BUMPS_FROM)
                code = self._request(added).code
                if code:
                    raise Refusal(code)
        except Refusal as refusal:
            raise Refusal(for_offsets(refusal.code, claim), refusal.message) from refusal

    def reload(self, shard: Shard) -> None:
        """After a restart, once the shard is loaded: as the broker does it."""
        if self._machine is None:
            return
        self._machine, self._unmarked = None, []
        machine = self._started()
        for key, value in self._states:
            machine.load(key, value)
        self._act(machine.loaded(self._now_ms()))
        for producer_id, epoch in orphans(machine.by_id.values(), shard.pending_producers(), OFFSETS_PARTITION):
            self._write(producer_id, epoch, False)

    def _started(self) -> TransactionMachine:
        if self._machine is None:
            self._machine = TransactionMachine(MAX_TIMEOUT_MS, self._new_producer_id, lambda: self.finalized)
        return self._machine

    # -- steps ------------------------------------------------------------------------------------------------------

    def init(self, actor: RequestActor, name: str, options: dict[str, str]) -> str:
        """`init p`, `init p id=x timeout=1000`, `init p id=none`; `claim=3` names its producer id, under that epoch."""
        given = options.get("id", actor.transactional_id or name)
        claimed = (actor.producer_id, int(options["claim"])) if "claim" in options else (-1, -1)
        transactional_id = None if given == "none" else plain(given)
        self._started()
        request = InitProducerIdRequest(transactional_id, int(options.get("timeout", 60_000)), *claimed)
        result = self._initialized(request)
        if result.code:
            return f"{name}: InitProducerId {init_error(result.code, int(options.get('version', INIT_VERSION))).name}"
        actor.transactional_id = transactional_id or ""
        actor.producer_id, actor.producer_epoch = result.producer_id, result.epoch
        return f"{name}: InitProducerId NONE producer={result.producer_id} epoch={result.epoch}"

    def _initialized(self, request: InitProducerIdRequest) -> TransactionResult:
        try:
            claimed = claimed_producer(request)
        except Refusal as refusal:
            return TransactionResult(None, refusal.code)
        if request.transactional_id is None:
            return TransactionResult(None, producer_id=self._new_producer_id(), epoch=0)
        return self._request(InitProducer(request.transactional_id, request.transaction_timeout_ms, claimed))

    def add_offsets(self, actor: RequestActor, name: str, options: dict[str, str]) -> str:
        """`add-offsets p`: the shard's partition takes part in the transaction."""
        added = AddToTransaction(*_who(actor, options), frozenset({OFFSETS_PARTITION}))
        return f"{name}: AddOffsetsToTxn {self._request(added).code.name}"

    def end(self, actor: RequestActor, name: str, committed: bool, options: dict[str, str]) -> str:
        """`end p commit`, `end p abort`; `version=5` bumps the epoch (KIP-890)."""
        bumps_epoch = int(options.get("version", END_VERSION)) >= END_TXN_V2_FROM
        result = self._request(EndTransaction(*_who(actor, options), committed, bumps_epoch))
        if result.code or not bumps_epoch:
            return f"{name}: EndTxn {result.code.name}"
        if options.get("response") != "lost":
            actor.producer_id, actor.producer_epoch = result.producer_id, result.epoch
        return f"{name}: EndTxn NONE producer={result.producer_id} epoch={result.epoch}"

    def use_epochs(self, actor: RequestActor, epoch: int) -> None:
        """The producer's epoch is from now on ``epoch``, as after many transactions."""
        machine = self._started()
        state = replace(machine.by_id[actor.transactional_id], epoch=epoch)
        machine.by_id[actor.transactional_id] = state
        self._keep(state)
        actor.producer_epoch = epoch

    def upkeep(self) -> list[str]:
        """`transactions-upkeep`: what the broker does every ten seconds."""
        unmarked, self._unmarked = self._unmarked, []
        for prepared in unmarked:
            self._mark(prepared)
        effects = self._started().tick(self._now_ms())
        self._act(effects)
        return [f"aborted: {e.transaction.transactional_id}" for e in effects if isinstance(e, KeepState)]


def _who(actor: RequestActor, options: dict[str, str]) -> tuple[str, Claim]:
    transactional_id = plain(options.get("id", actor.transactional_id))
    epoch = int(options.get("epoch", actor.producer_epoch))
    return transactional_id, Claim(int(options.get("producer", actor.producer_id)), epoch)
