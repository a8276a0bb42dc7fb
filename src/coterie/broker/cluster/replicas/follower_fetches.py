"""Followers' fetches and look-ups of epochs at their leader. A fetch waits for records as a consumer's does, up to the log's
end (Kafka's DelayedFetch of a follower)."""

from __future__ import annotations

from coterie.broker.cluster.cluster_view import ClusterView
from coterie.broker.cluster.replicas.replica_fetcher import EARLIEST
from coterie.broker.cluster.replicas.replica_manager import ReplicaManager
from coterie.broker.process.scheduling import Scheduler
from coterie.broker.requests.fetch_sessions import Fetch, FetchedPartition, FetchSessions, Read
from coterie.broker.requests.pending import Pending
from coterie.replication.leader import Leader
from coterie.replication.states import EpochLookup, ReplicaError, ReplicaFetch, ReplicaRefusal, TopicPartition
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.logs.fetch import (
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
    """In sessions (KIP-227), or in full: a fetch costs by the partitions that have news, and a look at each of the others."""

    def __init__(
        self, manager: ReplicaManager, view: ClusterView, scheduler: Scheduler, sessions: FetchSessions
    ) -> None:
        self.manager, self._view, self.scheduler, self._sessions = manager, view, scheduler, sessions

    def fetch(self, request: FetchRequest) -> FetchResponse | Pending:
        """``request`` has the id of a replica. FETCH_SESSION_ID_NOT_FOUND and INVALID_FETCH_SESSION_EPOCH are the response's
        errors, all others a partition's."""
        try:
            fetch = self._sessions.begin(request, False, self.manager.now_ms())
        except Refusal as refusal:
            return FetchResponse(error_code=refusal.code)
        read, is_enough = self.read(request, fetch)
        if is_enough or request.max_wait_ms <= 0:
            return self.response(fetch, read)
        return _FollowerWait(self, request, fetch).pending

    def read(self, request: FetchRequest, fetch: Fetch) -> tuple[Read, bool]:
        """What there is, in a session without partitions of which the follower knows all, and whether it is a response
        already: min.bytes, an error, or a high watermark that is news to the session (KIP-392), or a start of the log."""
        left, size, is_news, in_session = request.max_bytes, 0, False, fetch.session is not None
        read: Read = []
        now_ms = self.manager.now_ms()
        for (topic, index), fetched in fetch.partitions.items():
            partition = str(topic), index
            if in_session and self._knows_all(request.replica_id, partition, fetched, now_ms):
                continue
            data = self._read_partition(request.replica_id, partition, fetched.wanted, left)
            read.append(((topic, index), fetched, data))
            length = len(data.records or b"")
            size, left = size + length, max(left - length, 0)
            is_news = is_news or data.error_code != ErrorCode.NONE or (in_session and _is_news(fetched, data))
        return read, is_news or size >= request.min_bytes or not fetch.partitions

    def _knows_all(self, replica_id: int, partition: TopicPartition, fetched: FetchedPartition, now_ms: int) -> bool:
        replica, wanted = self.manager.replicas.partitions.get(partition), fetched.wanted
        leader = None if replica is None else replica.role
        return (
            isinstance(leader, Leader)
            and wanted.current_leader_epoch == leader.state.leader_epoch
            and fetched.high_watermark == wanted.fetch_offset
            and fetched.log_start_offset == leader.log.start_offset
            and leader.is_still_caught_up(replica_id, wanted.fetch_offset, wanted.log_start_offset, now_ms=now_ms)
        )

    def response(self, fetch: Fetch, read: Read) -> FetchResponse:
        """Of a session what has changed."""
        return self._sessions.respond(fetch, read, self.manager.now_ms())

    def _read_partition(
        self, replica_id: int, partition: TopicPartition, wanted: FetchPartition, left: int
    ) -> PartitionData:
        epoch, offset = wanted.current_leader_epoch, wanted.fetch_offset
        limit = min(wanted.partition_max_bytes, left)
        try:
            result = self.manager.fetch(
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
                    end = self.manager.end_of_epoch(partition, lookup)
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
            leader = self.manager.replicas.leader(partition, wanted.current_leader_epoch)
        except ReplicaRefusal as refusal:
            row.error_code = self._code_of(refusal, partition)
        else:
            is_earliest = wanted.timestamp == EARLIEST
            row.offset = leader.log.start_offset if is_earliest else leader.log.end_offset
            row.leader_epoch = leader.state.leader_epoch
        return row


def _is_news(fetched: FetchedPartition, data: PartitionData) -> bool:
    return (fetched.high_watermark, fetched.log_start_offset) != (data.high_watermark, data.log_start_offset)


class _FollowerWait:
    """Answered once there is enough, and at the latest after max_wait_ms."""

    def __init__(self, fetches: FollowerFetches, request: FetchRequest, fetch: Fetch) -> None:
        self._fetches, self._request, self._fetch = fetches, request, fetch
        self.pending = Pending()
        self.pending.cancel = self._stop
        fetches.manager.watchers[self._changed] = None
        self._timer = fetches.scheduler.call_later(request.max_wait_ms / 1000, self._finish)

    def _changed(self, partition: TopicPartition) -> None:
        if partition in self._fetch.partitions:
            read, is_enough = self._fetches.read(self._request, self._fetch)
            if is_enough:
                self._done(read)

    def _finish(self) -> None:
        self._done(self._fetches.read(self._request, self._fetch)[0])

    def _done(self, read: Read) -> None:
        self._stop()
        self.pending.respond(self._fetches.response(self._fetch, read))

    def _stop(self) -> None:
        self._timer.cancel()
        self._fetches.manager.watchers.pop(self._changed, None)
