"""Share partitions at their leader: loaded by the first fetch, written, fenced and dropped; and fetches that wait for them.
Names
are those of Kafka's SharePartitionTest, SharePartitionManagerTest
and ShareFetchTest."""

from __future__ import annotations

import pytest

from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.share import initialize_share_group_state as initializing
from coterie.wire.messages.share import read_share_group_state as reading
from coterie.wire.messages.share import write_share_group_state as writing
from tests.broker.share.framed_share import FramedShare, acquired, delete_up_to, rows_of_response, shared

READ, WRITE = reading.ReadShareGroupStateRequest, writing.WriteShareGroupStateRequest
E = ErrorCode
COORDINATOR_ERRORS = [
    (E.NOT_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE),
    (E.COORDINATOR_NOT_AVAILABLE, E.COORDINATOR_NOT_AVAILABLE),
    (E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_NOT_AVAILABLE),
    (E.GROUP_ID_NOT_FOUND, E.GROUP_ID_NOT_FOUND),
    (E.UNKNOWN_TOPIC_OR_PARTITION, E.UNKNOWN_TOPIC_OR_PARTITION),
    (E.FENCED_STATE_EPOCH, E.NOT_LEADER_OR_FOLLOWER),
    (E.FENCED_LEADER_EPOCH, E.NOT_LEADER_OR_FOLLOWER),
    (E.UNKNOWN_SERVER_ERROR, E.UNKNOWN_SERVER_ERROR),
    (E.NETWORK_EXCEPTION, E.UNKNOWN_SERVER_ERROR),
]


# -- the state is read and written ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("code", "reported"), COORDINATOR_ERRORS, ids=lambda code: code.name)
def test_a_state_that_cannot_be_read(code: ErrorCode, reported: ErrorCode) -> None:
    """testMaybeInitializeWithErrorPartitionResponse, testMaybeInitializeWithReadException,
    testSharePartitionInitializationExceptions,
    testSharePartitionInitializationFailure, testErrorInAllPartitions, testMaybeCompleteWithErroneousTopicPartitions,
    testShareFetchProcessingExceptions: the next fetch reads it again"""
    broker = shared(3)
    broker.refused[READ] = {0: code}
    assert broker.fetched("c1", 0)[0].error_code == reported
    broker.refused.clear()
    assert acquired(broker.fetched("c1", epoch=1)[0]) == [(0, 2, 1)]
    assert len([request for request in broker.requests if isinstance(request, READ)]) == 2


def test_some_states_can_be_read() -> None:
    """testSharePartitionPartialInitializationFailure, testFilterErroneousTopicPartitions,
    testMaybeCompleteWithPartialErroneousTopicPartitions, testErrorInAllPartitionsWithMultipleTopicIdPartitions,
    testMaybeCompleteWithExceptionPartialFailure, testMaybeCompleteWithExceptionWithExistingErroneousTopicPartition"""
    broker = shared(3)
    broker.produce(2, partition=1)
    broker.held.add(READ)
    pending = broker.fetch("c1", 0, 1)
    broker.refused[READ] = {1: E.FENCED_STATE_EPOCH}
    broker.release(passing={0})
    broker.advance()
    rows = rows_of_response(pending.response)
    assert (acquired(rows[0]), rows[1].error_code) == ([(0, 2, 1)], E.NOT_LEADER_OR_FOLLOWER)


def _read_rows(*rows: tuple[bytes, int]) -> Message:
    return reading.ReadShareGroupStateResponse(
        results=[reading.ShareTopicState(topic, [reading.SharePartitionState(partition)]) for topic, partition in rows]
    )


def _written_rows(*rows: tuple[bytes, int]) -> Message:
    return writing.WriteShareGroupStateResponse(
        results=[
            initializing.TopicStateResult(topic, [initializing.PartitionStateResult(number)]) for topic, number in rows
        ]
    )


@pytest.mark.parametrize("others", ["none", "topic", "partition", "more"])
def test_a_response_about_something_else(others: str) -> None:
    """testMaybeInitializeWithInvalidTopicIdResponse, testMaybeInitializeWithInvalidPartitionResponse,
    testMaybeInitializeWithEmptyTopicsData, testMaybeInitializeWithNullTopicsData, testMaybeInitializeWithNullResponse,
    testWriteShareGroupStateWithInvalidTopicsData, testWriteShareGroupStateWithNullTopicsData,
    testWriteShareGroupStateWithNullResponse, testWriteShareGroupStateWithEqualButDistinctTopicIdResponse,
    testMaybeInitializeWithEqualButDistinctTopicIdResponse"""
    broker = shared(3)
    topic = broker.topic()
    rows = {"none": [], "topic": [(bytes(16), 0)], "partition": [(topic, 1)], "more": [(topic, 0), (topic, 1)]}[others]
    broker.responses = [_read_rows(*rows)]
    assert broker.fetched("c1", 0)[0].error_code == E.UNKNOWN_SERVER_ERROR
    # an id of equal bytes is the topic
    same = (bytes(bytearray(topic)), 0)
    broker.responses = [_read_rows(same)]
    assert acquired(broker.fetched("c1", epoch=1)[0]) == [(0, 2, 1)]
    for epoch, written in ((2, rows), (3, [same])):
        broker.responses = [_written_rows(*written)]
        row = rows_of_response(broker.acknowledge("c1", 0, 0, epoch=epoch).response)[0]
        assert row.error_code == (E.UNKNOWN_SERVER_ERROR if epoch == 2 else 0)


@pytest.mark.parametrize(("code", "reported"), COORDINATOR_ERRORS, ids=lambda code: code.name)
def test_a_state_that_cannot_be_written(code: ErrorCode, reported: ErrorCode) -> None:
    """testWriteShareGroupStateFailure, testWriteShareGroupStateWithWriteException, testWriteShareGroupState,
    testSharePartitionListenerOnFailed: after a fencing error the partition is read again"""
    broker = shared(3)
    assert acquired(broker.fetched("c1", 0)[0]) == [(0, 2, 1)]
    broker.refused[WRITE] = {0: code}
    assert rows_of_response(broker.acknowledge("c1", 0, 2).response)[0].error_code == reported
    broker.refused.clear()
    again = rows_of_response(broker.acknowledge("c1", 0, 2, epoch=2).response)[0].error_code
    dropped = reported in (E.NOT_LEADER_OR_FOLLOWER, E.GROUP_ID_NOT_FOUND, E.UNKNOWN_TOPIC_OR_PARTITION)
    assert again == (E.UNKNOWN_TOPIC_OR_PARTITION if dropped else 0)


def test_one_read_for_several_fetches() -> None:
    """testMaybeInitializeSharePartitionAgainConcurrentRequests, testComputeIfAbsent, testMultipleSequentialShareFetches,
    testPendingInitializationShouldCompleteFetchRequest, testDelayedInitializationShouldCompleteFetchRequest: those that cannot
    wait respond with nothing meanwhile"""
    broker = shared(3)
    broker.held.add(READ)
    one, two = broker.fetch("c1", 0, max_wait_ms=5_000), broker.fetch("c2", 0, max_wait_ms=100)
    broker.advance(200)
    assert one.response is None
    assert rows_of_response(two.response) == {} or acquired(rows_of_response(two.response)[0]) == []
    broker.release()
    broker.advance()
    assert acquired(rows_of_response(one.response)[0]) == [(0, 2, 1)]
    assert len([request for request in broker.requests if isinstance(request, READ)]) == 2  # held, and released


@pytest.mark.parametrize("how", ["follower", "deleted", "disabled", "empty"])
def test_a_partition_that_is_dropped_while_it_is_loaded(how: str) -> None:
    """testMaybeInitializeFencedSharePartition, testSharePartitionListenerOnBecomingFollower,
    testSharePartitionListenerOnDeleted,
    testOnShareVersionToggle, testRemoveGroup, testListenerRegistration, testShareGroupListener"""
    broker = shared(3)
    broker.held.add(READ)
    pending = broker.fetch("c1", 0, max_wait_ms=5_000)
    partition = broker.topics.partition("t", 0)
    match how:
        case "follower":
            for hosted in list(broker.share._hosted.values()):
                broker.share.drop(hosted.key)
        case "deleted":
            broker.share.topics_deleted([broker.topics.by_name["t"]])
        case "disabled":
            broker.features.replace({"share.version": "0"})
            broker.share.features_changed()
        case "empty":
            broker.share.group_is_empty("g")
    assert broker.share.start_offsets("g") == {}
    broker.release()
    broker.advance()
    rows = rows_of_response(pending.response)
    assert rows[0].error_code == E.NOT_LEADER_OR_FOLLOWER
    assert partition.is_led


# -- where a group begins ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reset", "first"), [("earliest", 2), ("latest", 9), ("by_duration:PT1H", 6), ("by_duration:PT9H", 2), (None, 9)]
)
def test_a_group_without_an_offset_begins_by_its_setting(reset: str | None, first: int) -> None:
    """testMaybeInitializeDefaultStartEpochGroupConfigReturnsEarliest,
    testMaybeInitializeDefaultStartEpochGroupConfigReturnsLatest,
    testMaybeInitializeDefaultStartEpochGroupConfigReturnsByDuration, testMaybeInitializeWithNoOpStatePersister,
    testAutoOffsetResetWithGroupConfig, testAutoOffsetResetWithoutGroupConfig, testShareAutoOffsetResetDefaultValue,
    testShareAutoOffsetResetEarliest, testShareAutoOffsetResetEarliestAfterLsoMovement, testShareAutoOffsetResetByDuration"""
    broker = FramedShare()
    broker.produce(1, 1, 2, 2)
    broker.advance(7_200_000)
    broker.produce(3)
    delete_up_to(broker, 2)
    broker.initialize(-1)
    if reset is not None:
        broker.share.configure("g", {"share.auto.offset.reset": reset})
    broker.fetched("c1", 0, max_wait_ms=0)
    assert broker.share.start_offsets("g") == {0: first}


@pytest.mark.parametrize("reset", ["earliest", "latest", "by_duration:PT1H"])
def test_where_a_group_begins_cannot_be_found(reset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """testMaybeInitializeFetchOffsetForLatestTimestampThrowsError,
    testMaybeInitializeFetchOffsetForEarliestTimestampThrowsError,
    testMaybeInitializeFetchOffsetForByDurationThrowsError"""
    broker = shared(3, start_offset=-1)
    broker.share.configure("g", {"share.auto.offset.reset": reset})

    def fail(*arguments: object) -> int:
        raise Refusal(E.OFFSET_NOT_AVAILABLE)

    with monkeypatch.context() as patched:
        patched.setattr(broker.share, "first_offset", fail)
        assert broker.fetched("c1", 0)[0].error_code == E.OFFSET_NOT_AVAILABLE
    broker.fetched("c1", epoch=1, max_wait_ms=0)
    assert broker.share.start_offsets("g") == {0: 3 if reset == "latest" else 0}


def test_a_group_that_begins_by_duration_waits_for_a_record_of_that_time() -> None:
    """ReplicaManagerPartitionMetadataProvider's offsetForTimestamp: OFFSET_NOT_AVAILABLE, and no state is made"""
    broker = shared(3, start_offset=-1)
    broker.share.configure("g", {"share.auto.offset.reset": "by_duration:PT1H"})
    broker.advance(7_200_000)
    assert broker.fetched("c1", 0, max_wait_ms=0)[0].error_code == E.OFFSET_NOT_AVAILABLE
    assert broker.share.start_offsets("g") == {}
    broker.produce(1)
    broker.fetched("c1", epoch=1, max_wait_ms=0)
    assert broker.share.start_offsets("g") == {0: 3}


# -- the settings of a group ------------------------------------------------------------------------------------------


def test_settings_of_a_group_are_in_force_until_they_are_removed() -> None:
    """testMaxDeliveryCountUsesGroupConfigWhenPresent, testMaxDeliveryCountFallsBackToDefaultWhenNoGroupConfig,
    testMaxInFlightRecordsUsesGroupConfigWhenPresent, testMaxInFlightRecordsFallsBackToDefaultWhenNoGroupConfig,
    testDynamicPartitionMaxRecordLocksRemoveGroupConfig, testScheduleAcquisitionLockTimeoutValueFromGroupConfig,
    testScheduleAcquisitionLockTimeoutValueUpdatesSuccessfully, testRecordLockDurationMsOrDefaultWithGroupConfig,
    testRecordLockDurationMsOrDefaultWithoutGroupConfig, testDeliveryCountLimitOrDefaultWithGroupConfig,
    testDeliveryCountLimitOrDefaultWithoutGroupConfig, testPartitionMaxRecordLocksOrDefaultWithGroupConfig,
    testPartitionMaxRecordLocksOrDefaultWithoutGroupConfig, testIsRenewAcknowledgeDisabledWithGroupConfig,
    testIsRenewAcknowledgeEnabledWithoutGroupConfig, testShareGroupEvaluatedConfigs: within the broker's bounds"""
    broker = shared(3)
    broker.fetched("c1", 0)
    (hosted,) = broker.share._hosted.values()
    default = hosted.state.limits
    of_default = (default.delivery_count_limit, default.max_record_locks, default.record_lock_duration_ms)
    assert (*of_default, default.renewals) == (5, 2_000, 30_000, True)
    own = {
        "share.delivery.count.limit": "8",
        "share.partition.max.record.locks": "3000",
        "share.record.lock.duration.ms": "45000",
        "share.renew.acknowledge.enable": "false",
    }
    broker.share.configure("g", own)
    limits = hosted.state.limits
    assert (limits.delivery_count_limit, limits.max_record_locks, limits.record_lock_duration_ms) == (8, 3_000, 45_000)
    assert not limits.renewals
    assert broker.share.limits("other") == default
    broker.share.configure("g", {"share.record.lock.duration.ms": "1", "share.delivery.count.limit": "99"})
    assert (hosted.state.limits.record_lock_duration_ms, hosted.state.limits.delivery_count_limit) == (15_000, 10)
    broker.share.configure("g", {})
    assert hosted.state.limits == default
