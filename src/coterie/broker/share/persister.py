"""The door to the share coordinator: the state of share partitions is read and written by Kafka's own requests, whether the
coordinator is on this broker or another (Kafka's Persister)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

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


class Persister(Protocol):
    """Each request is of one partition; ``responded`` gets its response, perhaps before this returns, with the coordinator's
    error or one of a coordinator that is not reached."""

    def send(self, request: Any, responded: Callable[[Any], None]) -> None: ...


class ReadState(NamedTuple):
    """What was kept of a share partition; a start offset of -1 is to be found by share.auto.offset.reset."""

    state_epoch: int
    start_offset: int
    ranges: list[StateRange]


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


def _check(code: int, message: str | None) -> None:
    """Raises Refusal with the error that a client receives for the coordinator's (Kafka's fetchPersisterError)."""
    if code:
        raise Refusal(_REPORTED.get(error_of(code), ErrorCode.UNKNOWN_SERVER_ERROR), message)


def read_request(group_id: str, topic_id: bytes, partition: int, leader_epoch: int) -> ReadShareGroupStateRequest:
    """Reads a partition's state, and takes it over for the leader epoch."""
    return ReadShareGroupStateRequest(
        group_id, [ReadStateTopic(topic_id, [ReadStatePartition(partition, leader_epoch)])]
    )


def _only_row(results: Sequence[Any], topic_id: bytes, partition: int) -> Any:
    """The row of the one partition. Raises Refusal: also UNKNOWN_SERVER_ERROR where the response has another one."""
    rows = [(topic.topic_id, row) for topic in results for row in topic.partitions]
    if len(rows) != 1 or rows[0][0] != topic_id or rows[0][1].partition != partition:
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)
    row = rows[0][1]
    _check(row.error_code, row.error_message)
    return row


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
