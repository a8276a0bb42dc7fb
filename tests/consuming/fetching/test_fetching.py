"""The fetching machine, a rule at a time; tests named as in Kafka's FetcherTest and FetchSessionHandlerTest are in brackets."""

from __future__ import annotations

import pytest

from coterie.consuming.effects import PartitionFailed, RefreshMetadata, SendFetch
from coterie.consuming.fetching.outcomes import REMEDIES, FetchRemedy, remedy
from coterie.consuming.fetching.position import FetchState
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.fetch import FetchResponse
from tests.consuming.cluster import T0, T1, U0
from tests.consuming.driven import Driven


def of(remedy: FetchRemedy) -> list[ErrorCode]:
    return [code for code, row in REMEDIES.items() if row is remedy]


def test_records_come_in_order_and_the_position_follows() -> None:
    """[testFetchNormal, testFetchMaxPollRecords]"""
    driven = Driven({T0: 1})
    driven.cluster.logs[T0].plain(5)
    driven.serve(driven.sent())
    assert driven.offsets(3) == {T0: [1, 2, 3]}
    assert driven.machine.positions[T0].offset == 4
    assert driven.offsets() == {T0: [4]}
    assert driven.machine.positions[T0].high_watermark == 5


def test_the_next_request_goes_out_before_the_records_are_taken() -> None:
    driven = Driven({T0: 0})
    driven.cluster.logs[T0].plain(5)
    driven.serve(driven.sent())
    assert driven.sent().wanted == {T0: (5, 0)}


def test_a_partition_whose_buffer_is_full_is_not_fetched() -> None:
    driven = Driven({T0: 0}, buffer_bytes=10)
    driven.cluster.logs[T0].plain(5)
    driven.serve(driven.sent())
    assert driven.effects() == []
    driven.offsets()
    driven.sent()


def test_the_leader_epoch_is_in_the_request() -> None:
    """[testEpochSetInFetchRequest]"""
    driven = Driven({T0: 0})
    driven.cluster.logs[T0].epoch_starts[99] = 0
    driven.cluster.metadata(driven.known)
    (topic,) = driven.sent().request.topics
    assert [p.current_leader_epoch for p in topic.partitions] == [99]


def test_each_leader_has_one_request() -> None:
    driven = Driven({T0: 0, T1: 0, U0: 0})
    first, second = driven.effects()
    assert isinstance(first, SendFetch)
    assert isinstance(second, SendFetch)
    assert {first.node_id: set(first.wanted), second.node_id: set(second.wanted)} == {1: {T0, U0}, 2: {T1}}
    assert driven.effects() == []
    driven.serve(second)
    driven.machine.drop([T1])
    assert driven.effects() == []


@pytest.mark.parametrize("code", of(FetchRemedy.FIND_LEADER))
def test_the_leader_is_looked_up_after_a_pause(code: ErrorCode) -> None:
    """[testFetchNotLeaderOrFollower, testFetchUnknownTopicOrPartition, testFetchUnknownTopicId, testFetchFencedLeaderEpoch]"""
    driven = Driven({T0: 0})
    driven.cluster.logs[T0].plain(1)
    driven.cluster.errors[T0].append(code)
    driven.serve(driven.sent())
    assert driven.effects() == []
    driven.cluster.move(T0, 2)
    driven.wait()
    assert driven.now_ms == 100
    driven.refresh()
    sent = driven.sent()
    assert sent.node_id == 2
    driven.serve(sent)
    assert driven.offsets() == {T0: [0]}


@pytest.mark.parametrize("code", of(FetchRemedy.RETRY))
def test_a_retry_asks_the_same_leader(code: ErrorCode) -> None:
    driven = Driven({T0: 0})
    driven.cluster.errors[T0].append(code)
    driven.serve(driven.sent())
    driven.wait()
    assert driven.sent().node_id == 1


@pytest.mark.parametrize("code", of(FetchRemedy.REPORT))
def test_an_error_that_stays_is_reported_once_a_poll(code: ErrorCode) -> None:
    """[testUnauthorizedTopic, testCorruptMessageError]"""
    driven = Driven({T0: 0})
    driven.cluster.logs[T0].plain(1)
    driven.cluster.errors[T0] += [code, code]
    for _ in range(2):
        driven.serve(driven.sent())
        assert driven.failure() == PartitionFailed(T0, code)
        assert driven.effects() == []
        assert driven.machine.next_deadline_ms() is None
        assert driven.offsets() == {}
    driven.serve(driven.sent())
    assert driven.offsets() == {T0: [0]}


def test_a_partition_that_fails_alone_does_not_slow_its_neighbours_down() -> None:
    driven = Driven({T0: 0, U0: 0})
    driven.cluster.errors[T0].append(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    driven.cluster.logs[U0].plain(1)
    driven.serve(driven.sent())
    assert driven.offsets() == {U0: [0]}
    sent = driven.sent()
    assert set(sent.wanted) == {U0}, "at once"
    driven.wait()
    driven.refresh()
    driven.serve(sent)
    assert set(driven.sent().wanted) == {T0, U0}


def test_pauses_double_and_a_success_begins_a_new_row() -> None:
    driven = Driven({T0: 0})
    pauses_ms = []
    for codes in [[ErrorCode.NOT_LEADER_OR_FOLLOWER] * 6, [ErrorCode.NONE], [ErrorCode.NOT_LEADER_OR_FOLLOWER]]:
        for code in codes:
            if code:
                driven.cluster.errors[T0].append(code)
            driven.serve(driven.sent())
            if code:
                before_ms = driven.now_ms
                driven.wait()
                pauses_ms.append(driven.now_ms - before_ms)
                driven.refresh()
    assert pauses_ms == [100, 200, 400, 800, 1_000, 1_000, 100]


def test_a_partition_without_a_leader_is_looked_up_until_it_has_one() -> None:
    driven = Driven({T0: 0})
    driven.known.forget_topic("t")
    for pause_ms in (100, 200):
        (refresh,) = driven.effects()
        assert refresh == RefreshMetadata(frozenset({"t"}))
        driven.machine.metadata_refreshed(refresh, driven.now_ms, 0.0)
        assert driven.effects() == []
        before_ms = driven.now_ms
        driven.wait()
        assert driven.now_ms - before_ms == pause_ms
    driven.refresh()
    driven.sent()


def test_an_offset_that_the_log_does_not_have_waits_for_a_reset() -> None:
    """[testFetchOffsetOutOfRange]"""
    driven = Driven({T0: 7})
    driven.serve(driven.sent())
    assert driven.machine.resets_due() == [T0]
    assert driven.effects() == []
    driven.machine.seek(T0, 0)
    assert driven.machine.resets_due() == []
    driven.sent()


def test_what_was_fetched_before_the_log_was_cut_is_handed_out_before_the_reset() -> None:
    driven = Driven({T0: 0})
    log = driven.cluster.logs[T0]
    log.plain(3)
    driven.serve(driven.sent())
    sent = driven.sent()
    log.plain(3)
    log.start = 6
    log.end = 6
    driven.cluster.errors[T0].append(ErrorCode.OFFSET_OUT_OF_RANGE)
    driven.serve(sent)
    assert driven.machine.positions[T0].state is FetchState.AWAIT_RESET
    assert driven.machine.resets_due() == []
    assert driven.offsets() == {T0: [0, 1, 2]}
    assert driven.machine.resets_due() == [T0]


def test_a_response_to_an_older_position_is_dropped() -> None:
    """[testStaleOutOfRangeError, testFetchedRecordsAfterSeek]"""
    driven = Driven({T0: 7})
    driven.cluster.logs[T0].plain(3)
    sent = driven.sent()
    driven.machine.seek(T0, 1)
    driven.serve(sent)
    assert driven.machine.resets_due() == []
    assert driven.offsets() == {}
    driven.serve(driven.sent())
    assert driven.offsets() == {T0: [1, 2]}


def test_a_paused_partition_keeps_what_was_fetched() -> None:
    """[testInFlightFetchOnPausedPartition, testFetchOnPausedPartition]"""
    driven = Driven({T0: 0})
    driven.cluster.logs[T0].plain(2)
    sent = driven.sent()
    driven.machine.positions[T0].paused = True
    driven.serve(sent)
    assert driven.offsets() == {}
    assert driven.effects() == []
    driven.machine.positions[T0].paused = False
    assert driven.offsets() == {T0: [0, 1]}


@pytest.mark.parametrize("code", [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH])
def test_a_lost_session_is_made_anew_at_once_but_only_once(code: ErrorCode) -> None:
    """[testFetchSessionIdError]"""
    driven = Driven({T0: 0})
    driven.serve(driven.sent())
    sent = driven.sent()
    assert sent.request.session_epoch == 1
    driven.machine.responded(sent, FetchResponse(error_code=code), driven.now_ms, 0.0)
    sent = driven.sent()
    former_id = 1 if code is ErrorCode.INVALID_FETCH_SESSION_EPOCH else 0  # which the broker still has
    assert (sent.request.session_id, sent.request.session_epoch) == (former_id, 0)
    driven.machine.responded(sent, FetchResponse(error_code=code), driven.now_ms, 0.0)
    assert driven.effects() == []
    driven.wait()
    driven.refresh()
    driven.sent()


def test_a_response_in_full_that_lacks_a_partition_is_no_response() -> None:
    """[testVerifyFullFetchResponsePartitions]"""
    driven = Driven({T0: 0, U0: 0})
    sent = driven.sent()
    driven.machine.responded(sent, FetchResponse(session_id=5), driven.now_ms, 0.0)
    assert driven.effects() == []
    driven.wait()
    driven.refresh()
    sent = driven.sent()
    assert (sent.request.session_id, sent.request.session_epoch) == (0, 0)


def test_records_of_aborted_transactions_are_passed_over() -> None:
    """[testReadCommittedWithCommittedAndAbortedTransactions]"""
    driven = Driven({T0: 0}, committed_only=True)
    log = driven.cluster.logs[T0]
    log.transaction(1, 2, committed=False)
    log.plain(1)
    log.transaction(2, 1, committed=True)
    sent = driven.sent()
    assert sent.request.isolation_level == 1
    driven.serve(sent)
    assert driven.offsets() == {T0: [3, 4]}
    assert driven.machine.positions[T0].offset == 6


def test_batches_as_they_are_stored_are_all_handed_out() -> None:
    driven = Driven({T0: 0}, committed_only=True, as_stored=True)
    log = driven.cluster.logs[T0]
    log.transaction(1, 2, committed=False)
    log.plain(1)
    driven.serve(driven.sent())
    ((_, stored),) = driven.machine.take_batches(1_000_000).values()
    assert [batch.header.base_offset for batch in stored] == [0, 2, 3]


def test_a_partition_that_fails_for_longer_than_the_timeout_is_reported() -> None:
    driven = Driven({T0: 0}, timeout_ms=250)
    driven.cluster.errors[T0] += [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 9
    driven.serve(driven.sent())
    for now_ms in (100, 250):
        driven.wait()
        assert driven.now_ms == now_ms
        driven.refresh()
        driven.serve(driven.sent())
    assert driven.failure() == PartitionFailed(T0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert driven.effects() == []


def test_a_code_without_a_row_is_retried_where_kafka_calls_it_retriable() -> None:
    assert remedy(ErrorCode.REQUEST_TIMED_OUT) is FetchRemedy.FIND_LEADER
    assert remedy(ErrorCode.INVALID_REQUEST) is FetchRemedy.REPORT


def test_records_that_two_leaders_return_are_stored_once() -> None:
    """The leader moves while a request to the former one is under way."""
    driven = Driven({T0: 0, U0: 0})
    driven.cluster.logs[T0].plain(3)
    first = driven.sent()
    response, _ = driven.cluster.fetch(first.node_id, first.request)
    driven.cluster.move(T0, 2)
    driven.cluster.metadata(driven.known)
    driven.serve(driven.sent())
    driven.machine.responded(first, response, driven.now_ms, 0.0)
    assert driven.offsets() == {T0: [0, 1, 2]}
    assert driven.machine.damage_due() is None


def test_the_error_of_a_partition_that_was_given_up_is_not_reported() -> None:
    driven = Driven({T0: 0, U0: 0})
    driven.cluster.errors[T0].append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    sent = driven.sent()
    driven.machine.drop([T0])
    driven.serve(sent)
    assert not any(isinstance(effect, PartitionFailed) for effect in driven.effects())


def test_a_seek_keeps_the_pause_of_the_caller() -> None:
    driven = Driven({T0: 0})
    driven.machine.positions[T0].paused = True
    driven.machine.seek(T0, 1)
    assert driven.effects() == []


def test_a_response_without_news_of_a_partition_ends_its_row_of_failures() -> None:
    """In a session the broker leaves out what has not changed."""
    driven = Driven({T0: 0, U0: 0})
    driven.serve(driven.sent())
    driven.cluster.errors[T0].append(ErrorCode.UNKNOWN_SERVER_ERROR)
    driven.serve(driven.sent())
    driven.wait()
    sent = driven.sent()
    driven.machine.responded(sent, FetchResponse(session_id=sent.request.session_id), driven.now_ms, 0.0)
    assert driven.machine.positions[T0].retries is None


def test_a_session_that_worked_again_may_be_lost_again_without_a_pause() -> None:
    driven = Driven({T0: 0})
    for _ in range(2):
        driven.serve(driven.sent())
        driven.cluster.sessions[1]._sessions.clear()
        assert driven.serve(driven.sent()).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert driven.sent().request.session_epoch == 0


def test_after_a_lost_connection_the_session_begins_anew() -> None:
    """[testFetchDisconnected]"""
    driven = Driven({T0: 0})
    driven.serve(driven.sent())
    driven.machine.failed(driven.sent(), ErrorCode.NETWORK_EXCEPTION, driven.now_ms, 0.0)
    driven.wait()
    driven.refresh()
    assert driven.sent().request.session_epoch == 0


def test_an_offset_out_of_range_ends_the_row_of_failures() -> None:
    driven = Driven({T0: 7})
    driven.cluster.errors[T0].append(ErrorCode.UNKNOWN_SERVER_ERROR)
    driven.serve(driven.sent())
    driven.wait()
    driven.serve(driven.sent())
    assert driven.machine.resets_due() == [T0]
    assert driven.machine.positions[T0].retries is None
    assert driven.machine.next_deadline_ms() is None


def test_a_request_that_fails_as_a_whole_means_what_its_code_means_for_a_partition() -> None:
    """Kafka's consumer repeats it after UNKNOWN_SERVER_ERROR (FetchSessionHandler.handleResponse)."""
    driven = Driven({T0: 0})
    response = FetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    driven.machine.responded(driven.sent(), response, driven.now_ms, 0.0)
    driven.wait()
    driven.refresh()
    response = FetchResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    driven.machine.responded(driven.sent(), response, driven.now_ms, 0.0)
    assert driven.failure() == PartitionFailed(T0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def test_a_close_ends_the_sessions_that_there_are() -> None:
    """[testFetcherCloseClosesFetchSessionsInBroker, testCloseShouldBeIdempotent]"""
    driven = Driven({T0: 0, T1: 0})
    first, second = driven.effects()
    assert isinstance(first, SendFetch)
    assert isinstance(second, SendFetch)
    driven.serve(first)
    assert len(driven.cluster.sessions[first.node_id]) == 1
    (sent,) = driven.machine.close()
    assert sent.node_id == first.node_id, "the other broker has not given a session yet"
    assert (sent.request.session_epoch, sent.request.topics) == (-1, [])
    driven.cluster.fetch(sent.node_id, sent.request)
    assert len(driven.cluster.sessions[first.node_id]) == 0
    assert driven.machine.close() == []


def test_without_sessions_a_close_sends_nothing() -> None:
    driven = Driven({T0: 0}, incremental=False)
    driven.serve(driven.sent())
    assert driven.machine.close() == []
