"""Share sessions; Kafka 4.4's ShareSessionCacheTest and PartitionRotateStrategyTest by name, and what SharePartitionManagerTest
asks of sessions."""

from __future__ import annotations

import pytest

from coterie.broker.handlers.logs.share_fetch import rotated_partitions
from coterie.broker.requests.calls import ClientConnection
from coterie.broker.share.share_sessions import SessionKey, SharedPartition, ShareSessions
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.share.share_fetch import SharePartitionData

FOO, BAR = b"f" * 16, b"b" * 16
FOO_0, FOO_1, BAR_0 = SharedPartition(FOO, 0, "foo"), SharedPartition(FOO, 1, "foo"), SharedPartition(BAR, 0, "bar")
FIRST, LAST = 0, -1  # the epochs that begin and end a session
A, B, C = SessionKey("grp", "a"), SessionKey("grp", "b"), SessionKey("grp", "c")


def connection(name: str = "/h") -> ClientConnection:
    return ClientConnection(name)


def begin(sessions: ShareSessions, key: SessionKey, where: ClientConnection, *named: SharedPartition) -> None:
    context = sessions.begin(key, FIRST, list(named), (), where)
    assert context.session is None
    assert context.partitions == list(named)


def close(where: ClientConnection) -> None:
    assert where.on_closed is not None
    where.on_closed(where)


def code_of(sessions: ShareSessions, key: SessionKey, epoch: int) -> ErrorCode:
    with pytest.raises(Refusal) as refused:
        sessions.begin(key, epoch, [], (), connection())
    return refused.value.code


class Listener:
    """Who has left, and which groups are empty."""

    def __init__(self, slots: int = 3) -> None:
        self.left: list[SessionKey] = []
        self.empty: list[str] = []
        self.sessions = ShareSessions(slots, self.left.append, self.empty.append)


def test_a_broker_has_so_many_sessions_and_evicts_none() -> None:
    """testShareSessionCache, testResizeCachedSessions of ShareSessionCacheTest;
    testNewContextThrowsErrorWhenShareSessionCacheIsFullOnInitialEpoch."""
    sessions = ShareSessions(2)
    begin(sessions, A, connection(), FOO_0)
    begin(sessions, B, connection(), FOO_0, FOO_1)
    assert code_of(sessions, C, FIRST) == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert sessions.get(C) is None
    assert len(sessions) == 2
    sessions.remove(A)
    begin(sessions, C, connection(), BAR_0)
    assert len(sessions) == 2


def test_a_session_ends_with_its_connection() -> None:
    """testRemoveConnection of ShareSessionCacheTest."""
    listener, first = Listener(1), connection()
    begin(listener.sessions, A, first, FOO_0)
    assert code_of(listener.sessions, B, FIRST) == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    close(first)
    assert listener.sessions.get(A) is None
    begin(listener.sessions, B, connection(), FOO_0)


def test_all_sessions_end() -> None:
    """testRemoveAllSessions of ShareSessionCacheTest."""
    sessions = ShareSessions(3)
    for key in (A, B, C):
        begin(sessions, key, connection(), FOO_0)
    sessions.clear()
    assert len(sessions) == 0


def test_who_leaves_with_a_connection_is_reported_and_the_last_of_a_group() -> None:
    """testShareGroupListenerEvents, testShareGroupListener."""
    listener, first, second = Listener(), connection("/1"), connection("/2")
    begin(listener.sessions, A, first, FOO_0)
    begin(listener.sessions, B, second, FOO_0)
    listener.sessions.remove(A)
    assert (listener.left, listener.empty) == ([], []), "a member that ends its session has left by itself"
    begin(listener.sessions, A, first, FOO_0)
    close(first)
    assert (listener.left, listener.empty) == ([A], [])
    close(second)
    assert (listener.left, listener.empty) == ([A, B], ["grp"])


def test_groups_are_reported_by_themselves() -> None:
    """testShareGroupListenerEventsMultipleGroups."""
    listener, first, second = Listener(), connection("/1"), connection("/2")
    other = SessionKey("other", "a")
    begin(listener.sessions, A, first, FOO_0)
    begin(listener.sessions, other, second, FOO_0)
    close(first)
    assert (listener.left, listener.empty) == ([A], ["grp"])
    assert listener.sessions.get(other) is not None


def test_a_session_that_was_removed_before_empties_its_group_with_the_connection() -> None:
    """testShareGroupListenerEventsOnStaleSession."""
    listener, only = Listener(), connection()
    begin(listener.sessions, A, only, FOO_0)
    listener.sessions.remove(A)
    close(only)
    assert (listener.left, listener.empty) == ([], ["grp"])


def test_nobody_has_to_listen() -> None:
    """testNoShareGroupListenerRegistered, testShareGroupListenerWithEmptyCache."""
    sessions, only = ShareSessions(3), connection()
    begin(sessions, A, only, FOO_0)
    close(only)
    close(only)
    assert len(sessions) == 0


@pytest.mark.parametrize(
    "named",
    [
        pytest.param([], id="testNewContextReturnsFinalContextWithoutRequestData"),
        pytest.param([FOO_0, FOO_1], id="testNewContextReturnsFinalContextWithRequestData"),
        pytest.param([BAR_0], id="testNewContextReturnsFinalContextWhenTopicPartitionsArePresentInRequestData"),
    ],
)
def test_the_last_request_of_a_session_fetches_nothing(named: list[SharedPartition]) -> None:
    sessions = ShareSessions(10)
    begin(sessions, A, connection(), FOO_0, FOO_1)
    context = sessions.begin(A, LAST, named, (), connection())
    assert (context.partitions, context.epoch, context.session) == ([], LAST, None)


def test_a_session_that_is_not_there_or_is_at_another_epoch() -> None:
    """testNewContextThrowsErrorWhenShareSessionNotFoundOnFinalEpoch, testNewContext."""
    sessions = ShareSessions(10)
    assert code_of(sessions, A, LAST) == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert code_of(sessions, A, 1) == ErrorCode.SHARE_SESSION_NOT_FOUND
    begin(sessions, A, connection(), FOO_0)
    assert code_of(sessions, A, 5) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert sessions.begin(A, 1, [], (), connection()).partitions == [FOO_0]
    assert sessions.begin(A, 2, [], (), connection()).partitions == [FOO_0]
    assert code_of(sessions, A, 2) == ErrorCode.INVALID_SHARE_SESSION_EPOCH


def test_a_member_begins_its_session_again() -> None:
    """testNewContextExistingSessionNewRequestWithInitialEpoch."""
    sessions = ShareSessions(1)
    begin(sessions, A, connection(), FOO_0, FOO_1)
    begin(sessions, A, connection(), BAR_0)
    assert len(sessions) == 1
    assert sessions.begin(A, 1, [], (), connection()).partitions == [BAR_0]


def test_acknowledgements_are_of_the_sessions_epochs() -> None:
    """testAcknowledgeSessionUpdateThrowsOnInitialEpoch, testAcknowledgeSessionUpdateThrowsWhenShareSessionNotFound,
    testAcknowledgeSessionUpdateThrowsInvalidShareSessionEpochException,
    testAcknowledgeSessionUpdateSuccessOnSubsequentEpoch, testAcknowledgeSessionUpdateSuccessOnFinalEpoch."""
    sessions = ShareSessions(10)
    codes: list[ErrorCode] = []
    for key, epoch in ((A, FIRST), (A, 1)):
        with pytest.raises(Refusal) as refused:
            sessions.acknowledge(key, epoch)
        codes.append(refused.value.code)
    assert codes == [ErrorCode.INVALID_SHARE_SESSION_EPOCH, ErrorCode.SHARE_SESSION_NOT_FOUND]
    begin(sessions, A, connection(), FOO_0)
    sessions.acknowledge(A, 1)
    with pytest.raises(Refusal) as refused:
        sessions.acknowledge(A, 1)
    assert refused.value.code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    sessions.acknowledge(A, 2)
    sessions.acknowledge(A, LAST)


def test_a_request_changes_the_partitions_of_its_session() -> None:
    """testSubsequentShareSession, testToForgetPartitions, testCachedTopicPartitionsForValidShareSessions."""
    sessions = ShareSessions(10)
    begin(sessions, A, connection(), FOO_0, FOO_1)
    context = sessions.begin(A, 1, [BAR_0], [FOO_0.key], connection())
    assert context.partitions == [FOO_1, BAR_0]
    assert context.session is not None
    empty = SharePartitionData(0, records=b"")
    assert not context.session.takes(FOO_1.key, empty), "nothing is new of it"
    assert context.session.takes(BAR_0.key, empty), "the first response of a partition has it"
    assert not context.session.takes(BAR_0.key, empty)


def test_a_session_may_have_no_partition() -> None:
    """testZeroSizeShareSession, testCachedTopicPartitionsWithNoTopicPartitions."""
    sessions = ShareSessions(10)
    begin(sessions, A, connection(), FOO_0, FOO_1)
    assert sessions.begin(A, 1, [], [FOO_0.key, FOO_1.key], connection()).partitions == []
    assert len(sessions) == 1
    assert sessions.begin(A, 2, [], (), connection()).partitions == []


def test_each_request_begins_with_another_partition() -> None:
    """testRoundRobinStrategy, testRoundRobinStrategyWithSpecialSessionEpochs, testFetchMessagesRotatePartitions."""
    three = [FOO_0, FOO_1, BAR_0]
    at = {epoch: three.index(rotated_partitions(three, epoch)[0]) for epoch in (1, 5, 2**31 - 1, 3, FIRST, LAST)}
    assert at == {1: 1, 5: 2, 2**31 - 1: 1, 3: 0, FIRST: 0, LAST: 0}


def test_the_client_id_of_a_member_outlives_its_session() -> None:
    """The last delivery of its records ends after it; as many departed members are remembered as there are slots."""
    listener, where = Listener(2), [connection() for _ in range(3)]
    for key, each in zip((A, B), where, strict=False):
        listener.sessions.begin(key, FIRST, [FOO_0], (), each, f"app-{key.member_id}")
    assert [listener.sessions.client_id(key) for key in (A, B, C)] == ["app-a", "app-b", ""]
    close(where[0])
    listener.sessions.remove(B)
    assert [listener.sessions.client_id(key) for key in (A, B)] == ["app-a", "app-b"]
    listener.sessions.begin(C, FIRST, [FOO_0], (), where[2], "app-c")
    listener.sessions.remove(C)
    assert [listener.sessions.client_id(key) for key in (A, B, C)] == ["", "app-b", "app-c"]
    listener.sessions.begin(A, FIRST, [FOO_0], (), where[0], "another")
    assert listener.sessions.client_id(A) == "another"
