"""DeleteRecords. In a cluster its response is sent once the logs of all live replicas begin there (Kafka's
DelayedDeleteRecords)."""

from __future__ import annotations

from collections.abc import Callable

from coterie.broker.handlers.services import Handler, RecordServices
from coterie.broker.process.scheduling import Timer
from coterie.broker.requests.calls import Call
from coterie.broker.requests.pending import Pending
from coterie.broker.requests.turns import Work
from coterie.broker.storage.topic import INTERNAL_TOPICS, code_of
from coterie.log.retention import delete_records
from coterie.replication.states import ReplicaRefusal, TopicPartition
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.logs.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

TO_HIGH_WATERMARK = -1


def handle_delete_records(broker: RecordServices, request: DeleteRecordsRequest, call: Call) -> Message | Pending:
    """Moves the start of logs, and writes it down before the response. Not in an internal topic:
    INVALID_TOPIC_EXCEPTION."""
    partitions = sum(len(topic.partitions) for topic in request.topics)
    return broker.turns.run_many(partitions, _delete_records(broker, request))


def _delete_records(broker: RecordServices, request: DeleteRecordsRequest) -> Work:
    response, wait = DeleteRecordsResponse(), _LowWatermarkWait(broker)
    for topic in request.topics:
        topic_response = DeleteRecordsTopicResult(topic.name)
        for requested in topic.partitions:
            result = DeleteRecordsPartitionResult(requested.partition_index, -1)
            try:
                _delete(broker, topic.name, requested, result, wait)
            except Refusal as refusal:
                result.error_code = refusal.code
            except OSError as error:
                broker.log_lines.warning(
                    "%s-%d: segments cannot be deleted: %s", topic.name, requested.partition_index, error
                )
                result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            topic_response.partitions.append(result)
            yield
        response.topics.append(topic_response)
    try:
        broker.topics.save_start_offsets()
    except OSError as error:
        broker.log_lines.warning("the start offsets of logs cannot be written: %s", error)
        for topic_response in response.topics:
            for result in topic_response.partitions:
                result.error_code = result.error_code or ErrorCode.KAFKA_STORAGE_ERROR
        return response
    return wait.begin(response, request.timeout_ms) if wait else response


def _delete(
    broker: RecordServices,
    topic_name: str,
    requested: DeleteRecordsPartition,
    result: DeleteRecordsPartitionResult,
    wait: _LowWatermarkWait,
) -> None:
    """At the leader. Raises Refusal, OSError."""
    if topic_name in INTERNAL_TOPICS:
        raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION)
    partition = broker.topics.partition(topic_name, requested.partition_index)
    partition.check_leader()
    log = partition.log
    required = log.high_watermark if requested.offset == TO_HIGH_WATERMARK else requested.offset
    result.low_watermark = delete_records(log, requested.offset)
    if partition.replica is not None:
        wait.expect((partition.topic, partition.index), required, result)


class _LowWatermarkWait:
    """The partitions whose followers still have deleted records."""

    def __init__(self, broker: RecordServices) -> None:
        self._broker = broker
        self._waiting: dict[TopicPartition, tuple[int, DeleteRecordsPartitionResult]] = {}
        self._watching: dict[TopicPartition, Callable[[], None]] = {}
        self._pending = Pending()
        self._timer: Timer | None = None
        self._response: DeleteRecordsResponse | None = None

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def expect(self, partition: TopicPartition, required: int, result: DeleteRecordsPartitionResult) -> None:
        """The result is to have a low watermark of ``required``, if any."""
        self._waiting[partition] = required, result
        self._look(partition)

    def _look(self, partition: TopicPartition) -> None:
        assert self._broker.member is not None, "a partition with replicas, and no cluster"
        required, result = self._waiting[partition]
        try:
            result.low_watermark = self._broker.member.low_watermark(partition)
        except ReplicaRefusal as refusal:
            result.error_code = code_of(refusal.error)
        if result.error_code or result.low_watermark >= required:
            del self._waiting[partition]

    def begin(self, response: DeleteRecordsResponse, timeout_ms: int) -> Pending:
        """The response, once all is there; REQUEST_TIMED_OUT for partitions that are not by then."""
        assert self._broker.member is not None
        self._response, manager = response, self._broker.member.manager
        for partition in self._waiting:
            watcher = self._watching[partition] = self._watcher(partition)
            manager.low_watermark_watchers.setdefault(partition, {})[watcher] = None
        self._timer = self._broker.scheduler.call_later(max(timeout_ms, 0) / 1000, self._time_out)
        self._pending.cancel = self._stop
        for partition in list(self._waiting):
            manager.notify(partition)  # followers that wait for records learn of the log's start
        return self._pending

    def _watcher(self, partition: TopicPartition) -> Callable[[], None]:
        def changed() -> None:
            if partition in self._waiting:
                self._look(partition)
                if not self._waiting:
                    self._respond()

        return changed

    def _time_out(self) -> None:
        for _, result in self._waiting.values():
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._waiting.clear()
        self._respond()

    def _respond(self) -> None:
        assert self._response is not None
        self._stop()
        self._pending.respond(self._response)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._broker.member is not None:
            for partition, watcher in self._watching.items():
                watchers = self._broker.member.manager.low_watermark_watchers.get(partition, {})
                watchers.pop(watcher, None)
                if not watchers:
                    self._broker.member.manager.low_watermark_watchers.pop(partition, None)


HANDLERS: dict[int, Handler] = {21: handle_delete_records}
