"""What the outcome of a request makes of a position: records, a pause, a reset, or an error for the caller of poll; by the
table of errors (Kafka's FetchCollector.handleInitializeErrors)."""

from __future__ import annotations

from enum import Enum

from coterie.consuming.effects import (
    LogTruncated,
    PartitionFailed,
    SendFetch,
)
from coterie.consuming.fetching.assigned_positions import AssignedPositions
from coterie.consuming.fetching.position import (
    NEVER_FAILED_MS,
    UNKNOWN,
    UNKNOWN_EPOCH,
    EpochEnd,
    FetchState,
    Position,
    Unreadable,
)
from coterie.consuming.fetching.requests import FetchConfig
from coterie.consuming.record import TopicPartition
from coterie.machines.backoff import Retries
from coterie.machines.cluster_metadata import NO_NODE, Address, ClusterMetadata
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.logs.fetch import FetchResponse, PartitionData


class FetchRemedy(Enum):
    """What a partition's error calls for."""

    FIND_LEADER = "fetch again after a pause, from the leader that new metadata names"
    RETRY = "fetch again after a pause"
    RESET = "the position is reset by auto.offset.reset"
    REPORT = "poll raises the error; each further poll tries again"


_E = ErrorCode
REMEDIES: dict[ErrorCode, FetchRemedy] = {
    _E.NOT_LEADER_OR_FOLLOWER: FetchRemedy.FIND_LEADER,
    _E.REPLICA_NOT_AVAILABLE: FetchRemedy.FIND_LEADER,
    _E.KAFKA_STORAGE_ERROR: FetchRemedy.FIND_LEADER,
    _E.FENCED_LEADER_EPOCH: FetchRemedy.FIND_LEADER,
    _E.OFFSET_NOT_AVAILABLE: FetchRemedy.FIND_LEADER,
    _E.UNKNOWN_TOPIC_OR_PARTITION: FetchRemedy.FIND_LEADER,
    _E.UNKNOWN_TOPIC_ID: FetchRemedy.FIND_LEADER,
    _E.INCONSISTENT_TOPIC_ID: FetchRemedy.FIND_LEADER,
    _E.UNKNOWN_LEADER_EPOCH: FetchRemedy.FIND_LEADER,  # Kafka retries: its metadata has an age, and topics are created again
    _E.UNKNOWN_SERVER_ERROR: FetchRemedy.RETRY,
    _E.OFFSET_OUT_OF_RANGE: FetchRemedy.RESET,
    _E.TOPIC_AUTHORIZATION_FAILED: FetchRemedy.REPORT,
    _E.CORRUPT_MESSAGE: FetchRemedy.REPORT,
}


def remedy(code: ErrorCode) -> FetchRemedy:
    """What the code calls for. One without a row, which Kafka's brokers do not return here: FIND_LEADER where retriable."""
    return REMEDIES.get(code) or (FetchRemedy.FIND_LEADER if code.retriable else FetchRemedy.REPORT)


_MOVED = frozenset({_E.NOT_LEADER_OR_FOLLOWER, _E.FENCED_LEADER_EPOCH})


def named_leaders(response: FetchResponse) -> tuple[dict[TopicPartition, tuple[int, int]], dict[int, Address]]:
    """The leaders that a broker names in place of itself, with their epochs, and the addresses of brokers (KIP-951): from
    version 16 on (AbstractFetch.handleFetchSuccess)."""
    leaders: dict[TopicPartition, tuple[int, int]] = {}
    for topic in response.responses:
        for data in topic.partitions:
            if data.error_code in _MOVED:
                leader = data.current_leader
                if NO_NODE not in (leader.leader_id, leader.leader_epoch):
                    where = TopicPartition(topic.topic, data.partition_index)
                    leaders[where] = leader.leader_id, leader.leader_epoch
    return leaders, {node.node_id: (node.host, node.port) for node in response.node_endpoints}


class FetchOutcomes(AssignedPositions):
    """The assigned positions, with what is to be reported of them."""

    def __init__(self, config: FetchConfig, known: ClusterMetadata) -> None:
        super().__init__()
        self.config, self._known = config, known
        self.bytes_fetched = 0
        self._reports: list[PartitionFailed | LogTruncated] = []

    def _compare(self, where: TopicPartition, position: Position, end: EpochEnd, leader_epoch: int) -> bool:
        """Whether the log was cut before the position."""
        position.validated_epoch = leader_epoch
        if not end.is_undefined and end.end_offset >= position.offset:
            position.state = FetchState.FETCHING
            return False
        divergent = (UNKNOWN, UNKNOWN_EPOCH) if end.is_undefined else (end.end_offset, end.leader_epoch)
        self._reports.append(LogTruncated(where, position.offset, *divergent))
        if not self.config.has_reset_policy:
            position.refused = True
        elif end.is_undefined:
            position.state = FetchState.AWAIT_RESET
        else:
            position.start_at(*divergent)
        return True

    def _validation_refused(
        self, where: TopicPartition, position: Position, code: ErrorCode, now_ms: float, jitter: float
    ) -> bool:
        """Whether it is an error for the caller of poll (OffsetsForLeaderEpochUtils.handleResponse)."""
        if code.retriable or remedy(code) is not FetchRemedy.REPORT:
            self._back_off(where, position, code, now_ms, jitter, leader_due=True)
            return False
        self._report(where, position, code)
        return True

    def _back_off(
        self,
        where: TopicPartition,
        position: Position,
        code: ErrorCode,
        now_ms: float,
        jitter: float,
        *,
        leader_due: bool,
    ) -> None:
        if position.retries is None:
            position.retries = Retries(self.config.backoff, None)
        pause_ms = position.retries.failed(now_ms, self.config.timeout_ms, jitter)
        if pause_ms is None:
            self._report(where, position, code)
            return
        position.retry_at_ms, position.leader_due = now_ms + pause_ms, leader_due
        if leader_due:
            position.read_replica = None

    def _report(self, where: TopicPartition, position: Position, code: ErrorCode) -> None:
        position.refused = True
        self._reports.append(PartitionFailed(where, code))

    def _take_in(
        self,
        where: TopicPartition,
        position: Position,
        sent: SendFetch,
        data: PartitionData,
        now_ms: float,
        jitter: float,
    ) -> bool:
        """Whether it is something for the caller of poll."""
        code = error_of(data.error_code)
        if not code:
            succeeded(position)
            offset, epoch = sent.wanted[where]
            if self.config.validates and 0 <= epoch < self._known.leader_epoch(*where):
                return False  # the former leader's records, which the new one may lack
            position.validated_epoch = epoch
            arrived = position.fetch_offset == offset and self._store(position, data)
            if data.preferred_read_replica != NO_NODE:
                self._read_from(where, position, data.preferred_read_replica, now_ms, jitter)
            return arrived
        match remedy(code):
            case FetchRemedy.RESET:
                return self._out_of_range(where, position, sent.wanted[where][0])
            case FetchRemedy.REPORT:
                self._report(where, position, code)
            case FetchRemedy.FIND_LEADER | FetchRemedy.RETRY as way:
                self._back_off(where, position, code, now_ms, jitter, leader_due=way is FetchRemedy.FIND_LEADER)
                return False
        return True

    def _read_from(self, where: TopicPartition, position: Position, replica: int, now_ms: float, jitter: float) -> None:
        """The leader names a replica nearer to this client (KIP-392). One that the metadata lacks is looked up after a pause,
        and the request to the leader is repeated."""
        if self._known.address(replica) is None:
            self._back_off(where, position, ErrorCode.REPLICA_NOT_AVAILABLE, now_ms, jitter, leader_due=True)
        else:
            position.read_replica = replica
            position.replica_until_ms = now_ms + self.config.replica_max_age_ms

    def _out_of_range(self, where: TopicPartition, position: Position, offset: int) -> bool:
        """Whether it is something for the caller of poll."""
        if position.read_replica is not None:
            position.read_replica = None  # the leader's log may have the offset
            return False
        if position.fetch_offset != offset or position.state is not FetchState.FETCHING:
            return False  # the error is of an older position
        succeeded(position)
        if self.config.has_reset_policy:
            position.state = FetchState.AWAIT_RESET
        elif position.is_buffered():
            position.refused = True  # fetched again once the next poll has taken some of it
            return False
        else:
            self._report(where, position, ErrorCode.OFFSET_OUT_OF_RANGE)
        return True

    def _store(self, position: Position, data: PartitionData) -> bool:
        self.bytes_fetched += len(data.records or b"")
        try:
            config = self.config
            position.store(
                data,
                committed_only=config.committed_only and not config.as_stored,
                check_crcs=config.check_crcs,
                control_batches=config.as_stored,
            )
        except Exception as error:  # any that the bytes made a decoder raise
            position.damaged(Unreadable(position.fetch_offset, position.fetch_offset + 1, error))
        return position.is_buffered() or position.state is FetchState.DAMAGED


def succeeded(position: Position) -> None:
    """The next failure is the first of a new row."""
    if position.retries is not None:
        position.retries, position.retry_at_ms, position.leader_due = None, NEVER_FAILED_MS, False
