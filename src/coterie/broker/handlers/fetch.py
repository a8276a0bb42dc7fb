"""Fetch: records now, or a wait for min.bytes of them. Fetch sessions are declined (session id 0), as Kafka may."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.broker.handlers.records import TOPIC_IDS_FROM, check_leader_epoch
from coterie.broker.pending import Pending
from coterie.broker.server import Call
from coterie.broker.topics import Partition
from coterie.records.batch import batches
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

if TYPE_CHECKING:
    from coterie.broker.broker import Broker


def handle_fetch(broker: Broker, request: FetchRequest, call: Call) -> FetchResponse | Pending:
    broker.fetched(call)
    if request.session_id != 0:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    response, size, failed = _read(broker, request, call)
    if size >= request.min_bytes or failed or request.max_wait_ms <= 0 or not request.topics:
        return response
    return _Wait(broker, request, call).pending


class _Wait:
    """A fetch that waits: looked at anew whenever something is appended, answered at the latest after max_wait_ms."""

    def __init__(self, broker: Broker, request: FetchRequest, call: Call) -> None:
        self._broker, self._request, self._call = broker, request, call
        self.pending = Pending()
        self._partitions = list(_partitions(broker, request, call))
        for partition in self._partitions:
            partition.watchers.add(self._look)
        self._timer = broker.loop.call_later(request.max_wait_ms / 1000, self._finish)

    def _look(self) -> None:
        response, size, failed = _read(self._broker, self._request, self._call)
        if size >= self._request.min_bytes or failed:
            self._done(response)

    def _finish(self) -> None:
        self._done(_read(self._broker, self._request, self._call)[0])

    def _done(self, response: FetchResponse) -> None:
        self._timer.cancel()
        for partition in self._partitions:
            partition.watchers.discard(self._look)
        self.pending.answer(response)


def _partitions(broker: Broker, request: FetchRequest, call: Call) -> list[Partition]:
    found = []
    for topic in request.topics:
        name = broker.topics.name_of(topic.topic, topic.topic_id, call.api_version >= TOPIC_IDS_FROM)
        for asked in topic.partitions:
            try:
                found.append(broker.topics.partition(name or "", asked.partition))
            except Refusal:
                continue
    return found


def _read(broker: Broker, request: FetchRequest, call: Call) -> tuple[FetchResponse, int, bool]:
    """The answer as of now, its records' size in bytes, and whether a partition failed."""
    response, size, failed = FetchResponse(), 0, False
    left = min(request.max_bytes, broker.settings["fetch.max.bytes"])
    for topic in request.topics:
        answered = FetchableTopicResponse(topic.topic, topic.topic_id)
        for asked in topic.partitions:
            data = PartitionData(asked.partition, aborted_transactions=[] if request.isolation_level else None)
            try:
                data.records = _read_partition(broker, topic, asked, data, call, left, first=size == 0)
                if request.isolation_level:
                    _only_decided(broker, topic, asked, data, call)
                size += len(data.records)
                left -= len(data.records)
            except Refusal as refusal:
                data.error_code, data.records, failed = refusal.code, b"", True
            answered.partitions.append(data)
        response.responses.append(answered)
    return response, size, failed


def _read_partition(
    broker: Broker, topic: FetchTopic, asked: FetchPartition, data: PartitionData, call: Call, left: int, *, first: bool
) -> bytes:
    name = broker.topics.name_of(topic.topic, topic.topic_id, call.api_version >= TOPIC_IDS_FROM)
    if name is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID)
    log = broker.topics.partition(name, asked.partition).log
    check_leader_epoch(asked.current_leader_epoch)
    data.high_watermark, data.last_stable_offset = log.end_offset, log.last_stable_offset
    data.log_start_offset = log.log_start_offset
    # The first partition's first batch comes whole whatever its size, so that a consumer is never stuck.
    return log.read(asked.fetch_offset, min(asked.partition_max_bytes, left), at_least_one=first)


def _only_decided(broker: Broker, topic: FetchTopic, asked: FetchPartition, data: PartitionData, call: Call) -> None:
    """read_committed: nothing from the first open transaction on, and which of the rest were aborted."""
    records, stable = data.records or b"", data.last_stable_offset
    upper = asked.fetch_offset
    for position, header in batches(records):
        if header.base_offset >= stable:
            data.records = records[:position]
            break
        upper = header.last_offset + 1
    name = broker.topics.name_of(topic.topic, topic.topic_id, call.api_version >= TOPIC_IDS_FROM) or ""
    transactions = broker.topics.partition(name, asked.partition).log.transactions
    aborted = transactions.aborted_between(asked.fetch_offset, upper)
    data.aborted_transactions = [AbortedTransaction(a.producer_id, a.first_offset) for a in aborted]
