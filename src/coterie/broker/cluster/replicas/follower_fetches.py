"""Followers' fetches and look-ups of epochs at their leader. A fetch waits for records as a consumer's does, up to the log's
end (Kafka's DelayedFetch of a follower)."""

from __future__ import annotations

from collections.abc import Iterator

from coterie.broker.cluster.cluster_view import ClusterView
from coterie.broker.cluster.replicas.fetch_requests import EARLIEST
from coterie.broker.cluster.replicas.replica_manager import ReplicaManager
from coterie.broker.process.scheduling import Scheduler
from coterie.broker.requests.pending import Pending
from coterie.replication.states import EpochLookup, ReplicaError, ReplicaFetch, ReplicaRefusal, TopicPartition
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from coterie.wire.messages.logs.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from coterie.wire.messages.logs.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartitionResult,
    OffsetForLeaderTopicResult,
)


class FollowerFetches:
    """Full requests alone: a follower that wants a session gets none (KIP-227), and goes on without."""

    def __init__(self, manager: ReplicaManager, view: ClusterView, scheduler: Scheduler) -> None:
        self._manager, self._view, self._scheduler = manager, view, scheduler
        self._sent: dict[tuple[int, TopicPartition], tuple[int, int]] = {}  # watermarks by follower

    def fetch(self, request: FetchRequest) -> FetchResponse | Pending:
        """``request`` has the id of a replica."""
        response, enough = self._read(request)
        if enough or request.max_wait_ms <= 0:
            return self._recorded(request, response)
        return _FollowerWait(self, request).pending

    def _read(self, request: FetchRequest) -> tuple[FetchResponse, bool]:
        """The response, and whether it is one already: min.bytes, an error, or a high watermark that is news (KIP-392), or a
        start of the log."""
        left, size, is_news = request.max_bytes, 0, False
        response = FetchResponse()
        for topic in request.topics:
            rows = []
            for wanted in topic.partitions:
                data = self._read_partition(request.replica_id, (topic.topic, wanted.partition), wanted, left)
                rows.append(data)
                read = len(data.records or b"")
                size, left = size + read, max(left - read, 0)
                watermarks = _watermarks(data)
                sent = self._sent.get((request.replica_id, (topic.topic, wanted.partition)), watermarks)
                is_news = is_news or data.error_code != ErrorCode.NONE or sent != watermarks
            response.responses.append(FetchableTopicResponse(topic.topic, partitions=rows))
        return response, is_news or size >= request.min_bytes or not response.responses

    def _read_partition(
        self, replica_id: int, partition: TopicPartition, wanted: FetchPartition, left: int
    ) -> PartitionData:
        epoch, offset = wanted.current_leader_epoch, wanted.fetch_offset
        limit = min(wanted.partition_max_bytes, left)
        try:
            result = self._manager.fetch(
                partition, ReplicaFetch(replica_id, epoch, offset, wanted.log_start_offset, limit)
            )
        except ReplicaRefusal as refusal:
            code = self._code_of(refusal, partition)
            return PartitionData(wanted.partition, code, aborted_transactions=None, records=b"")
        watermarks = result.high_watermark, result.high_watermark, result.start_offset
        data = PartitionData(wanted.partition, ErrorCode.NONE, *watermarks, aborted_transactions=None)
        data.records = b"".join(result.batches)
        return data

    def _code_of(self, refusal: ReplicaRefusal, partition: TopicPartition) -> int:
        """A partition that the cluster does not have has no leader to be found."""
        if refusal.error is ReplicaError.NOT_LEADER_OR_FOLLOWER and partition not in self._view.states:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return refusal.error.value

    def _recorded(self, request: FetchRequest, response: FetchResponse) -> FetchResponse:
        for topic in response.responses:
            for data in topic.partitions:
                if data.error_code == ErrorCode.NONE:
                    self._sent[request.replica_id, (topic.topic, data.partition_index)] = _watermarks(data)
        return response

    def end_of_epochs(self, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        """``request`` has the id of a replica."""
        response = OffsetForLeaderEpochResponse()
        for topic in request.topics:
            rows = []
            for wanted in topic.partitions:
                row = OffsetForLeaderPartitionResult(ErrorCode.NONE, wanted.partition)
                lookup = EpochLookup(wanted.current_leader_epoch, wanted.leader_epoch)
                partition = topic.topic, wanted.partition
                try:
                    end = self._manager.end_of_epoch(partition, lookup)
                    row.leader_epoch, row.end_offset = end.epoch, end.end_offset
                except ReplicaRefusal as refusal:
                    row.error_code = self._code_of(refusal, partition)
                rows.append(row)
            response.topics.append(OffsetForLeaderTopicResult(topic.topic, rows))
        return response

    def ends_of_logs(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        """``request`` has the id of a replica, which looks for EARLIEST and LATEST only: the leader's log, not what consumers
        may see of it."""
        response = ListOffsetsResponse()
        for topic in request.topics:
            rows = [self._end_of_log(topic.name, wanted) for wanted in topic.partitions]
            response.topics.append(ListOffsetsTopicResponse(topic.name, rows))
        return response

    def _end_of_log(self, topic: str, wanted: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        row, partition = ListOffsetsPartitionResponse(wanted.partition_index), (topic, wanted.partition_index)
        try:
            leader = self._manager.replicas.leader(partition, wanted.current_leader_epoch)
        except ReplicaRefusal as refusal:
            row.error_code = self._code_of(refusal, partition)
        else:
            is_earliest = wanted.timestamp == EARLIEST
            row.offset = leader.log.start_offset if is_earliest else leader.log.end_offset
            row.leader_epoch = leader.state.leader_epoch
        return row


def _watermarks(data: PartitionData) -> tuple[int, int]:
    return data.high_watermark, data.log_start_offset


class _FollowerWait:
    """Answered once there is enough, and at the latest after max_wait_ms."""

    def __init__(self, fetches: FollowerFetches, request: FetchRequest) -> None:
        self._fetches, self._request = fetches, request
        self.pending = Pending()
        self.pending.cancel = self._stop
        for partition in self._partitions():
            fetches._manager.watchers.setdefault(partition, {})[self._changed] = None
        self._timer = fetches._scheduler.call_later(request.max_wait_ms / 1000, self._finish)

    def _partitions(self) -> Iterator[TopicPartition]:
        return ((topic.topic, wanted.partition) for topic in self._request.topics for wanted in topic.partitions)

    def _changed(self) -> None:
        response, enough = self._fetches._read(self._request)
        if enough:
            self._done(response)

    def _finish(self) -> None:
        self._done(self._fetches._read(self._request)[0])

    def _done(self, response: FetchResponse) -> None:
        self._stop()
        self.pending.respond(self._fetches._recorded(self._request, response))

    def _stop(self) -> None:
        self._timer.cancel()
        for partition in self._partitions():
            watchers = self._fetches._manager.watchers.get(partition, {})
            watchers.pop(self._changed, None)
            if not watchers:
                self._fetches._manager.watchers.pop(partition, None)
