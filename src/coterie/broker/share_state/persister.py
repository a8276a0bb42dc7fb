"""States of share groups, as the group coordinator and the leaders of partitions read and write them by Kafka's own requests:
at the share coordinator of this broker or of another one (Kafka's Persister and DefaultStatePersister)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from coterie.broker.cluster.cluster_view import ClusterView
from coterie.broker.cluster.peers.connections import PeerRequests
from coterie.broker.process.scheduling import Scheduler
from coterie.broker.share_state.share_coordinator import Responded, ShareCoordinator
from coterie.broker.share_state.state_requests import STATE_REQUESTS, part_of, refused_row, response_to, rows_of
from coterie.broker.storage.topics import Topics
from coterie.coordinator.partitioning import partition_for
from coterie.coordinator.share_state.state import SHARE_STATE_TOPIC, SharePartitionKey
from coterie.share.partition import StateRange, StateWrite
from coterie.share.states import RecordState
from coterie.wire.errors import ErrorCode, Refusal, error_of
from coterie.wire.messages.share.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStatePartition,
    ReadStateTopic,
)
from coterie.wire.messages.share.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WrittenPartitionState,
    WrittenTopicState,
)
from coterie.wire.messages.stored.share_group_state import StateBatch

ATTEMPTS = 5
FIRST_PAUSE_MS = 1_000
_RETRIED = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
)
_REPORTED = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
# After these the share partition is read again before it is used.
FENCING = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_STATE_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


class SharePersister:
    """Sends the requests of `STATE_REQUESTS` to the share coordinators of their partitions. ``peers`` and ``create_topic`` are
    None for a broker alone."""

    def __init__(
        self, coordinator: ShareCoordinator, topics: Topics, view: ClusterView, scheduler: Scheduler, node_id: int
    ) -> None:
        self._coordinator, self._topics, self._view = coordinator, topics, view
        self._scheduler, self._node_id = scheduler, node_id
        self.peers: PeerRequests | None = None
        self.create_topic: Callable[[], object] | None = None

    def send(self, request: Any, responded: Callable[[Any], None]) -> None:
        """``responded`` gets the whole response, perhaps before this returns. A partition whose coordinator is not there is
        requested again after pauses, 5 times in all, and has the error of one that is not reached then."""
        if not self._topics.in_cluster:
            self._coordinator.submit(request, responded)
        else:
            _Sending(self, request, responded).send({key for key, _ in rows_of(request)})

    def leaders(self, keys: Iterable[SharePartitionKey]) -> dict[int | None, set[SharePartitionKey]]:
        """The partitions by the broker of their share coordinator; None: there is none now."""
        topic, by_leader = self._topics.by_name.get(SHARE_STATE_TOPIC), dict[int | None, set[SharePartitionKey]]()
        if topic is None and self.create_topic is not None:
            self.create_topic()
        for key in keys:
            count = 0 if topic is None else len(topic.partitions)
            state = self._view.states.get((SHARE_STATE_TOPIC, partition_for(key.text(), count))) if count else None
            leader = None if state is None or state.leader not in self._view.live else state.leader
            by_leader.setdefault(leader, set()).add(key)
        return by_leader

    def send_to(self, leader: int, request: Any, responded: Callable[[Any], None]) -> None:
        """``responded`` gets None where no response came."""
        if leader == self._node_id:
            self._coordinator.submit(request, responded)
        elif self.peers is not None:
            kind = STATE_REQUESTS[type(request)]
            self.peers.send(leader, request, kind.response, kind.version, responded)

    def later(self, pause_ms: int, call: Callable[[], object]) -> None:
        """Calls ``call`` after the pause."""
        self._scheduler.call_later(pause_ms / 1000, call)


class _Sending:
    """A request whose partitions have several coordinators, until each has a result."""

    def __init__(self, persister: SharePersister, request: Any, responded: Responded) -> None:
        self._persister, self._request, self._responded = persister, request, responded
        self._results: dict[SharePartitionKey, Any] = {}
        self._attempt = self._waiting = 0

    def send(self, keys: set[SharePartitionKey]) -> None:
        """One attempt for these partitions."""
        self._attempt += 1
        by_leader = self._persister.leaders(keys)
        self._waiting = len(by_leader)
        for leader, theirs in by_leader.items():
            if leader is None:
                self._end(theirs, None)
            else:
                part = part_of(self._request, theirs)
                self._persister.send_to(leader, part, partial(self._end, theirs))
        if not by_leader:
            self._responded(STATE_REQUESTS[type(self._request)].response())

    def _end(self, keys: set[SharePartitionKey], response: Any) -> None:
        absent = Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE if response is None else ErrorCode.UNKNOWN_SERVER_ERROR)
        self._results |= {key: refused_row(self._request, key, absent) for key in keys}
        if response is not None:
            group_id = self._request.group_id
            for topic in response.results:
                for row in topic.partitions:
                    self._results[SharePartitionKey(group_id, topic.topic_id, row.partition)] = row
        self._waiting -= 1
        if self._waiting:
            return
        again = {key for key, row in self._results.items() if row.error_code in _RETRIED}
        if again and self._attempt < ATTEMPTS:
            self._persister.later(FIRST_PAUSE_MS << (self._attempt - 1), lambda: self.send(again))
        else:
            self._responded(response_to(self._request, self._results))


class ReadState(NamedTuple):
    """What was kept of a share partition; a start offset of -1 is to be found by share.auto.offset.reset."""

    state_epoch: int
    start_offset: int
    ranges: list[StateRange]


def read_request(group_id: str, topic_id: bytes, partition: int, leader_epoch: int) -> ReadShareGroupStateRequest:
    """Reads a partition's state, and takes it over for the leader epoch."""
    return ReadShareGroupStateRequest(
        group_id, [ReadStateTopic(topic_id, [ReadStatePartition(partition, leader_epoch)])]
    )


def read_state(response: ReadShareGroupStateResponse, topic_id: bytes, partition: int) -> ReadState:
    """What the coordinator has of the one partition. Raises Refusal."""
    read = _only_row(response.results, topic_id, partition)
    ranges = [
        StateRange(batch.first_offset, batch.last_offset, RecordState(batch.delivery_state), batch.delivery_count)
        for batch in read.state_batches
    ]
    return ReadState(read.state_epoch, read.start_offset, ranges)


class StateOf(NamedTuple):
    """Of which partition a state is, and of which epochs."""

    group_id: str
    topic_id: bytes
    partition: int
    state_epoch: int
    leader_epoch: int


def write_request(of: StateOf, write: StateWrite) -> WriteShareGroupStateRequest:
    """Writes what changed of a partition's state."""
    batches = [StateBatch(r.first, r.last, r.state, r.delivery_count) for r in write.batches]
    partition = WrittenPartitionState(
        of.partition, of.state_epoch, of.leader_epoch, write.start_offset, write.complete_count, batches
    )
    return WriteShareGroupStateRequest(of.group_id, [WrittenTopicState(of.topic_id, [partition])])


def check_written(response: WriteShareGroupStateResponse, topic_id: bytes, partition: int) -> None:
    """Raises Refusal where the state could not be written."""
    _only_row(response.results, topic_id, partition)


def _only_row(results: Sequence[Any], topic_id: bytes, partition: int) -> Any:
    """The row of the one partition. Raises Refusal: also UNKNOWN_SERVER_ERROR where the response has another one."""
    rows = [(topic.topic_id, row) for topic in results for row in topic.partitions]
    if len(rows) != 1 or rows[0][0] != topic_id or rows[0][1].partition != partition:
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)
    row = rows[0][1]
    _check(row.error_code, row.error_message)
    return row


def _check(code: int, message: str | None) -> None:
    """Raises Refusal with the error that a client receives for the coordinator's (Kafka's fetchPersisterError)."""
    if code:
        raise Refusal(_REPORTED.get(error_of(code), ErrorCode.UNKNOWN_SERVER_ERROR), message)
