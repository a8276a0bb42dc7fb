"""The share coordinator's driver at a broker in virtual time, re-created from Kafka's ShareCoordinatorServiceTest (4.4.0),
whose names the tests have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coterie.broker.share_state.share_coordinator import COLD_INTERVAL_MS
from coterie.broker.share_state.state_requests import STATE_REQUESTS
from coterie.coordinator.partitioning import partition_for
from coterie.coordinator.share_state.state import SHARE_STATE_TOPIC, SharePartitionKey
from coterie.log.filesystem import MemoryFileSystem
from coterie.log.partition_log import PartitionLog
from coterie.log.retention import delete_records
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.share.delete_share_group_state import DeletedStatePartition, DeleteShareGroupStateRequest
from coterie.wire.messages.share.initialize_share_group_state import (
    InitializedPartition,
    InitializeShareGroupStateRequest,
)
from coterie.wire.messages.share.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadStatePartition,
    ReadStateTopic,
)
from coterie.wire.messages.share.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from coterie.wire.messages.share.write_share_group_state import WriteShareGroupStateRequest, WrittenPartitionState
from coterie.wire.messages.stored.share_group_state import StateBatch
from tests.broker.share.framed_share import FramedShare, acquired

ROWS: dict[type[Message], Callable[[int], Any]] = {
    InitializeShareGroupStateRequest: lambda partition: InitializedPartition(partition, 1, 0),
    ReadShareGroupStateRequest: lambda partition: ReadStatePartition(partition, 0),
    WriteShareGroupStateRequest: lambda partition: WrittenPartitionState(
        partition, 1, 0, 0, 1, [StateBatch(0, 4, 2, 1)]
    ),
    DeleteShareGroupStateRequest: DeletedStatePartition,
    ReadShareGroupStateSummaryRequest: lambda partition: ReadStatePartition(partition, 0),
}
PURPOSES = {
    InitializeShareGroupStateRequest: "initialize share group state",
    ReadShareGroupStateRequest: "read share group state",
    WriteShareGroupStateRequest: "write share group state",
    DeleteShareGroupStateRequest: "delete share group state",
    ReadShareGroupStateSummaryRequest: "read share group state summary",
}
every_kind = pytest.mark.parametrize("kind", list(ROWS))


def request_of(kind: Any, broker: FramedShare, **partitions: list[int]) -> Any:
    """A request of that kind about these partitions of topics, for the group g."""
    topic = STATE_REQUESTS[kind].topic
    rows = {name: [ROWS[kind](partition) for partition in wanted] for name, wanted in partitions.items()}
    return kind("g", [topic(broker.topic(name), each) for name, each in rows.items()])


def submitted(broker: FramedShare, request: Message) -> Any:
    responses: list[Any] = []
    broker.share_coordinator.submit(request, responses.append)
    (response,) = responses
    return response


def codes(broker: FramedShare, request: Message) -> list[tuple[bytes, int, int]]:
    """Topic id, partition and error of each row of the response."""
    results = submitted(broker, request).results
    return [(topic.topic_id, row.partition, row.error_code) for topic in results for row in topic.partitions]


def initialized(**partitions: list[int]) -> FramedShare:
    broker = FramedShare(**{"share.coordinator.state.topic.num.partitions": "2"})
    submitted(broker, request_of(InitializeShareGroupStateRequest, broker, **partitions))
    return broker


def state_logs(broker: FramedShare) -> list[PartitionLog]:
    return [partition.log for partition in broker.topics.by_name[SHARE_STATE_TOPIC].partitions]


# -- requests ---------------------------------------------------------------------------------------------------------


@every_kind
def test_a_request_about_several_topics(kind: type[Message]) -> None:
    """testWriteStateSuccess, testReadStateSuccess, testReadStateSummarySuccess, testDeleteStateSuccess,
    testInitializeStateSuccess: each partition of each topic has a row, in the order of the request"""
    broker = initialized(u=[0], t=[0, 1])
    expected = [(broker.topic("u"), 0, 0), (broker.topic("t"), 1, 0), (broker.topic("t"), 0, 0)]
    assert codes(broker, request_of(kind, broker, u=[0], t=[1, 0])) == expected
    if kind is WriteShareGroupStateRequest:
        read = submitted(broker, request_of(ReadShareGroupStateRequest, broker, u=[0])).results[0].partitions[0]
        assert (read.state_epoch, read.start_offset, read.state_batches) == (1, 0, [StateBatch(0, 4, 2, 1)])


@every_kind
def test_a_request_about_nothing(kind: Any) -> None:
    """testWriteStateValidationsError, testReadStateValidationsError, testReadStateSummaryValidationsError,
    testDeleteStateValidationsError, testInitializeStateValidationError"""
    broker = initialized(t=[0])
    assert submitted(broker, kind("g", [])).results == []
    assert submitted(broker, request_of(kind, broker, t=[])).results == []
    without_group = request_of(kind, broker, t=[0])
    without_group.group_id = ""
    assert submitted(broker, without_group).results == []


@every_kind
def test_states_that_are_being_loaded(kind: type[Message]) -> None:
    """testWriteStateWhenNotStarted, testReadStateWhenNotStarted, testReadStateSummaryWhenNotStarted,
    testDeleteStateWhenNotStarted, testInitializeStateWhenNotStarted: each row has the error (a broker of ours that does not
    lead the partition yet, or still loads it; Kafka's has not started)"""
    broker = initialized(t=[0, 1])
    for hosted in broker.share_coordinator._hosted.values():
        hosted.loaded = False
    response = submitted(broker, request_of(kind, broker, t=[0, 1]))
    text = f"Unable to {PURPOSES[kind]}: {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS.text}"
    rows = [(row.partition, row.error_code, row.error_message) for row in response.results[0].partitions]
    assert rows == [(partition, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, text) for partition in (0, 1)]


@every_kind
def test_a_state_that_cannot_be_appended(kind: type[Message], monkeypatch: pytest.MonkeyPatch) -> None:
    """testWriteFutureReturnsError, testReadFutureReturnsError, testReadSummaryFutureReturnsError,
    testDeleteFutureReturnsError, testInitializeFutureReturnsError: the coordinator's error, and the log's in the text; a
    summary, and a read by the leader that read before, append nothing"""
    broker = initialized(t=[0])

    def broken(*_: Any) -> Any:
        raise OSError("broken")

    monkeypatch.setattr(PartitionLog, "append_own", broken)
    row = submitted(broker, request_of(kind, broker, t=[0])).results[0].partitions[0]
    if kind in (ReadShareGroupStateRequest, ReadShareGroupStateSummaryRequest):
        assert (row.error_code, row.error_message) == (0, None)
        return
    text = f"Unable to {PURPOSES[kind]}: {ErrorCode.KAFKA_STORAGE_ERROR.text}"
    assert (row.error_code, row.error_message) == (ErrorCode.NOT_COORDINATOR, text)


@pytest.mark.parametrize("count", [1, 50])
def test_which_partition_has_a_state(count: int) -> None:
    """testTopicPartitionFor, testPartitionFor: Java's hash of group, topic id and partition, without the topic's name"""
    key = SharePartitionKey("g", bytes(range(16)), 3)
    assert key.text() == "g:AAECAwQFBgcICQoLDA0ODw:3"
    value = 0
    for character in key.text():
        value = (31 * value + ord(character)) % 2**32
    assert partition_for(key.text(), count) == abs(value - 2**32 if value >= 2**31 else value) % count


# -- upkeep -----------------------------------------------------------------------------------------------------------


def group_of(broker: FramedShare, index: int) -> str:
    """A group whose state of the first partition of t is in that partition of the topic of states."""
    names = (f"g{n}" for n in range(99))
    return next(g for g in names if partition_for(SharePartitionKey(g, broker.topic(), 0).text(), 2) == index)


def snapshots(broker: FramedShare, index: int, *epochs: int, topic: str = "t") -> None:
    """A snapshot for each state epoch, which overrides what is before it in the log of the group's state."""
    of = STATE_REQUESTS[InitializeShareGroupStateRequest].topic
    for epoch in epochs:
        row = InitializedPartition(0, epoch, 0)
        request = InitializeShareGroupStateRequest(group_of(broker, index), [of(broker.topic(topic), [row])])
        assert not submitted(broker, request).results[0].partitions[0].error_code


def upkeep(broker: FramedShare, task: Callable[[], None]) -> int:
    """How often the broker runs the task, in ms."""
    (interval_ms,) = [interval_ms for interval_ms, each in broker.upkeep() if each == task]
    return interval_ms


def started() -> tuple[FramedShare, PartitionLog, PartitionLog]:
    """A broker with two partitions of states."""
    broker = FramedShare(**{"share.coordinator.state.topic.num.partitions": "2"})
    for index in (0, 1):
        snapshots(broker, index, 1)
    first, second = state_logs(broker)
    return broker, first, second


def test_a_log_of_states_is_cut_below_what_is_needed() -> None:
    """testRecordPruningTaskPeriodicityWithAllSuccess, testRecordPruningTaskSuccess, testRecordPruningTaskEmptyOffsetReturned,
    testRecordPruningTaskRepeatedSameOffsetForTopic: every five minutes; nothing where nothing was overridden"""
    broker, first, second = started()
    assert upkeep(broker, broker.share_coordinator.prune) == 300_000
    starts = []
    for epochs in ((), (2, 3, 4), (), (5, 6)):
        snapshots(broker, 0, *epochs)
        broker.share_coordinator.prune()
        starts.append((first.log_start_offset, second.log_start_offset))
    assert starts == [(0, 0), (3, 0), (3, 0), (5, 0)]


def test_a_log_that_cannot_be_cut_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """testRecordPruningTaskPeriodicityWithSomeFailures, testRecordPruningTaskException,
    testRecordPruningTaskRetriesRepeatedSameOffsetForTopic: it is cut the next time"""
    broker, first, second = started()
    for index in (0, 1):
        snapshots(broker, index, 2, 3)

    def broken(log: PartitionLog, offset: int) -> Any:
        if log is first:
            raise OSError("broken")
        return delete_records(log, offset)

    with monkeypatch.context() as patched:
        patched.setattr("coterie.broker.share_state.share_coordinator.delete_records", broken)
        broker.share_coordinator.prune()
    assert (first.log_start_offset, second.log_start_offset) == (0, 2)
    broker.share_coordinator.prune()
    assert (first.log_start_offset, second.log_start_offset) == (2, 2)


def test_states_that_are_not_written_any_more_get_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """testColdPartitionSnapshotTaskPeriodicityWithAllSuccess, testColdPartitionSnapshotTaskPeriodicityWithSomeFailures: every
    five minutes, of states whose last snapshot is so old; a log that cannot be appended to holds up no other"""
    broker, first, second = started()
    assert upkeep(broker, broker.share_coordinator.snapshot_cold) == 300_000
    broker.share_coordinator.snapshot_cold()
    assert (first.end_offset, second.end_offset) == (1, 1)
    broker.advance(COLD_INTERVAL_MS)
    append = PartitionLog.append_own

    def broken(log: PartitionLog, *given: Any) -> Any:
        if log is first:
            raise OSError("broken")
        return append(log, *given)

    with monkeypatch.context() as patched:
        patched.setattr(PartitionLog, "append_own", broken)
        broker.share_coordinator.snapshot_cold()
    assert (first.end_offset, second.end_offset) == (1, 2)
    broker.share_coordinator.snapshot_cold()
    assert (first.end_offset, second.end_offset) == (2, 2)


def test_the_topic_of_states_has_its_own_settings() -> None:
    """testShareStateTopicConfigs"""
    broker = started()[0]
    assert {name for name, _ in broker.topics.by_name[SHARE_STATE_TOPIC].configs.items()} >= {
        "cleanup.policy",
        "compression.type",
        "segment.bytes",
        "min.insync.replicas",
        "retention.ms",
    }


def test_the_states_of_deleted_topics_get_tombstones(monkeypatch: pytest.MonkeyPatch) -> None:
    """testOnMetadataUpdateSchedulesOperationsWhenTopicsDeleted, testOnMetadataUpdateSwallowsErrorsWhenTopicsDeleted,
    testOnMetadataUpdateDoesNotScheduleOperationsWhenNoTopicsDeleted"""
    broker, first, second = started()
    snapshots(broker, 0, 1, topic="u")
    ends = first.end_offset, second.end_offset
    broker.share_coordinator.topics_deleted([])
    assert (first.end_offset, second.end_offset) == ends
    broker.share_coordinator.topics_deleted([broker.topics.by_name["t"]])
    assert (first.end_offset, second.end_offset) == (ends[0] + 1, ends[1] + 1)
    broker.share_coordinator.topics_deleted([broker.topics.by_name["t"]])
    assert (first.end_offset, second.end_offset) == (ends[0] + 1, ends[1] + 1)

    def broken(*_: Any) -> Any:
        raise OSError("broken")

    monkeypatch.setattr(PartitionLog, "append_own", broken)
    broker.share_coordinator.topics_deleted([broker.topics.by_name["u"]])
    assert sum(len(hosted.shard) for hosted in broker.share_coordinator._hosted.values()) == 1


def test_a_folder_whose_states_had_leaders_of_later_epochs() -> None:
    """Apache Kafka's, which writes no epoch of a leader that appends nothing into a log: a broker alone is elected after them,
    and the state was read by leaders of epochs that it would have refused."""
    memory = MemoryFileSystem()
    before = FramedShare(memory)
    before.produce(3)
    before.initialize()
    later = ReadStateTopic(before.topic(), [ReadStatePartition(0, 7)])
    response = before.ask(ReadShareGroupStateRequest("g", [later]))
    assert response.results[0].partitions[0].error_code == 0
    before.topics.close()
    broker = FramedShare(memory)
    broker.advance()
    assert broker.topics.partition("t", 0).leader_epoch == 8
    assert broker.topics.partition("t", 1).leader_epoch == 0
    assert acquired(broker.fetched("c1", 0)[0]) == [(0, 2, 1)]
    broker.topics.close()
    again = FramedShare(memory)
    again.advance()
    assert again.topics.partition("t", 0).leader_epoch == 9, "later than that of the fetch"
