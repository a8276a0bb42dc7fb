"""The laboratory's transactional producer: the client's machine of transactions in a process that commits offsets in
transactions, is late, stalls, and is fenced."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from coterie.coordinator.outcome import Context
from coterie.laboratory.transaction_checker import GROUP
from coterie.laboratory.transactional_broker import TransactionalBroker
from coterie.laboratory.world import World
from coterie.machines.backoff import Backoff
from coterie.machines.cluster_metadata import ClusterMetadata
from coterie.producing.transactions.requests import CommittingMember
from coterie.producing.transactions.state import TransactionState
from coterie.producing.transactions.transactions import (
    LookUpCoordinatorOf,
    SendTransactional,
    TransactionCallEnded,
    TransactionEffect,
    Transactions,
)
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.find_coordinator import Coordinator, FindCoordinatorResponse
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from coterie.wire.messages.transactions.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

ANSWER_MS = 3_000  # longer than the network ever takes: what has not come by then was lost
API_TIMEOUT_MS = 20_000  # default.api.timeout.ms
OFFSET_COMMIT_VERSIONS = (3, 4)
HELD_MS = 8_000  # a copy of a request may arrive so late
HIGHEST_OF_VERSION_1 = 4
NOBODY = (-1, -1)
ABORTS = 3  # tried so often before the process is started anew

# A process yields a request of its own, which is answered by the response or None, or the token of a call of its machine,
# answered by the error code.
Steps = Generator["Message | int", Any, None]
S = TransactionState


class Offsets:
    """Every offset of a story is unique, so that it identifies its transaction."""

    def __init__(self) -> None:
        self.last = 0

    def take(self) -> int:
        self.last += 1
        return self.last


class ProducerActor:
    """``transactional_id`` None for an idempotent producer. Two with the same id fence each other. ``newest_version``: the
    newest transaction.version that the client has."""

    def __init__(
        self,
        world: World,
        broker: TransactionalBroker,
        transactional_id: str | None,
        timeout_ms: int,
        offsets: Offsets,
        newest_version: int,
    ) -> None:
        self.world, self.broker, self.transactional_id = world, broker, transactional_id
        self.timeout_ms, self._offsets, self._newest_version = timeout_ms, offsets, newest_version
        self.alive = False
        self.stalled_until_ms = 0
        self.refused = 0
        self._life = 0
        self._awaited: int | None = None  # the call that the process waits for

    def start(self) -> None:
        """Starts the process, with a machine of its own."""
        self.alive = True
        self._life += 1
        self._new_machine()
        self._steps = self._process() if self.transactional_id is None else self._transactional_process()
        self._resume(None)

    def crash(self) -> None:
        self.alive = False
        self._life += 1

    def _new_machine(self) -> None:
        self._known = ClusterMetadata()
        name = self.transactional_id or ""
        self.machine = Transactions(self._known, name, self.timeout_ms, API_TIMEOUT_MS, Backoff())

    # -- its life -----------------------------------------------------------------------------------------------------

    def _process(self) -> Steps:
        """Without transactional id: asks for a producer id, again and again."""
        claim = NOBODY
        while True:
            answer = yield InitProducerIdRequest(None, self.timeout_ms, *claim)
            if answer is None or answer.error_code:
                claim = NOBODY if answer is not None else claim
                continue
            claim = self.world.random.choice([(answer.producer_id, answer.producer_epoch), NOBODY])

    def _transactional_process(self) -> Steps:
        while True:
            code = yield self.machine.init(self.world.now_ms)
            while not code and self.machine.state == S.READY:
                if self.world.chance(0.2):
                    yield from self._late_or_wrong()
                yield from self._transaction()
                if self.machine.state == S.READY and self.world.chance(0.1):
                    break
            if self.machine.state not in (S.UNINITIALIZED, S.READY):
                self._new_machine()

    def _transaction(self) -> Generator[Message | int, Any, None]:
        """One transaction to its end, or to an error that the process is started anew for."""
        machine, rng = self.machine, self.world.random
        machine.begin()
        offsets: list[int] = []
        for _ in range(rng.randint(0, 3)):
            offsets.append(self._offsets.take())
            wanted = {("t", self.world.between(0, 2)): offsets[-1]}
            if (yield machine.send_offsets(wanted, CommittingMember(GROUP), self.world.now_ms)):
                break
        for _ in range(ABORTS):
            committed = machine.state == S.IN_TRANSACTION and rng.random() < 0.7
            if machine.state not in (S.IN_TRANSACTION, S.ABORTABLE_ERROR):
                return
            code = yield machine.end(committed, self.world.now_ms)
            if not code:
                self.broker.checker.reported(committed, offsets, machine.bumps_epoch)

    def _late_or_wrong(self) -> Generator[Message | int, Any, None]:
        """An offset outside a transaction, of another epoch, or of an unknown producer."""
        mine = producer_id, epoch = self.machine.producer_id, self.machine.epoch
        wrong = self.world.random.choice([mine, (producer_id, epoch - 1), (producer_id, epoch + 1), (10**6, 0)])
        answer = yield self._commit(self.world.random.choice([self.transactional_id or "", "nobody"]), wrong)
        if answer is not None:
            self.refused += bool(answer.topics[0].partitions[0].error_code)

    def _commit(self, transactional_id: str, producer: tuple[int, int]) -> TxnOffsetCommitRequest:
        partition = TxnOffsetCommitRequestPartition(self.world.between(0, 2), self._offsets.take())
        return TxnOffsetCommitRequest(
            transactional_id, GROUP, *producer, topics=[TxnOffsetCommitRequestTopic("t", partitions=[partition])]
        )

    def _resume(self, result: object) -> None:
        """The process goes on with what it waited for, and takes its time."""
        step = self._steps.send(result)
        if isinstance(step, int):
            self._awaited = step
            self._after(self.world.between(0, 300), self._pump)
        else:
            self._after(self.world.between(0, 300), lambda: self._send(step, self._resume))

    def _after(self, delay_ms: int, action: Callable[[], None]) -> None:
        """In this life, and not while it is stalled."""
        life = self._life

        def awake() -> None:
            if self.alive and self._life == life:
                wait_ms = self.stalled_until_ms - self.world.now_ms
                if wait_ms > 0:
                    self.world.after(wait_ms, awake)
                else:
                    action()

        self.world.after(delay_ms, awake)

    # -- driving the machine --------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        machine, now_ms = self.machine, self.world.now_ms
        ended: list[TransactionCallEnded] = []
        for effect in machine.next(now_ms):
            self._carry_out(effect, ended)
        due_ms = machine.next_deadline_ms()
        assert due_ms is None or due_ms > now_ms, f"a deadline of {due_ms} at {now_ms}"
        if due_ms is not None:
            self._after(int(due_ms - now_ms) + 1, lambda: self._pump() if self.machine is machine else None)
        for effect in ended:
            assert effect.token == self._awaited, "a call ended that nobody waits for"
            self._awaited = None
            self._resume(effect.code)

    def _carry_out(self, effect: TransactionEffect, ended: list[TransactionCallEnded]) -> None:
        match effect:
            case TransactionCallEnded():
                ended.append(effect)
            case LookUpCoordinatorOf(key, kind):
                self._after(self.world.delay_ms(), lambda: self._look_up(key, kind))
            case SendTransactional(request=request, highest=highest):
                self._send(request, self._received, highest)

    def _received(self, response: Message | None) -> None:
        jitter = self.world.random.uniform(-1, 1)
        if response is None:
            self.machine.request_failed(ErrorCode.NETWORK_EXCEPTION, self.world.now_ms, jitter)
        else:
            self.machine.answered(response, self.world.now_ms, jitter)
        self._pump()

    def _look_up(self, key: str, kind: int) -> None:
        code = ErrorCode.NONE if self.broker.up else ErrorCode.COORDINATOR_NOT_AVAILABLE
        if self.broker.up:
            here = Coordinator(key, 1, "laboratory", 9092)
            self._known.coordinator_received(key, kind, FindCoordinatorResponse(coordinators=[here]))
            level = min(self.broker.finalized, self._newest_version)
            self._known.features_received({"transaction.version": level}, self.broker.features_epoch)
        self.machine.coordinator_looked_up(code, self.world.now_ms, self.world.random.uniform(-1, 1))
        self._pump()

    # -- the network --------------------------------------------------------------------------------------------------

    def _send(
        self, request: Message, received: Callable[[Message | None], None], highest: int | None = HIGHEST_OF_VERSION_1
    ) -> None:
        """``received`` is called once in this life: with the response, or with None where there was none. ``highest`` as in
        `SendTransactional`."""
        world, faults = self.world, self.world.faults
        life, is_over = self._life, False

        def once(response: Message | None) -> None:
            nonlocal is_over
            if not is_over and self._life == life:  # the broker may answer in the next one
                is_over = True
                received(response)

        def answered(response: Message) -> None:
            if not world.chance(faults.break_probability):
                self._after(world.delay_ms(), lambda: once(response))

        version = self._version(request, highest)
        for copy in range(2 if world.chance(faults.double_probability) else 1):
            if not world.chance(faults.break_probability):
                held_ms = world.between(0, HELD_MS) if copy else 0
                world.after(world.delay_ms() + held_ms, lambda: self._arrive(request, version, answered))
        self._after(ANSWER_MS, lambda: once(None))

    def _version(self, request: Message, highest: int | None) -> int:
        newest = request.versions.last if highest is None else highest
        is_old = isinstance(request, TxnOffsetCommitRequest) and newest == OFFSET_COMMIT_VERSIONS[-1]
        return self.world.random.choice(OFFSET_COMMIT_VERSIONS) if is_old else newest

    def _arrive(self, request: Message, version: int, answered: Callable[[Message], None]) -> None:
        if not self.broker.up:
            return
        if isinstance(request, TxnOffsetCommitRequest):
            self.broker.submit(request, Context(0, api_version=version), answered)
        else:
            self.broker.transact(request, version, answered)
