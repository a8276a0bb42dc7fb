"""The requests of transactional producers, and WriteTxnMarkers: their responses come once all replicas in sync have what was
decided, of a broker alone within the turn."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import Any

from coterie.broker.groups.group_coordinator import GroupCoordinator
from coterie.broker.process.scheduling import Clock
from coterie.broker.requests.pending import Pending
from coterie.broker.requests.turns import Work, finish
from coterie.broker.storage.replicas import Decided, ReplicaEffects
from coterie.broker.storage.topic import OFFSETS_TOPIC, Partition, code_of
from coterie.broker.storage.topics import Topics
from coterie.broker.transactions import added_partitions
from coterie.broker.transactions.transaction_coordinator import TransactionCoordinator
from coterie.coordinator.partitioning import partition_for
from coterie.coordinator.transactions.machine import (
    AddToTransaction,
    EndTransaction,
    InitProducer,
    TransactionResult,
)
from coterie.coordinator.transactions.state import BUMPS_FROM, TopicPartition
from coterie.coordinator.transactions.steps import (
    ADD_PARTITIONS_V2_FROM,
    END_TXN_V2_FROM,
    FENCED_FROM,
    Claim,
    claimed_producer,
    init_error,
)
from coterie.records.markers import end_of_transaction
from coterie.replication.states import ReplicaError
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.transactions.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from coterie.wire.messages.transactions.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTransaction,
    transactions_of,
    transactions_response,
)
from coterie.wire.messages.transactions.end_txn import EndTxnRequest, EndTxnResponse
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from coterie.wire.messages.transactions.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

Codes = Mapping[TopicPartition, ErrorCode]


class TransactionRequests:
    """Each method returns the response, which comes later."""

    def __init__(
        self,
        coordinator: TransactionCoordinator,
        topics: Topics,
        groups: GroupCoordinator,
        effects: ReplicaEffects,
        clock: Clock,
    ) -> None:
        self.coordinator = coordinator
        self._topics, self._groups, self._effects, self._clock = topics, groups, effects, clock

    # -- producers ------------------------------------------------------------------------------------------------------

    def init_producer_id(self, request: InitProducerIdRequest, version: int) -> Pending:
        """InitProducerIdResponse; without transactional id a new producer id and epoch 0."""
        pending = Pending()

        def responded(result: TransactionResult) -> None:
            code = init_error(result.code, version)
            pending.respond(
                InitProducerIdResponse(error_code=code, producer_id=result.producer_id, producer_epoch=result.epoch)
            )

        try:
            claimed = claimed_producer(request)
            if request.transactional_id is None:
                responded(TransactionResult(None, producer_id=self.coordinator.new_producer_id(), epoch=0))
                return pending
        except Refusal as refusal:
            responded(TransactionResult(None, refusal.code))
            return pending
        command = InitProducer(request.transactional_id, request.transaction_timeout_ms, claimed)
        self.coordinator.submit(command, responded)
        return pending

    def adding_partitions(self, request: AddPartitionsToTxnRequest, version: int) -> Work:
        """Carries out AddPartitionsToTxn, a transaction at each step; returns its response."""
        pending, transactions = Pending(), transactions_of(request, version)
        results: dict[int, AddPartitionsToTxnResult] = {}

        def added(number: int, codes: Codes) -> None:
            one = transactions[number]
            results[number] = AddPartitionsToTxnResult(one.transactional_id, added_partitions.rows(one, codes))
            if len(results) == len(transactions):
                pending.respond(transactions_response(version, [results[n] for n in range(len(transactions))]))

        for number, one in enumerate(transactions):
            self._add(one, version, partial(added, number))
            yield
        if not transactions:
            pending.respond(transactions_response(version, []))
        return pending

    def _add(self, requested: AddPartitionsToTxnTransaction, version: int, done: Callable[[Codes], None]) -> None:
        from_broker = version >= ADD_PARTITIONS_V2_FROM
        wanted = added_partitions.partitions_of(requested)
        refused = added_partitions.refused_partitions(self._topics, wanted, from_broker=from_broker)
        if refused is not None:
            done(refused)
            return
        name, claim = requested.transactional_id, Claim(requested.producer_id, requested.producer_epoch)
        if requested.verify_only:
            done({partition: self._verified(name, claim, partition) for partition in wanted})
            return
        claim = Claim(claim.producer_id, claim.epoch, version >= FENCED_FROM)
        command = AddToTransaction(name, claim, frozenset(wanted), BUMPS_FROM if from_broker else 0)
        self.coordinator.submit(command, lambda result: done(dict.fromkeys(wanted, result.code)))

    def _verified(self, transactional_id: str, claim: Claim, partition: TopicPartition) -> ErrorCode:
        abortable = Claim(claim.producer_id, claim.epoch, returns_abortable=True)
        try:
            self.coordinator.check_ongoing(transactional_id, abortable, partition)
        except Refusal as refusal:
            return refusal.code
        return ErrorCode.NONE

    def add_offsets(self, request: AddOffsetsToTxnRequest, version: int) -> Pending:
        """Carries out AddOffsetsToTxn; returns its response."""
        pending = Pending()
        try:
            topic = added_partitions.known_offsets_topic(self._topics)
            if topic is None:
                raise Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no coordinator of the group is there yet")
        except Refusal as refusal:
            pending.respond(AddOffsetsToTxnResponse(error_code=refusal.code))
            return pending
        partition = OFFSETS_TOPIC, partition_for(request.group_id, len(topic.partitions))
        command = AddToTransaction(request.transactional_id, _claim(request, version), frozenset({partition}))
        self.coordinator.submit(
            command, lambda result: pending.respond(AddOffsetsToTxnResponse(error_code=result.code))
        )
        return pending

    def end(self, request: EndTxnRequest, version: int) -> Pending:
        """EndTxnResponse, once the decision is kept; the markers follow."""
        pending, bumps_epoch = Pending(), version >= END_TXN_V2_FROM

        def responded(result: TransactionResult) -> None:
            response = EndTxnResponse(error_code=result.code)
            if bumps_epoch and result.code == ErrorCode.NONE:
                response.producer_id, response.producer_epoch = result.producer_id, result.epoch
            pending.respond(response)

        claim = _claim(request, version)
        self.coordinator.submit(
            EndTransaction(request.transactional_id, claim, request.committed, bumps_epoch), responded
        )
        return pending

    # -- markers --------------------------------------------------------------------------------------------------------

    def writing_markers(self, request: WriteTxnMarkersRequest) -> Work:
        """Writes the markers of a coordinator on this broker or another, one at each step; returns the response, which comes
        once each is on all replicas in sync, or refused."""
        wait = _MarkerWait(self._write_marker)
        for marker in request.markers:
            yield from wait.write_all(marker)
        return wait.end()

    def _write_marker(self, marker: WritableTxnMarker, partition: TopicPartition, decided: Decided) -> None:
        """Raises Refusal, OSError."""
        if marker.producer_id < 0 or marker.producer_epoch < 0:
            raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "a marker needs a producer")
        written = self._topics.partition(*partition)
        written.check_leader()
        if partition[0] == OFFSETS_TOPIC:
            self._groups.end_transaction(partition[1], marker, decided)
        else:
            self._append_marker(marker, written, decided)

    def _append_marker(self, marker: WritableTxnMarker, partition: Partition, decided: Decided) -> None:
        now_ms = self._clock.now_ms()
        ended = (marker.producer_id, marker.producer_epoch, marker.transaction_result, marker.coordinator_epoch)
        batch, bumps_epoch = end_of_transaction(*ended, now_ms), marker.transaction_version >= BUMPS_FROM
        self._effects.append_step(
            partition, lambda log: log.append_own(batch, now_ms, bumps_epoch=bumps_epoch), now_ms, decided
        )


def _claim(request: AddOffsetsToTxnRequest | EndTxnRequest, version: int) -> Claim:
    return Claim(request.producer_id, request.producer_epoch, version >= FENCED_FROM)


class OwnMarkers:
    """A broker alone writes the markers of its transactions itself, before `send` returns."""

    def __init__(self, requests: TransactionRequests) -> None:
        self._requests = requests

    def send(
        self, broker: int, message: Message, response: type[Message], version: int, responded: Callable[[Any], None]
    ) -> None:
        """As `MarkerPeers.send`."""
        assert isinstance(message, WriteTxnMarkersRequest)
        written = finish(self._requests.writing_markers(message))
        assert isinstance(written, Pending), "the work ends with a response that may wait"
        assert written.response is not None, "a broker alone waits for no replica"
        responded(written.response)

    def view_changed(self) -> None: ...


WriteMarker = Callable[[WritableTxnMarker, TopicPartition, Decided], None]


class _MarkerWait:
    """The response to WriteTxnMarkers, with a row for each marker once its replicas have it."""

    def __init__(self, write: WriteMarker) -> None:
        self._write = write
        self._pending, self._response = Pending(), WriteTxnMarkersResponse()
        self._left = 1  # until `end`

    def write_all(self, marker: WritableTxnMarker) -> Generator[None, None, None]:
        """Writes the marker into each of its partitions."""
        topics: list[WritableTxnMarkerTopicResult] = []
        for topic in marker.topics:
            rows = [WritableTxnMarkerPartitionResult(index, ErrorCode.NONE) for index in topic.partition_indexes]
            topics.append(WritableTxnMarkerTopicResult(topic.name, rows))
            for row in rows:
                self._left += 1
                self._write_one(marker, topic.name, row)
                yield
        if topics:
            self._response.markers.append(WritableTxnMarkerResult(marker.producer_id, topics))

    def end(self) -> Pending:
        """All are written here."""
        self._done()
        return self._pending

    def _write_one(self, marker: WritableTxnMarker, topic: str, row: WritableTxnMarkerPartitionResult) -> None:
        waits = True

        def end(code: ErrorCode) -> None:
            nonlocal waits
            row.error_code = code or row.error_code
            if waits:
                waits = False
                self._done()

        try:
            self._write(marker, (topic, row.partition_index), partial(_decided, end))
        except Refusal as refusal:
            end(refusal.code)
        except OSError:
            end(ErrorCode.KAFKA_STORAGE_ERROR)

    def _done(self) -> None:
        self._left -= 1
        if not self._left:
            self._pending.respond(self._response)


def _decided(end: Callable[[ErrorCode], None], error: ReplicaError | None) -> None:
    end(ErrorCode.NONE if error is None else code_of(error))
