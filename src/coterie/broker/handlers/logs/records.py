"""Produce: records of a client to the log, and the response once what it waits for is done: fsyncs, and with acks=all the
replicas in sync (Kafka's DelayedProduce)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from coterie.broker.handlers.cluster import name_leaders
from coterie.broker.handlers.services import Handler, RecordServices
from coterie.broker.process.scheduling import Scheduler, Timer
from coterie.broker.requests.calls import Call, CannotRespond
from coterie.broker.requests.pending import NO_RESPONSE, Pending
from coterie.broker.requests.turns import Work
from coterie.broker.storage.flusher import Flusher
from coterie.broker.storage.replicas import AppendToken
from coterie.broker.storage.topic import INTERNAL_TOPICS, JOURNAL_CLIENT_ID, Partition, code_of
from coterie.coordinator.journal.line import TOPIC as JOURNAL_TOPIC
from coterie.coordinator.transactions.steps import PRODUCE_V2_FROM
from coterie.log.aside import Aside, resumable
from coterie.log.log_state import Appended
from coterie.log.partition_log import PartitionLog
from coterie.log.validation import RecordsRefused, produced_batch
from coterie.records.batch import BatchHeader, begins_transactional, of_unknown_format
from coterie.replication.states import ReplicaError
from coterie.wire import topic_names
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal, error_of
from coterie.wire.messages.logs.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
    produce_error,
)

if TYPE_CHECKING:
    from coterie.broker.transactions.transaction_verification import Checks

NO_CHECKS: Checks = MappingProxyType({})
LEADERS_FROM = 10  # of Produce
# Errors of a Produce after which Kafka does not return the log's start offset.
_WITHOUT_START_OFFSET = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
    }
)


def handle_produce(broker: RecordServices, request: ProduceRequest, call: Call) -> Message | Pending | None:
    """None with acks=0; Pending where a sync, replicas or the coordinator of a transaction are waited for. Raises CannotRespond
    for a failure with acks=0."""
    if request.transactional_id is None:
        return _carry_out(broker, request, call, NO_CHECKS)
    return broker.verified_requests.produce(
        request, call.api_version, lambda checks: _carry_out(broker, request, call, checks)
    )


def _carry_out(broker: RecordServices, request: ProduceRequest, call: Call, checks: Checks) -> Message | Pending | None:
    """None with acks=0, or NO_RESPONSE later."""
    partitions = sum([len(topic.partition_data) for topic in request.topic_data])
    result = broker.turns.run_many(partitions, _append_all(broker, request, call, checks))
    return None if result is NO_RESPONSE else result


def _append_all(broker: RecordServices, request: ProduceRequest, call: Call, checks: Checks) -> Work:
    produce = _Produce(broker, request, call, checks)
    response = ProduceResponse()
    whole = _refusal_of_all(request)
    for topic in request.topic_data:
        topic_response = TopicProduceResponse(topic.name, topic.topic_id)
        for data in topic.partition_data:
            topic_response.partition_responses.append(
                (yield from resumable(partial(produce.append, topic, data)))
                if whole is None
                else PartitionProduceResponse(data.index, whole.code, error_message=whole.message)
            )
            yield
        response.responses.append(topic_response)
    if request.acks == 0:
        for log in produce.wait.to_sync if produce.wait is not None else ():
            broker.flusher.after_sync(log)
        _check_unacknowledged(response)
        return NO_RESPONSE
    if produce.wait is None:
        return _with_leaders(broker, call, response)
    # Nothing that waits refers to the request: its records may be gone.
    complete = partial(_with_leaders, broker, call)
    return produce.wait.begin(response, broker.flusher, broker.scheduler, request.timeout_ms, complete)


def _refusal_of_all(request: ProduceRequest) -> Refusal | None:
    """The refusal of all partitions, by the first batch of each in the order of the request
    (RequestUtils.hasTransactionalRecords)."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records or b""
            if of_unknown_format(records):
                return Refusal(ErrorCode.CORRUPT_MESSAGE, "records of an unknown format")
            if begins_transactional(records):
                refused = request.transactional_id is None
                return Refusal(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED) if refused else None
    return None


def _check_unacknowledged(response: ProduceResponse) -> None:
    """With acks=0 a failure is reported by closing the connection. Raises CannotRespond."""
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                name = error_of(partition.error_code).name
                raise CannotRespond(f"a Produce with acks=0 failed for {topic.name}-{partition.index}: {name}")


def _with_leaders(broker: RecordServices, call: Call, response: ProduceResponse) -> ProduceResponse:
    """The response with the leaders of the partitions that this broker does not lead (KIP-951)."""
    if call.api_version >= LEADERS_FROM:
        response.node_endpoints = name_leaders(broker, call, _not_led(broker, call, response))
    return response


def _not_led(
    broker: RecordServices, call: Call, response: ProduceResponse
) -> Iterator[tuple[Partition, PartitionProduceResponse]]:
    topics = broker.topics
    for topic in response.responses:
        for data in topic.partition_responses:
            if data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                name = topics.name_of(topic.name, topic.topic_id, call.api_version > topic_names.PRODUCE)
                known = None if name is None else topics.by_name.get(name)
                if known is not None and data.index < len(known.partitions):
                    yield known.partitions[data.index], data


@dataclass(slots=True)
class _Produce:
    """A Produce request that is carried out. ``checks``: in a cluster, by partition, what was learnt of transactions; ``wait``:
    what comes before the response, if anything."""

    broker: RecordServices
    request: ProduceRequest
    call: Call
    checks: Checks
    wait: _ProduceWait | None = None

    def append(self, topic: TopicProduceData, data: PartitionProduceData, aside: Aside) -> PartitionProduceResponse:
        """Appends the one batch of a partition."""
        log: PartitionLog | None = None
        try:
            partition, produced = self._checked(topic, data, aside)
            if produced is None:
                return PartitionProduceResponse(data.index, ErrorCode.NONE)
            log = partition.log
            batch, header = produced
            must_begin = self.call.api_version >= PRODUCE_V2_FROM and header.is_of_a_transaction
            if partition.replica is not None:
                return self._append_for_replicas(partition, batch, header, aside, must_begin=must_begin)
            appended = log.append(batch, self.broker.clock.now_ms(), header, must_begin=must_begin, aside=aside)
        except Refusal as refusal:
            return _refused(data.index, refusal, log)
        except OSError as error:
            self.broker.log_lines.warning("%s-%d cannot be written: %s", topic.name, data.index, error)
            code = produce_error(self.call.api_version, ErrorCode.KAFKA_STORAGE_ERROR)
            return PartitionProduceResponse(data.index, code)
        return self._appended(partition, appended)

    def _appended(self, partition: Partition, appended: Appended) -> PartitionProduceResponse:
        partition.appended()
        log = partition.log
        # The first batch of a repeated one may still be on its way to the disk.
        if partition.sync_due() or (appended.duplicate and self.broker.flusher.is_syncing(log)):
            self._waiting().to_sync.append(log)
        return PartitionProduceResponse(
            partition.index, ErrorCode.NONE, appended.base_offset, appended.log_append_time_ms, log.log_start_offset
        )

    def _append_for_replicas(
        self, partition: Partition, batch: bytes, header: BatchHeader, aside: Aside, *, must_begin: bool
    ) -> PartitionProduceResponse:
        """With acks=all the response waits for the replicas in sync. Raises Refusal, OSError."""
        token, now_ms, acks_all = AppendToken(), self.broker.clock.now_ms(), self.request.acks == -1

        check = self.checks.get((partition.topic, partition.index)) if header.is_of_a_transaction else None

        def work(log: PartitionLog) -> Appended:
            if check is not None:
                check.check_log()
            return log.append(batch, now_ms, header, must_begin=must_begin, aside=aside)

        appended, effects = partition.append(work, token, now_ms, acks_all=acks_all)
        response = self._appended(partition, appended)
        if acks_all:
            self._waiting().expect(token, response)
        self.broker.replica_effects.appended(partition, effects)
        return response

    def _waiting(self) -> _ProduceWait:
        if self.wait is None:
            self.wait = _ProduceWait()
        return self.wait

    def _checked(
        self, topic: TopicProduceData, data: PartitionProduceData, aside: Aside
    ) -> tuple[Partition, tuple[bytes, BatchHeader] | None]:
        """The partition and the batch for it with its header, None where the request has none. Raises Refusal."""
        topics, request = self.broker.topics, self.request
        name = topics.name_of(topic.name, topic.topic_id, self.call.api_version > topic_names.PRODUCE)
        if name is None:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = topics.partition(name, data.index)
        produced = produced_batch(data.records or b"", self.call.api_version, aside)
        if produced is not None and produced[1].is_of_a_transaction:
            self._check_transaction(produced[1], partition)
        if request.acks not in (-1, 0, 1):
            raise Refusal(ErrorCode.INVALID_REQUIRED_ACKS)
        if name in INTERNAL_TOPICS and not self._is_journal(partition):
            raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, "internal topics are written by the broker only")
        if partition.in_cluster:
            partition.check_leader()
        return partition, produced

    def _is_journal(self, partition: Partition) -> bool:
        """Whether another broker of the cluster writes its groups' journal."""
        return partition.in_cluster and partition.topic == JOURNAL_TOPIC and self.call.client_id == JOURNAL_CLIENT_ID

    def _check_transaction(self, header: BatchHeader, partition: Partition) -> None:
        """Transactional records need an open transaction that has their partition. Raises Refusal."""
        check = self.checks.get((partition.topic, partition.index))
        if check is None:
            raise Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        check.check_coordinator()


def _refused(index: int, refusal: Refusal, log: PartitionLog | None) -> PartitionProduceResponse:
    """As in Kafka: a message only where it is not the error's own, and the log's start only after a refusal by the log."""
    response = PartitionProduceResponse(index, refusal.code)
    if isinstance(refusal, RecordsRefused):
        response.record_errors = [BatchIndexAndErrorMessage(e.batch_index, e.message) for e in refusal.errors]
    if isinstance(refusal, RecordsRefused) or refusal.code == ErrorCode.INVALID_TXN_STATE:
        response.error_message = refusal.message
    if log is not None and refusal.code not in _WITHOUT_START_OFFSET:
        response.log_start_offset = log.log_start_offset
    return response


class _ProduceWait:
    """Collects what one request waits for while it is carried out; `begin` then gives the response that comes later."""

    def __init__(self) -> None:
        self.to_sync: list[PartitionLog] = []
        self._unacknowledged: dict[AppendToken, PartitionProduceResponse] = {}
        self._unsynced = 0
        self._response: ProduceResponse | None = None
        self._pending = Pending()
        self._complete: Callable[[ProduceResponse], ProduceResponse]
        self._timer: Timer | None = None

    def expect(self, token: AppendToken, response: PartitionProduceResponse) -> None:
        """The replicas in sync are to have the append that has that response."""
        self._unacknowledged[token] = response
        token.decided = partial(self._acknowledged, token)

    def begin(
        self,
        response: ProduceResponse,
        flusher: Flusher,
        scheduler: Scheduler,
        timeout_ms: int,
        complete: Callable[[ProduceResponse], ProduceResponse],
    ) -> Pending:
        """The response, once all is there, passed through ``complete``; appends that are not acknowledged by then are
        REQUEST_TIMED_OUT."""
        self._response, self._unsynced, self._complete = response, len(self.to_sync), complete
        if self._unacknowledged:
            self._timer = scheduler.call_later(max(timeout_ms, 0) / 1000, self._time_out)
            self._pending.cancel = self._timer.cancel
        for log in self.to_sync:
            flusher.after_sync(log, self._synced)
        self._respond_if_done()
        return self._pending

    def _synced(self) -> None:
        self._unsynced -= 1
        self._respond_if_done()

    def _acknowledged(self, token: AppendToken, error: ReplicaError | None) -> None:
        response = self._unacknowledged.pop(token)
        if error is not None:
            response.error_code = code_of(error)
        self._respond_if_done()

    def _time_out(self) -> None:
        for token, response in self._unacknowledged.items():
            token.decided = None
            response.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._unacknowledged.clear()
        self._respond_if_done()

    def _respond_if_done(self) -> None:
        """Not before `begin`, and once: an append may be decided at once, and a sync that is not needed as well."""
        if self._response is None or self._pending.response is not None:
            return
        if not self._unsynced and not self._unacknowledged:
            if self._timer is not None:
                self._timer.cancel()
            self._pending.respond(self._complete(self._response))


HANDLERS: dict[int, Handler] = {0: handle_produce}
