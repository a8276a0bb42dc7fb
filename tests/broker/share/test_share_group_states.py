"""A group's coordinator and the share coordinator, which may refuse: offsets described, altered, deleted; and groups deleted.
Names are those of Kafka's GroupCoordinatorServiceTest."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.coordinator.share.state import ShareGroup
from coterie.coordinator.stored_records.offsets_log import OffsetsLog
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.groups.delete_groups import DeleteGroupsRequest
from coterie.wire.messages.groups.list_groups import ListGroupsRequest
from coterie.wire.messages.groups.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from coterie.wire.messages.share import describe_share_group_offsets as described
from coterie.wire.messages.share.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from coterie.wire.messages.share.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from coterie.wire.messages.share.delete_share_group_state import DeleteShareGroupStateRequest
from coterie.wire.messages.share.initialize_share_group_state import InitializeShareGroupStateRequest
from coterie.wire.messages.share.read_share_group_state_summary import (
    PartitionStateSummary,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    TopicStateSummary,
)
from coterie.wire.messages.share.share_group_describe import ShareGroupDescribeRequest
from coterie.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.broker.share.framed_share import FramedShare

FAILED = ErrorCode.UNKNOWN_SERVER_ERROR


def alter(*partitions: int, topic: str = "t", group: str = "g", offset: int = 0) -> AlterShareGroupOffsetsRequest:
    rows = [AlterShareGroupOffsetsRequestPartition(partition, offset) for partition in partitions]
    return AlterShareGroupOffsetsRequest(group, [AlterShareGroupOffsetsRequestTopic(topic, rows)] if rows else [])


def delete(*topics: str, group: str = "g") -> DeleteShareGroupOffsetsRequest:
    return DeleteShareGroupOffsetsRequest(group, [DeleteShareGroupOffsetsRequestTopic(topic) for topic in topics])


def describe(*topics: tuple[str, list[int]], every: bool = False, group: str = "g") -> Message:
    kind = described.DescribeShareGroupOffsetsRequestTopic
    rows = None if every else [kind(topic, partitions) for topic, partitions in topics]
    return described.DescribeShareGroupOffsetsRequest([described.DescribeShareGroupOffsetsRequestGroup(group, rows)])


def offsets(response: Any) -> list[tuple[str, int, int, int, int]]:
    """Topic, partition, error, start offset and lag."""
    (group,) = response.groups
    assert group.error_code == 0
    return [
        (topic.topic_name, p.partition_index, p.error_code, p.start_offset, p.lag)
        for topic in group.topics
        for p in topic.partitions
    ]


def altered() -> FramedShare:
    """A broker with a group whose partitions of t have a state from 0 on."""
    broker = FramedShare()
    assert not broker.ask(alter(0, 1)).responses[0].partitions[0].error_code
    broker.requests.clear()
    return broker


def states(broker: FramedShare) -> Any:
    group = broker.groups.group("g")
    assert isinstance(group, ShareGroup)
    return group.states


@pytest.mark.parametrize("every", [True, False])
def test_offsets_are_described(every: bool) -> None:
    """testDescribeShareGroupOffsetsWithDefaultPersister, testDescribeShareGroupAllOffsets,
    testDescribeShareGroupOffsetsNonexistentTopicWithDefaultPersister"""
    broker = altered()
    wanted = [] if every else [("none", 0, 0, -1, -1)]
    request = describe(("none", [0]), ("t", [0, 1]), every=every)
    assert offsets(broker.ask(request)) == [("t", 0, 0, 0, 0), ("t", 1, 0, 0, 0), *wanted]


def test_the_lag_of_a_start_offset_outside_the_log() -> None:
    """Only -1 has no lag: Kafka's GroupCoordinatorService subtracts any other start offset, in 64 bits"""
    broker = FramedShare()
    broker.produce(3)
    for start, lag in ((-(2**63), -(2**63) + 3), (-2, 5), (-1, -1), (7, -4)):
        assert not broker.ask(alter(0, offset=start)).responses[0].partitions[0].error_code
        assert offsets(broker.ask(describe(("t", [0])))) == [("t", 0, 0, start, lag)]


@pytest.mark.parametrize("every", [True, False])
def test_a_summary_that_is_refused_is_no_offset(every: bool) -> None:
    """testDescribeShareGroupOffsetsWithDefaultPersisterReadSummaryPartitionError,
    testDescribeShareGroupAllOffsetsReadSummaryPartitionError, testDescribeShareGroupOffsetsWithDefaultPersisterThrowsError,
    testDescribeShareGroupAllOffsetsThrowsError"""
    broker = altered()
    broker.refused[ReadShareGroupStateSummaryRequest] = {1: FAILED}
    assert offsets(broker.ask(describe(("t", [1]), every=every)))[-1] == ("t", 1, 0, -1, -1)


def test_a_lag_whose_log_end_is_not_known_has_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """testDescribeShareGroupOffsetsWithDefaultPersisterLatestOffsetReturnsError,
    testDescribeShareGroupOffsetsWithDefaultPersisterLatestOffsetThrowsError,
    testDescribeShareGroupAllOffsetsLatestOffsetError"""
    broker = altered()
    from_log = broker.topics.partition

    def partition(name: str, index: int) -> Any:
        if name == "t":
            raise Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return from_log(name, index)

    request = ReadShareGroupStateSummaryRequest
    monkeypatch.setattr(broker, "send", lambda r, responded: responded(_summary(r)) if isinstance(r, request) else None)
    broker.share_persister.send = broker.send  # type: ignore[method-assign]
    monkeypatch.setattr(broker.topics, "partition", partition)
    assert offsets(broker.ask(describe(every=True)))[0] == ("t", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER, 0, -1)


def _summary(request: Any) -> Any:
    rows = [
        PartitionStateSummary(p.partition, start_offset=3, delivery_complete_count=0)
        for p in request.topics[0].partitions
    ]
    return ReadShareGroupStateSummaryResponse(results=[TopicStateSummary(request.topics[0].topic_id, rows)])


def test_states_that_cannot_be_deleted_stay() -> None:
    """testDeleteShareGroupOffsetsWithDefaultPersister, testDeleteShareGroupOffsetsPersisterReturnsNoSuccessfulTopics,
    testDeleteShareGroupOffsetsSuccessWithErrorTopics, testDeleteShareGroupOffsetsPersisterThrowsError,
    testDeleteShareGroupOffsetsRequestReturnsNullParametersWithErrorTopics: each topic has its error, and is tried again"""
    broker = altered()
    broker.refused[DeleteShareGroupStateRequest] = {0: FAILED}
    response = broker.ask(delete("none", "t", "u"))
    codes = [(topic.topic_name, topic.error_code) for topic in response.responses]
    assert codes == [("none", 3), ("t", FAILED), ("u", 3)]
    assert set(states(broker).deleting.values()) == {"t"}
    broker.refused.clear()
    assert [topic.error_code for topic in broker.ask(delete("t")).responses] == [0]
    assert not states(broker).deleting
    assert [row.partition for row in broker.requests[-1].topics[0].partitions] == [0, 1]


def test_nothing_is_deleted_for_no_topic() -> None:
    """testDeleteShareGroupOffsetsEmptyRequest, testDeleteShareGroupOffsetsEmptyTopicsInRequest,
    testDeleteShareGroupOffsetsRequestReturnsNullParameters"""
    broker = altered()
    response = broker.ask(delete())
    assert (response.error_code, response.responses, broker.requests) == (0, [], [])


@pytest.mark.parametrize("request_", [delete("t", group=""), alter(0, group="")])
def test_no_group_id(request_: Message) -> None:
    """testDeleteShareGroupOffsetsInvalidGroupId, testAlterShareGroupOffsetsInvalidGroupId,
    testShareGroupDescribeInvalidGroupId"""
    broker = FramedShare()
    assert broker.ask(request_).error_code == ErrorCode.INVALID_GROUP_ID
    (group,) = broker.ask(ShareGroupDescribeRequest([""]), 1).groups
    assert group.error_code == ErrorCode.INVALID_GROUP_ID


def test_groups_without_states_are_not_deleted_elsewhere() -> None:
    """testDeleteShareGroupOffsetsRequestReturnsGroupIdNotFound, testAlterShareGroupOffsetsEmptyRequest"""
    broker = FramedShare()
    assert broker.ask(delete("t")).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert (broker.ask(alter()).error_code, broker.requests) == (0, [])


def test_states_that_cannot_be_initialized_have_their_error() -> None:
    """testPersisterInitializeFailure, testPersisterInitializePartialFailure: of an administrator and of a member"""
    broker = FramedShare()
    broker.refused[InitializeShareGroupStateRequest] = {1: ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    rows = broker.ask(alter(0, 1, offset=4)).responses[0].partitions
    assert [row.error_code for row in rows] == [0, ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    broker = FramedShare()
    broker.refused[InitializeShareGroupStateRequest] = {1: FAILED}
    assert broker.heartbeat("a", 0, ["t"]).error_code == 0
    broker.advance()
    assert (states(broker).initializing, states(broker).initialized) == ({}, {})
    broker.refused.clear()
    assert broker.heartbeat("a", 2).error_code == 0
    broker.advance()
    assert [sorted(topic.partitions) for topic in states(broker).initialized.values()] == [[0, 1]]


def test_states_that_are_initialized_are_noted() -> None:
    """testPersisterInitializeSuccess, testPersisterInitializeForAlterShareGroupOffsetsResponseSuccess"""
    broker = altered()
    assert [sorted(topic.partitions) for topic in states(broker).initialized.values()] == [[0, 1]]
    broker.heartbeat("a", 0, ["t", "u"])
    broker.advance()
    (request,) = broker.requests
    assert [topic.topic_id for topic in request.topics] == [broker.topic("u")]
    assert len(states(broker).initialized) == 2


@pytest.mark.parametrize("refused", [True, False])
def test_a_group_whose_states_cannot_be_deleted_stays(refused: bool) -> None:
    """testDeleteShareGroupPersisterError, testDeleteWithShareGroups, testDeleteShareGroupCoordinatorShareSpecificWriteError"""
    broker = altered()
    if refused:
        broker.refused[DeleteShareGroupStateRequest] = {0: FAILED}
    (result,) = broker.ask(DeleteGroupsRequest(["g"]), 2).results
    assert result.error_code == (FAILED if refused else 0)
    assert (broker.groups.group("g") is None) is not refused
    (request,) = broker.requests
    assert [row.partition for row in request.topics[0].partitions] == [0, 1]


OF_ONE_GROUP: list[Message] = [
    ShareGroupHeartbeatRequest("g", "a", 0, None, ["t"]),
    ShareGroupDescribeRequest(["g"]),
    alter(0),
    delete("t"),
    describe(every=True),
]


@pytest.mark.parametrize("request_", OF_ONE_GROUP, ids=lambda request: type(request).__name__)
def test_a_coordinator_that_loads_or_is_elsewhere(request_: Message, monkeypatch: pytest.MonkeyPatch) -> None:
    """testShareGroupDescribeCoordinatorLoadInProgress, testShareGroupDescribeCoordinatorNotActive,
    testShareGroupHeartbeatWhenNotStarted, testShareGroupHeartbeatWithException,
    testDescribeShareGroupAllOffsetsCoordinatorNotActive,
    testDescribeShareGroupOffsetsCoordinatorNotActive, testDeleteShareGroupOffsetsCoordinatorNotActive,
    testDeleteShareGroupOffsetsRequestThrowsError"""
    broker = FramedShare()
    for code in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR):

        def refuse(group_id: str, code: ErrorCode = code) -> Any:
            raise Refusal(code)

        monkeypatch.setattr(broker.groups, "_shard_of", refuse)
        response = broker.ask(request_, 1 if request_.api_key in (76, 77) else 0)
        rows = getattr(response, "groups", [response])
        assert [row.error_code for row in rows] == [code]


def test_groups_are_listed_by_type_and_state() -> None:
    """testListGroups, testType, testProtocolType, testGroupTypeFromString, testAsListedGroup, testIsInStatesCaseInsensitive,
    testValidateOffsetFetch: it has no committed offsets"""
    broker = altered()
    for states_filter, types, listed in (
        ([], [], True),
        (["eMPTY"], ["SHare"], True),
        (["Stable"], [], False),
        ([], ["consumer"], False),
    ):
        groups = broker.ask(ListGroupsRequest(states_filter, types), 5).groups
        assert [(g.group_id, g.protocol_type, g.group_state, g.group_type) for g in groups] == (
            [("g", "share", "Empty", "share")] if listed else []
        )
    (group,) = broker.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g")]), 8).groups
    assert group.error_code == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (DeleteGroupsRequest(["g"]), ErrorCode.KAFKA_STORAGE_ERROR),
        (delete("t"), ErrorCode.KAFKA_STORAGE_ERROR),
        (alter(0), 0),
        (ShareGroupHeartbeatRequest("g", "a", 0, None, ["t", "u"]), 0),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_the_share_coordinator_did_cannot_be_noted(
    request_: Message, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """testDeleteShareGroupCoordinatorGeneralWriteError, testDeleteShareGroupOffsetsCompleteDeleteStateReturnsError,
    testPersisterInitializeGroupInitializeFailure: the log refuses once the states are deleted, or initialized; as in Kafka, who
    altered offsets is not informed"""
    broker = altered()
    submit = broker.share_coordinator.submit

    def submit_and_fail(request: Any, responded: Any) -> None:
        monkeypatch.setattr(OffsetsLog, "append", fail)
        submit(request, responded)

    def fail(*arguments: object) -> None:
        raise OSError("no space is left")

    monkeypatch.setattr(broker.share_coordinator, "submit", submit_and_fail)
    response = broker.ask(request_, {42: 2, 76: 1}.get(request_.api_key or 0, 0))
    broker.advance()
    row = response.results[0] if isinstance(request_, DeleteGroupsRequest) else response
    assert row.error_code == code
    assert states(broker) is not None
