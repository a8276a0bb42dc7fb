"""A producer: what it must send next, given what happened (Kafka's Sender and TransactionManager, without the transaction).

A driver appends records, calls `next` until it returns no effects, carries each out and reports back. Every batch has one
end, by delivery.timeout.ms at the latest; its records are in the log in the order in which they were appended, and where the
producer is idempotent, once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from coterie.machines.backoff import Retries
from coterie.producing.accumulator import FOREVER_MS, Accumulator, BatchClosed, ProducingConfig
from coterie.producing.batch import (
    Acknowledged,
    BatchResult,
    OpenedTransaction,
    ProduceFailure,
    ProducerBatch,
    ProducerIdAndEpoch,
    TopicPartition,
    is_unsent,
)
from coterie.producing.leaders import EpochOf, LeaderOf, Leaders, RepeatedRequest
from coterie.producing.partition_queue import NO_PRODUCER, CurrentProducer, PartitionQueue
from coterie.producing.requests import (
    AddPartitions,
    BatchEnded,
    BatchRemedy,
    Effect,
    GetProducerId,
    SendProduce,
    encoded,
    produce_request,
    remedy_of,
    results_of,
)
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.produce import ProduceResponse

_UNNAMED = ProduceFailure(ErrorCode.NETWORK_EXCEPTION, "the response does not name the partition", True)
_ReadyBatch = tuple[PartitionQueue, ProducerBatch]  # a partition and the batch of it that goes next


class ProducerMachine:
    """``leader_of`` and ``epoch_of``: as `Leaders` has them. Inputs return nothing; `next` returns what follows. ``jitter``
    between -1 and 1 is the driver's random number for pauses."""

    def __init__(
        self,
        config: ProducingConfig,
        leader_of: LeaderOf,
        batch_closed: BatchClosed = lambda topic, partition: None,
        transaction: OpenedTransaction | None = None,
        epoch_of: EpochOf = lambda topic, partition: -1,
    ) -> None:
        self.config = config
        self.accumulator = Accumulator(config, batch_closed)
        self.append = self.accumulator.append  # the driver checks buffer.memory before
        self.identity = CurrentProducer()
        self._leaders, self._transaction = Leaders(leader_of, epoch_of, config.backoff), transaction
        self._requests: dict[int, tuple[int, list[ProducerBatch]]] = {}
        self._in_flight: dict[int, int] = {}  # requests by node id
        self._tokens = 0
        self._producer_id = RepeatedRequest(Retries(config.backoff, None))
        self._adding: frozenset[TopicPartition] = frozenset()
        self._effects: list[Effect] = []

    # -- inputs from the user ---------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """What was appended is sent without waiting for linger.ms."""
        self.accumulator.flush()

    def fail(
        self, failure: ProduceFailure, which: Callable[[ProducerBatch], bool] = lambda batch: True
    ) -> list[Effect]:
        """Fails every such batch, also in flight. Returns the effects: it may be `next` that fails."""
        self._fail(failure, which)
        return self._taken()

    def _fail(self, failure: ProduceFailure, which: Callable[[ProducerBatch], bool]) -> None:
        for queue in list(self.accumulator.busy.values()):
            for batch in list(queue.batches):
                if which(batch):
                    self._end(queue, batch, failure)

    # -- inputs from the driver -------------------------------------------------------------------------------------------

    def produced(self, token: int, response: ProduceResponse, now_ms: float, jitter: float) -> None:
        """The response to a request."""
        results = results_of(response)
        for batch in self._returned(token):
            result, log_start_offset = results.get(batch.partition, (_UNNAMED, -1))
            self._attempt_ended(batch, result, log_start_offset, now_ms, jitter)

    def sent(self, token: int, now_ms: float) -> None:
        """A request with acks=0 went out; no response will come."""
        for batch in self._returned(token):
            self._attempt_ended(batch, Acknowledged(), -1, now_ms, 0.0)

    def request_failed(self, token: int, failure: ProduceFailure, now_ms: float, jitter: float) -> None:
        """No response will come to a request, or it was not sent; it may have reached the broker."""
        for batch in self._returned(token):
            self._attempt_ended(batch, failure, -1, now_ms, jitter)

    def leaders_looked_up(self, errors: Mapping[str, ProduceFailure], now_ms: float, jitter: float) -> None:
        """After `LookUpLeaders`: ``leader_of`` returns what is known now. ``errors``: by topic without leaders."""
        self.accumulator.is_changed = True
        topics, is_waiting = self._leaders.looked_up(), False
        for queue in [queue for queue in self.accumulator.busy.values() if queue.partition[0] in topics]:
            if queue.batches and self._leaders.of(queue.partition) is None:
                failure = errors.get(queue.partition[0])
                self._note(queue, failure or ProduceFailure.of_code(ErrorCode.LEADER_NOT_AVAILABLE))
                is_waiting = is_waiting or bool(queue.batches)
            for batch in queue.batches:
                if now_ms < batch.retry_at_ms:
                    batch.is_leader_old = not self._leaders.have_changed(batch)
                    batch.retry_at_ms = batch.retry_at_ms if batch.is_leader_old else now_ms
        self._leaders.look_up_ended(is_waiting, now_ms, jitter)

    def identified(self, producer: ProducerIdAndEpoch, now_ms: float) -> None:
        """The producer id and epoch that `GetProducerId` requested."""
        self.accumulator.is_changed = True
        self.identity.current = producer
        self._producer_id.succeeded()

    def not_identified(self, failure: ProduceFailure, now_ms: float, jitter: float) -> None:
        """After `GetProducerId`. A failure that is not retriable fails what waits for the id."""
        self.accumulator.is_changed = True
        for queue in list(self.accumulator.busy.values()):
            if queue.batches and queue.batches[0].sequence < 0:
                self._note(queue, failure)
        self._producer_id.failed(now_ms, jitter)

    def partitions_added(self) -> None:
        """After `AddPartitions`: ``has`` of the transaction is true of them."""
        self.accumulator.is_changed = True
        self._adding = frozenset()

    def partitions_refused(self, failure: ProduceFailure, now_ms: float, jitter: float) -> None:
        """The transaction does not take the partitions that `AddPartitions` named."""
        self.accumulator.is_changed = True
        partitions, self._adding = self._adding, frozenset()
        for partition in partitions:
            queue = self.accumulator.queues[partition]
            for batch in list(queue.not_in_flight())[:1]:
                if failure.is_retriable:
                    self._attempt_failed(queue, batch, failure, -1, now_ms, jitter)
                else:
                    self._end(queue, batch, replace(failure, is_of_transaction=True))

    # -- what follows -----------------------------------------------------------------------------------------------------

    def next(self, now_ms: float) -> list[Effect]:
        """The effects that are due; each is returned once. To be called again once they are carried out, until there
        are none: what is sent depends on the leaders that `ForgetLeaders` removes. Without a change, and before the deadline,
        nothing is looked at."""
        accumulator = self.accumulator
        if not accumulator.is_changed and now_ms < accumulator.due_ms:
            return self._taken()
        if now_ms >= accumulator.due_ms:
            self._expire(now_ms)
        if self._transaction is not None and self._effects:
            return self._taken()  # a batch at its end may have failed the transaction: then nothing else is sent
        if self._leaders.stale:
            self._effects += self._leaders.forgotten()
            accumulator.is_changed = True
        elif not accumulator.busy:
            accumulator.is_changed, accumulator.due_ms = False, FOREVER_MS
        else:
            self._drain(now_ms)
            due_ms = accumulator.next_deadline_ms(now_ms)
            for repeated in (self._leaders.lookup, self._producer_id):
                if now_ms < repeated.retry_at_ms < due_ms:
                    due_ms = repeated.retry_at_ms
            accumulator.is_changed, accumulator.due_ms = bool(self._leaders.stale), due_ms
            if self._leaders.stale:
                self._effects += self._leaders.forgotten()
        return self._taken()

    def _expire(self, now_ms: float) -> None:
        for queue, batch in self.accumulator.expired(now_ms):
            if batch.is_done:
                continue  # refused in a transaction, it ended with the one before
            self._end(queue, batch, batch.last_failure or self._timed_out(queue, batch))
            self._renew_refused(queue)

    def _taken(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects

    def next_deadline_ms(self) -> float | None:
        """When to call `next` without an input; None: never."""
        deadline_ms = self.accumulator.due_ms
        return None if deadline_ms == FOREVER_MS else deadline_ms

    def requests_in_flight(self) -> dict[int, int]:
        """The node id of each by its token."""
        return {token: node_id for token, (node_id, _) in self._requests.items()}

    def _drain(self, now_ms: float) -> None:
        """One request at most for each leader, until each has as many as may be in flight."""
        if self._transaction is not None and (failure := self._transaction.failure) is not None:
            self._fail(failure, is_unsent)
        while True:
            ready, unadded = self._ready(now_ms)
            if unadded and not self._adding:
                self._adding = frozenset(unadded)
                self._effects.append(AddPartitions(self._adding))
            has_more = False
            for node_id, queues in ready.items():
                has_more = self._send(node_id, queues) or has_more
            if not has_more:
                break
        self._effects += self._leaders.look_up(now_ms)

    def _ready(self, now_ms: float) -> tuple[dict[int, list[_ReadyBatch]], list[TopicPartition]]:
        """What may be sent, by leader, and the partitions that the transaction lacks. Where a batch is due, its leader gets
        what the others have as well (RecordAccumulator.drain)."""
        by_leader: dict[int, list[_ReadyBatch]] = {}
        due: set[int] = set()
        unadded: list[TopicPartition] = []
        config, transaction = self.config, self._transaction
        window = config.max_in_flight if config.is_idempotent else 1
        for queue in self.accumulator.busy.values():
            batch = queue.next_to_send(now_ms, window)
            if batch is None:
                continue
            is_due = queue.is_due(batch, now_ms, config.linger_ms)
            leader = self._leaders.of(queue.partition)
            if batch.is_leader_old:
                batch.is_leader_old = False
                self._leaders.doubt(queue.partition[0])
            elif leader is None:
                if is_due:
                    self._leaders.miss(queue.partition[0])
            elif transaction is not None and not transaction.has(queue.partition):
                if is_due:
                    unadded.append(queue.partition)
            elif self._in_flight.get(leader, 0) < config.max_in_flight:
                by_leader.setdefault(leader, []).append((queue, batch))
                if is_due:
                    due.add(leader)
        ready: dict[int, list[_ReadyBatch]] = {}
        for leader in due:
            if batches := [each for each in by_leader[leader] if self._may_number(*each, now_ms)]:
                ready[leader] = batches
        return ready, unadded

    def _send(self, node_id: int, ready: Sequence[_ReadyBatch]) -> bool:
        """Up to max.request.size; one batch is sent whatever its size. Returns whether there may be more to send."""
        batches: list[ProducerBatch] = []
        size, has_more = 0, False
        for queue, batch in ready:
            if batch is queue.open:
                self.accumulator.close(queue)
            if self.config.is_idempotent and batch.sequence < 0:
                batch.number(queue.sequence.producer, *queue.sequence.take(len(batch.items)))
            if not batch.encoded:
                batch.encoded = encoded(batch, self.config.codec, self._transaction is not None)
            size += len(batch.encoded)
            if batches and size > self.config.max_request_size:
                has_more = True
                break
            batches.append(batch)
        for queue, batch in ready[: len(batches)]:
            has_more = has_more or len(queue.batches) > 1
            queue.sent(batch)
            batch.leader_epoch = max(batch.leader_epoch, self._leaders.epoch_of(*batch.partition))
            self.accumulator.served(queue)
        self._tokens += 1
        self._requests[self._tokens] = node_id, batches
        self._in_flight[node_id] = self._in_flight.get(node_id, 0) + 1
        name = None if self._transaction is None else self._transaction.transactional_id
        self._effects.append(SendProduce(self._tokens, node_id, produce_request(batches, self.config, name)))
        return has_more

    def _may_number(self, queue: PartitionQueue, batch: ProducerBatch, now_ms: float) -> bool:
        """Whether the batch has a number or can take the next one. Where nothing of the partition has one and nothing is in
        flight, the present identity holds from here on: the next one where a number may be missing at the broker. Where
        another partition has raised the epoch, new batches wait for that."""
        if not self.config.is_idempotent or batch.sequence >= 0:
            return True
        sequence = queue.sequence
        if batch is not queue.batches[0]:
            return sequence.producer == self.identity.current
        if self._transaction is not None:
            self.identity.current = self._transaction.producer
        elif sequence.has_gap:
            self.identity.bump(sequence.producer)
        if self.identity.current == NO_PRODUCER:
            if self._producer_id.is_due(now_ms):
                self._producer_id.is_out = True
                self._effects.append(GetProducerId())
            return False
        if sequence.producer != self.identity.current:
            assert not queue.in_flight, "numbers begin again where nothing is under way, or two batches have the same"
            sequence.begin(self.identity.current)
        return True

    # -- results ----------------------------------------------------------------------------------------------------------

    def _returned(self, token: int) -> list[ProducerBatch]:
        self.accumulator.is_changed = True
        node_id, batches = self._requests.pop(token)
        self._in_flight[node_id] -= 1
        assert self._in_flight[node_id] >= 0, "a request has one end"
        for batch in batches:
            self.accumulator.queues[batch.partition].returned(batch)
        return batches

    def _attempt_ended(
        self, batch: ProducerBatch, result: BatchResult, log_start_offset: int, now_ms: float, jitter: float
    ) -> None:
        queue = self.accumulator.queues[batch.partition]
        if isinstance(result, Acknowledged):
            self._acknowledged(queue, batch, result)
            return
        if not batch.is_done:
            if result.is_retriable:
                self._leaders.attempt_failed(batch, result)
            self._attempt_failed(queue, batch, result, log_start_offset, now_ms, jitter)
        self._renew_refused(queue)
        self.accumulator.settled(queue)

    def _attempt_failed(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        failure: ProduceFailure,
        log_start_offset: int,
        now_ms: float,
        jitter: float,
    ) -> None:
        match remedy_of(failure, batch, queue, log_start_offset, self._transaction is not None):
            case BatchRemedy.FAIL:
                self._end(queue, batch, failure)
                return
            case BatchRemedy.ACKNOWLEDGE:
                self._end(queue, batch, Acknowledged())
                return
            case BatchRemedy.SPLIT:
                queue.replace(batch, batch.split())
                return
            case BatchRemedy.KEEP_AS_REFUSED:
                batch.is_refused = True
        batch.last_failure = failure
        pause_ms = 0 if self._leaders.have_changed(batch) else self.config.backoff.pause_ms(batch.failures, jitter)
        batch.retry_at_ms = now_ms + pause_ms
        batch.failures += 1

    def _acknowledged(self, queue: PartitionQueue, batch: ProducerBatch, result: Acknowledged) -> None:
        if batch.sequence >= 0:
            for other in queue.acknowledged(batch, result.base_offset):
                self._end(queue, other, Acknowledged())
        if batch.is_done:  # it expired; this was its last attempt
            self.accumulator.settled(queue)
        else:
            self._end(queue, batch, result)

    def _renew_refused(self, queue: PartitionQueue) -> None:
        """Batches that are certainly not in the log are numbered again, under another epoch because of the gap that they leave.
        In a transaction they fail, except after UNKNOWN_PRODUCER_ID: then the numbers begin at 0."""
        refused = queue.refused()
        if not refused:
            return
        first = refused[0].last_failure
        if self._transaction is not None and first is not None and first.code != ErrorCode.UNKNOWN_PRODUCER_ID:
            for batch in refused:
                self._end(queue, batch, batch.last_failure or first)
            return
        for batch in refused:
            batch.number(NO_PRODUCER, -1, 0)
        if self._transaction is not None:
            queue.sequence.begin(NO_PRODUCER)

    def _note(self, queue: PartitionQueue, failure: ProduceFailure) -> None:
        """Of what waits: a retriable failure is kept as the cause, should the batch expire; another one fails it."""
        for batch in list(queue.not_in_flight()):
            if failure.is_retriable:
                batch.last_failure = failure
            else:
                self._end(queue, batch, failure)

    def _end(self, queue: PartitionQueue, batch: ProducerBatch, result: BatchResult) -> None:
        """The end of a batch; the driver learns of the end of the whole."""
        if batch.finish(result):
            self._effects.append(BatchEnded(batch.whole))
        self.accumulator.remove(queue, batch)

    def _timed_out(self, queue: PartitionQueue, batch: ProducerBatch) -> ProduceFailure:
        """The failure of a batch that expires without another one."""
        text = f"not acknowledged within delivery.timeout.ms={self.config.delivery_timeout_ms:g}"
        if not batch.is_in_flight and self._leaders.of(queue.partition) is None:
            return ProduceFailure.of_code(ErrorCode.LEADER_NOT_AVAILABLE, f"topic {batch.partition[0]}; {text}")
        return ProduceFailure.of_code(ErrorCode.REQUEST_TIMED_OUT, text)
