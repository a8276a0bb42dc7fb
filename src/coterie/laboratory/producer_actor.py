"""The laboratory's producer: a process that initializes, commits offsets in transactions, is late, and is fenced."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from coterie.coordinator.outcome import Context
from coterie.laboratory.transaction_checker import GROUP
from coterie.laboratory.transactional_broker import TransactionalBroker
from coterie.laboratory.world import World
from coterie.wire.declaration import Message
from coterie.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from coterie.wire.messages.end_txn import EndTxnRequest
from coterie.wire.messages.init_producer_id import InitProducerIdRequest
from coterie.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

ANSWER_MS = 3_000  # longer than the network ever takes: what has not come by then was lost
OFFSET_COMMIT_VERSIONS = (3, 4)
NOBODY = (-1, -1)

Steps = Generator[Message, Any, None]


class Offsets:
    """Every offset of a story is unique, so that it identifies its request."""

    def __init__(self) -> None:
        self.last = 0

    def take(self) -> int:
        self.last += 1
        return self.last


class ProducerActor:
    """``transactional_id`` None for an idempotent producer. Two with the same id fence each other."""

    def __init__(
        self, world: World, broker: TransactionalBroker, transactional_id: str | None, timeout_ms: int, offsets: Offsets
    ) -> None:
        self.world, self.broker, self.transactional_id = world, broker, transactional_id
        self.timeout_ms, self._offsets = timeout_ms, offsets
        self.alive = False
        self.stalled_until_ms = 0
        self.refused = 0
        self._life = self._waits_for = 0

    def start(self) -> None:
        self.alive = True
        self._life += 1
        self._steps = self._process()
        self._resume(self._life, None)

    def crash(self) -> None:
        self.alive = False
        self._life += 1

    # -- its life -----------------------------------------------------------------------------------------------------

    def _process(self) -> Steps:
        claim, rng = NOBODY, self.world.random
        while True:
            answer = yield InitProducerIdRequest(self.transactional_id, self.timeout_ms, *claim)
            if answer is None or answer.error_code:
                claim = NOBODY if answer is not None else claim
                continue
            mine = (answer.producer_id, answer.producer_epoch)
            if self.transactional_id is not None:
                while (yield from self._transaction(mine)):
                    pass
            claim = rng.choice([mine, NOBODY])

    def _transaction(self, mine: tuple[int, int]) -> Generator[Message, Any, bool]:
        """False where a request failed or was not answered: then the producer begins anew."""
        rng = self.world.random
        assert self.transactional_id is not None
        if self.world.chance(0.2) and not (yield from self._late_or_wrong(mine)):
            return False
        answer = yield AddOffsetsToTxnRequest(self.transactional_id, *mine, GROUP)
        if answer is None or answer.error_code:
            return False
        for _ in range(rng.randint(0, 3)):
            answer = yield self._commit(self.transactional_id, mine)
            if answer is None or answer.topics[0].partitions[0].error_code:
                return False
        answer = yield EndTxnRequest(self.transactional_id, *mine, rng.random() < 0.7)
        if answer is None or answer.error_code:
            return False
        return not self.world.chance(0.2) or (yield from self._late_or_wrong(mine))

    def _late_or_wrong(self, mine: tuple[int, int]) -> Generator[Message, Any, bool]:
        """An offset outside a transaction, of another epoch, or of an unknown producer."""
        producer_id, epoch = mine
        wrong = self.world.random.choice([mine, (producer_id, epoch - 1), (producer_id, epoch + 1), (10**6, 0)])
        answer = yield self._commit(self.world.random.choice([self.transactional_id or "", "nobody"]), wrong)
        if answer is None:
            return False
        self.refused += bool(answer.topics[0].partitions[0].error_code)
        return True

    def _commit(self, transactional_id: str, producer: tuple[int, int]) -> TxnOffsetCommitRequest:
        partition = TxnOffsetCommitRequestPartition(self.world.between(0, 2), self._offsets.take())
        return TxnOffsetCommitRequest(
            transactional_id, GROUP, *producer, topics=[TxnOffsetCommitRequestTopic("t", [partition])]
        )

    # -- the network --------------------------------------------------------------------------------------------------

    def _resume(self, life: int, answer: Message | None) -> None:
        """The process goes on with an answer, or with None where there was none."""
        if not self.alive or self._life != life:
            return
        wait_ms = self.stalled_until_ms - self.world.now_ms
        if wait_ms > 0:
            self.world.after(wait_ms, lambda: self._resume(life, answer))
            return
        request = self._steps.send(answer)
        self._waits_for += 1
        number = self._waits_for
        self.world.after(self.world.between(0, 300), lambda: self._send(life, number, request))

    def _send(self, life: int, number: int, request: Message) -> None:
        world, faults = self.world, self.world.faults

        def answered(response: Message) -> None:
            if not world.chance(faults.break_probability):
                world.after(world.delay_ms(), lambda: go_on(response))

        def go_on(response: Message | None) -> None:
            if self._waits_for == number:
                self._waits_for += 1
                self._resume(life, response)

        for _ in range(2 if world.chance(faults.double_probability) else 1):
            if not world.chance(faults.break_probability):
                world.after(world.delay_ms(), lambda: self._arrive(request, answered))
        world.after(ANSWER_MS, lambda: go_on(None))

    def _arrive(self, request: Message, answered: Any) -> None:
        if not self.broker.up:
            return
        if isinstance(request, TxnOffsetCommitRequest):
            version = self.world.random.choice(OFFSET_COMMIT_VERSIONS)
            self.broker.submit(request, Context(0, api_version=version), answered)
        else:
            self.broker.transact(request, answered)
