"""A broker of the laboratory's cluster that takes part in transactions: their records, their offsets, and readers of what is
committed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any

from coterie.coordinator.outcome import Context
from coterie.coordinator.partitioning import partition_for
from coterie.coordinator.shard import Decision, Step
from coterie.coordinator.transactions.state import BUMPS_FROM, TopicPartition
from coterie.coordinator.transactions.steps import TXN_OFFSET_COMMIT_V2_FROM, Claim, offsets_claim
from coterie.coordinator.transactions.verification import guard_of, is_open
from coterie.coordinator.write_queue import drive
from coterie.laboratory.cluster.coordinating_broker import (
    OFFSETS,
    STATE_PARTITIONS,
    STATES,
    CoordinatingBroker,
    LedOffsets,
)
from coterie.laboratory.cluster.process import Answer
from coterie.log.producers.transactions import Aborted
from coterie.log.reading import read_committed
from coterie.records.batch import TRANSACTIONAL_BIT, BatchHeader, batches
from coterie.records.decoding import decode_keys_and_values
from coterie.records.encoding import encode_batch
from coterie.wire.errors import ErrorCode, Refusal, error_of
from coterie.wire.messages.transactions.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

READ_BYTES = 600


class LedgerBroker(CoordinatingBroker):
    """Each method answers with an error code, or with what was read."""

    # -- records --------------------------------------------------------------------------------------------------------

    def _verified(
        self,
        transactional_id: str,
        claim: Claim,
        partition: TopicPartition,
        adds: bool,
        done: Callable[[ErrorCode], None],
    ) -> None:
        """``done`` gets NONE once the partition is part of the producer's open transaction."""
        log, epoch = self.record_log(partition), self._epoch_of(partition)
        if epoch is None:
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        if is_open(log, claim):
            done(ErrorCode.NONE)
            return
        guard = guard_of(log, epoch, claim)
        state = self.metadata.get((STATES, partition_for(transactional_id, STATE_PARTITIONS)))
        target = None if state is None else self.peers.get(state.leader)
        if not isinstance(target, CoordinatingBroker):
            done(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return

        def answered(answer: Any) -> None:
            code = answer.code
            if code == ErrorCode.NONE and not is_open(log, claim):
                now = guard_of(log, -1 if (led := self._epoch_of(partition)) is None else led, claim)
                code = code if now == guard else ErrorCode.NOT_ENOUGH_REPLICAS
            done(code)

        self.call(
            target,
            lambda answer: target.add_or_check(transactional_id, claim, partition, adds, answer),
            answered,
            lambda: done(ErrorCode.COORDINATOR_NOT_AVAILABLE),
        )

    def produce_in_transaction(
        self, transactional_id: str, claim: Claim, partition: TopicPartition, sequence: int, value: str, answer: Answer
    ) -> None:
        """The answer is an error code."""
        adds, now_ms = self.transaction_version >= BUMPS_FROM, self.now_ms
        batch = encode_batch(
            [(now_ms, None, value.encode(), ())],
            producer_id=claim.producer_id,
            producer_epoch=claim.epoch,
            base_sequence=sequence,
            attributes=TRANSACTIONAL_BIT,
        )

        def done(code: ErrorCode) -> None:
            if code != ErrorCode.NONE:
                answer(code)
                return
            try:
                self._append(partition, lambda log: log.append(batch, self.now_ms, anew=adds), answer)
            except Refusal as refusal:
                answer(refusal.code)

        self._if_led(partition, answer, lambda: self._verified(transactional_id, claim, partition, adds, done))

    def _if_led(self, partition: TopicPartition, answer: Answer, action: Callable[[], None]) -> None:
        if self._epoch_of(partition) is None:
            answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            action()

    # -- offsets --------------------------------------------------------------------------------------------------------

    def commit_offsets(self, request: TxnOffsetCommitRequest, version: int, answer: Answer) -> None:
        """The answer is an error code."""

        def done(code: ErrorCode) -> None:
            if code != ErrorCode.NONE or self.offsets is None:
                answer(code or ErrorCode.NOT_COORDINATOR)
            else:
                self._commit(self.offsets, request, version, answer)

        claim, adds = offsets_claim(request, version), version >= TXN_OFFSET_COMMIT_V2_FROM
        verify = partial(self._verified, request.transactional_id, claim, (OFFSETS, 0), adds, done)
        self._if_led((OFFSETS, 0), answer, verify)

    def _commit(self, led: LedOffsets, request: TxnOffsetCommitRequest, version: int, answer: Answer) -> None:
        decision = led.shard.decide(request, Context(self.now_ms, answer, api_version=version))
        outcomes: list[ErrorCode] = []  # of the decision, then of its append

        def ended(code: ErrorCode) -> None:
            outcomes.append(code)
            if len(outcomes) == 2:
                answer(outcomes[0] or outcomes[1])

        def append(decisions: list[Decision]) -> None:
            self._append((OFFSETS, 0), lambda log: led.log.append(decisions), ended)

        def kept(decision: Decision, steps: list[Step]) -> None:
            for reply in decision.outcome.replies:
                assert isinstance(reply.response, TxnOffsetCommitResponse)
                ended(error_of(reply.response.topics[0].partitions[0].error_code))
            if not decision.records:
                ended(ErrorCode.NONE)

        drive(led.shard, decision, append, kept)

    def read_committed(self, partition: TopicPartition, offset: int, answer: Answer) -> None:
        """The answer is the next offset and the values from ``offset`` on, or an error code."""
        if self._epoch_of(partition) is None:
            answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        log = self.record_log(partition)
        try:
            data, aborted = read_committed(log, offset, READ_BYTES, at_least_one=True)
        except Refusal as refusal:
            answer(refusal.code)
            return
        headers = list(batches(data))
        next_offset = headers[-1][1].last_offset + 1 if headers else offset
        answer((next_offset, visible_values(data, headers, aborted)))


def visible_values(data: bytes, headers: Iterable[tuple[int, BatchHeader]], aborted: Collection[Aborted]) -> list[str]:
    """The records of ``data`` that a reader of committed records sees."""
    values: list[str] = []
    for at, header in headers:
        is_aborted = any(
            a.producer_id == header.producer_id and a.first_offset <= header.base_offset < a.last_offset
            for a in aborted
        )
        if not header.is_control and not is_aborted:
            values += [(value or b"").decode() for _, value, _ in decode_keys_and_values(data, at, header)]
    return values
