"""Fetches and acknowledgements of a share consumer, against a scripted broker (Kafka's ShareConsumeRequestManagerTest)."""

from __future__ import annotations

import pytest

from coterie.consuming.sharing.node import RECORD_LIMIT
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.share.share_acknowledge import ShareAcknowledgeRequest
from coterie.wire.messages.share.share_fetch import ShareFetchRequest
from tests.consuming.sharing.share_peer import IDS, T0, T1, U0, SharePeer, batch, named, part

_E = ErrorCode


def test_records_are_acquired_once_they_are_wanted_and_no_more_follow() -> None:
    """testFetchNormal testFetchWithAcquiredRecords testMultipleFetches (ShareConsumeRequestManagerTest)"""
    peer = SharePeer()
    peer.machine.assign([T0])
    assert peer.run() == []
    peer.machine.want()
    (sent,) = peer.run()
    assert isinstance(sent.request, ShareFetchRequest)
    assert (sent.request.share_session_epoch, sent.request.max_records, named(sent.request)) == (0, 500, [("t", 0, [])])
    assert peer.run() == []  # one request a broker
    peer.fetched(part(T0))
    (sent,) = peer.run()
    assert (sent.request.share_session_epoch, named(sent.request)) == (1, [])
    peer.fetched(part(T0, [(0, 2, 1)], batch(0, 3)))
    assert peer.run() == [], "records wait for the caller"
    (completed,) = peer.machine.buffered
    assert [r.value for r in completed.take(500, None).records] == [b"v0", b"v1", b"v2"]


def test_acknowledgements_travel_with_the_next_fetch() -> None:
    """testPiggybackAcknowledgementsInFlight"""
    peer = SharePeer()
    peer.with_session(T0)
    peer.machine.want([peer.acks(T0, 0, 1)])
    (sent,) = peer.run()
    assert named(sent.request) == [("t", 0, [(0, 1, [1])])]
    assert peer.ended() == []
    peer.fetched(part(T0))
    assert peer.ended() == [(T0, [0, 1], "NONE")]


def test_an_error_of_carried_acknowledgements_ends_them() -> None:
    """testAcknowledgeErrorMessagePropagatedFromFetchResponse"""
    peer = SharePeer()
    peer.with_session(T0)
    peer.machine.want([peer.acks(T0, 0)])
    peer.run()
    peer.fetched(part(T0, acknowledged=_E.INVALID_RECORD_STATE))
    assert peer.ended() == [(T0, [0], "INVALID_RECORD_STATE")]


def test_a_new_session_carries_no_acknowledgements() -> None:
    """testPiggybackAcknowledgementsOnInitialShareSessionError testNextAcknowledgementsClearedOnInvalidRequest"""
    peer = SharePeer()
    peer.with_session(T0)
    peer.machine.want()
    peer.run()
    peer.fetched(code=_E.SHARE_SESSION_NOT_FOUND)
    peer.machine.want([peer.acks(T0, 0)])
    (sent,) = peer.run(1000)
    assert (sent.request.share_session_epoch, named(sent.request)) == (0, [("t", 0, [])])
    assert peer.ended() == [(T0, [0], "NETWORK_EXCEPTION")]


def test_acknowledgements_of_a_session_that_the_broker_lost_have_failed() -> None:
    """testPiggybackAcknowledgementsOnInitialShareSession_ShareSessionNotFound testHandleFetchResponseError"""
    peer = SharePeer()
    peer.with_session(T0)
    peer.machine.want([peer.acks(T0, 0)])
    peer.run()
    peer.fetched(code=_E.SHARE_SESSION_NOT_FOUND)
    assert peer.ended() == [(T0, [0], "NETWORK_EXCEPTION")]


def test_a_commit_goes_out_by_itself() -> None:
    """testCommitSync testCommitAsync testResultHandlerOnCommitSync testResultHandlerOnCommitAsync"""
    peer = SharePeer()
    peer.with_session(T0)
    peer.machine.commit([peer.acks(T0, 0, 2, 3)], 60_000)
    (sent,) = peer.run()
    assert isinstance(sent.request, ShareAcknowledgeRequest)
    assert (sent.request.share_session_epoch, named(sent.request)) == (1, [("t", 0, [(0, 0, [1]), (2, 3, [1])])])
    peer.acknowledged((T0, _E.NONE))
    assert peer.ended() == [(T0, [0, 2, 3], "NONE")]
    assert peer.run() == []


def test_commits_wait_for_the_request_under_way_and_keep_their_results_apart() -> None:
    """testBatchingAcknowledgeRequestStates testPendingCommitAsyncBeforeCommitSync"""
    peer = SharePeer()
    peer.with_session(T0, U0)
    peer.machine.commit([peer.acks(T0, 0)], 60_000)
    peer.run()
    peer.machine.commit([peer.acks(T0, 1)], 60_000)
    peer.machine.commit([peer.acks(U0, 7), peer.acks(T0, 2)], 60_000)
    assert peer.run() == []
    peer.acknowledged((T0, _E.NONE))
    (sent,) = peer.run()
    assert named(sent.request) == [("t", 0, [(1, 1, [1])]), ("u", 0, [(7, 7, [1])])]
    peer.acknowledged((T0, _E.INVALID_RECORD_STATE), (U0, _E.NONE))
    peer.run()
    peer.acknowledged((T0, _E.NONE))
    assert [(offsets, code) for _, offsets, code in peer.ended()] == [
        ([0], "NONE"),
        ([1], "INVALID_RECORD_STATE"),
        ([7], "NONE"),
        ([2], "NONE"),
    ]


def test_an_error_that_passes_is_retried_until_the_deadline() -> None:
    """testRetryAcknowledgements testRetryAcknowledgementsMultipleCommitAsync testRetryAcknowledgementsMultipleCommitSync"""
    peer = SharePeer()
    peer.with_session(T0)
    peer.machine.commit([peer.acks(T0, 0)], 1_000)
    peer.run()
    peer.acknowledged((T0, _E.REQUEST_TIMED_OUT))
    assert (peer.run(), peer.ended()) == ([], [])
    assert peer.machine.next_deadline_ms() == 100
    (sent,) = peer.run(100)
    assert sent.request.share_session_epoch == 2
    peer.acknowledged(code=_E.COORDINATOR_LOAD_IN_PROGRESS)
    peer.run(2_000)
    assert peer.ended() == [(T0, [0], "REQUEST_TIMED_OUT")]


def test_an_error_without_a_remedy_ends_them_and_is_reported() -> None:
    """testFatalErrorsAcknowledgementResponse"""
    peer = SharePeer()
    peer.with_session(T0)
    peer.machine.commit([peer.acks(T0, 0)], 60_000)
    peer.run()
    peer.acknowledged(code=_E.GROUP_AUTHORIZATION_FAILED)
    assert peer.ended() == [(T0, [0], "GROUP_AUTHORIZATION_FAILED")]
    assert [code for _, code, _ in peer.machine.errors] == [_E.GROUP_AUTHORIZATION_FAILED]


def test_a_lost_connection_ends_the_session_and_its_acknowledgements() -> None:
    """testServerDisconnectedOnShareAcknowledge testFetchDisconnected testWhenLeadershipChangedAfterDisconnected"""
    peer = SharePeer()
    peer.with_session(T0)
    peer.machine.commit([peer.acks(T0, 0)], 60_000)
    peer.run()
    peer.disconnected()
    assert peer.ended() == [(T0, [0], "NETWORK_EXCEPTION")]
    peer.machine.commit([peer.acks(T0, 1)], 60_000)
    assert peer.run(100) == []
    assert peer.ended() == [(T0, [1], "SHARE_SESSION_NOT_FOUND")]
    peer.refreshed()
    peer.leads({T0: 2}, epoch=1)
    peer.machine.want()
    (sent,) = peer.run(100)
    assert (sent.node_id, sent.request.share_session_epoch) == (2, 0)


@pytest.mark.parametrize("how", ["disconnected", "lost"])
def test_records_that_the_broker_has_released_are_not_handed_out(how: str) -> None:
    peer = SharePeer()
    peer.with_session(T0, T1)
    peer.machine.want()
    peer.run()
    peer.fetched(part(T0, [(0, 0, 1)], batch(0, 1)))
    peer.fetched(part(T1, [(0, 0, 1)], batch(0, 1)), node=2)
    peer.machine.commit([peer.acks(T0, 9)], 60_000)
    peer.run()
    peer.disconnected() if how == "disconnected" else peer.acknowledged(code=_E.SHARE_SESSION_NOT_FOUND)
    assert [completed.partition.named for completed in peer.machine.buffered] == [T1]


def test_a_leader_that_moved_is_followed_and_acknowledgements_to_the_former_one_fail() -> None:
    """testLeadershipChangeAfterFetchBeforeCommitAsync testLeadershipChangeAfterFetchBeforeCommitSync
    testRetryAcknowledgementsWithLeaderChange testWhenLeadershipChangeBetweenShareFetchRequests"""
    peer = SharePeer()
    peer.with_session(T0)
    peer.machine.commit([peer.acks(T0, 0)], 60_000)
    peer.run()
    peer.acknowledged((T0, _E.NOT_LEADER_OR_FOLLOWER), leader=(2, 1))
    assert peer.ended() == [(T0, [0], "NOT_LEADER_OR_FOLLOWER")]
    peer.machine.want()
    sent = {each.node_id: each.request for each in peer.run()}
    former, new = sent[1], sent[2]
    assert isinstance(former, ShareFetchRequest)
    assert [(t.topic_id, t.partitions) for t in former.forgotten_topics_data] == [(IDS["t"], [0])]
    assert (new.share_session_epoch, named(new)) == (0, [("t", 0, [])])


def test_a_fetch_from_a_former_leader_goes_to_the_one_that_it_names() -> None:
    """testWhenShareFetchResponseReturnsWithALeadershipChangeErrorAndNewLeaderInformation"""
    peer = SharePeer()
    peer.with_session(T0)
    peer.machine.want()
    peer.run()
    peer.fetched(part(T0, code=_E.NOT_LEADER_OR_FOLLOWER, leader=(2, 1)))
    assert [each.node_id for each in peer.run()] == [2]


def test_a_leader_that_is_not_named_is_looked_up() -> None:
    """testWhenShareFetchResponseReturnsALeadershipChangeErrorButNoNewLeaderInformation testUnknownTopicIdError"""
    peer = SharePeer()
    peer.with_session(T0)
    peer.machine.want()
    peer.run()
    peer.fetched(part(T0, code=_E.UNKNOWN_TOPIC_ID))
    peer.run()
    assert [refresh.topics for refresh in peer.refreshes] == [frozenset({"t"})]


def test_an_error_of_one_partition_leaves_the_others() -> None:
    """testMultipleTopicsFetch testMultipleTopicsFetchError testUnauthorizedTopic testFetchError"""
    peer = SharePeer()
    peer.machine.assign([T0, U0])
    peer.machine.want()
    peer.run()
    peer.fetched(part(T0, code=_E.TOPIC_AUTHORIZATION_FAILED), part(U0, [(0, 0, 1)], batch(0, 1)))
    assert [(where, code) for where, code, _ in peer.machine.errors] == [(T0, _E.TOPIC_AUTHORIZATION_FAILED)]
    assert [completed.partition.named for completed in peer.machine.buffered] == [U0]


@pytest.mark.parametrize(
    ("code", "reported"),
    [
        (_E.TOPIC_AUTHORIZATION_FAILED, True),
        (_E.CORRUPT_MESSAGE, True),
        (_E.INVALID_REQUEST, True),
        (_E.UNKNOWN_LEADER_EPOCH, False),
        (_E.UNKNOWN_SERVER_ERROR, False),
    ],
)
def test_which_errors_are_reported(code: ErrorCode, reported: bool) -> None:
    """testFetchWithTopicAuthorizationFailed testFetchWithCorruptMessage testCorruptMessageError testFetchWithOtherErrors
    testFetchWithUnknownLeaderEpoch testFetchWithUnknownServerError: the others are looked into with new metadata"""
    peer = SharePeer()
    peer.with_session(T0)
    peer.machine.want()
    peer.run()
    peer.fetched(part(T0, code=code))
    assert [each for _, each, _ in peer.machine.errors] == ([code] if reported else [])
    peer.run()
    assert len(peer.refreshes) == (not reported)


def test_one_request_commits_records_of_several_partitions() -> None:
    """testAcknowledgementCommitCallbackMultiplePartitionCommitAsync"""
    peer = SharePeer()
    peer.with_session(T0, U0)
    peer.machine.commit([peer.acks(T0, 0, 1), peer.acks(U0, 0)], 60_000)
    (sent,) = peer.run()
    assert named(sent.request) == [("t", 0, [(0, 1, [1])]), ("u", 0, [(0, 0, [1])])]
    peer.acknowledged((T0, _E.NONE), (U0, _E.INVALID_RECORD_STATE))
    assert peer.ended() == [(T0, [0, 1], "NONE"), (U0, [0], "INVALID_RECORD_STATE")]


@pytest.mark.parametrize("offsets", [[0, 1], []])
def test_another_broker_leads_what_is_assigned_now(offsets: list[int]) -> None:
    """testShareFetchWithSubscriptionChangeMultipleNodes testShareFetchWithSubscriptionChangeMultipleNodesEmptyAcknowledgements:
    the former partition's leader gets its acknowledgements and forgets it"""
    peer = SharePeer()
    peer.with_session(T0)
    peer.machine.assign([T1])
    peer.machine.want([peer.acks(T0, *offsets)] if offsets else [])
    sent = {each.node_id: each.request for each in peer.run()}
    former, present = sent[1], sent[2]
    assert isinstance(former, ShareFetchRequest)
    assert [(t.topic_id, t.partitions) for t in former.forgotten_topics_data] == [(IDS["t"], [0])]
    assert named(former) == ([("t", 0, [(0, 1, [1])])] if offsets else [])
    assert (present.share_session_epoch, named(present)) == (0, [("t", 1, [])])


def test_a_close_acknowledges_what_is_assigned_no_more() -> None:
    """testCloseWithSubscriptionChange"""
    peer = SharePeer()
    peer.with_session(T0)
    peer.machine.assign([U0])
    peer.machine.close([peer.acks(T0, 0, 1, 2)])
    (last,) = peer.run()
    assert (last.request.share_session_epoch, named(last.request)) == (-1, [("t", 0, [(0, 2, [1])])])
    peer.acknowledged((T0, _E.NONE))
    assert (peer.ended(), peer.run(), peer.machine.is_closed) == ([(T0, [0, 1, 2], "NONE")], [], True)


def test_leaders_that_move_before_the_close() -> None:
    """testLeadershipChangeAfterFetchBeforeCloseMove testLeadershipChangeAfterFetchMoveBeforeClose
    testLeadershipChangeAfterFetchMoveBeforeCloseMove: each broker that has delivered records gets their acknowledgements"""
    peer = SharePeer()
    peer.with_session(T0, T1)
    peer.leads({T0: 2, T1: 2}, epoch=1)
    peer.machine.close([peer.acks(T0, 1), peer.acks(T1, 1, 2, node=2)])
    sent = {each.node_id: each.request for each in peer.run()}
    assert {node: (request.share_session_epoch, named(request)) for node, request in sent.items()} == {
        1: (-1, [("t", 0, [(1, 1, [1])])]),
        2: (-1, [("t", 1, [(1, 2, [1])])]),
    }
    peer.acknowledged((T0, _E.NOT_LEADER_OR_FOLLOWER))
    peer.acknowledged((T1, _E.NONE), node=2)
    assert peer.ended() == [(T0, [1], "NOT_LEADER_OR_FOLLOWER"), (T1, [1, 2], "NONE")]


def test_a_response_that_leaves_out_an_acknowledged_partition() -> None:
    """testShareFetchInvalidResponse testShareAcknowledgeInvalidResponse"""
    peer = SharePeer()
    peer.with_session(T0)
    peer.machine.want([peer.acks(T0, 0)])
    peer.run()
    peer.fetched(part(U0))
    peer.machine.commit([peer.acks(T0, 1)], 60_000)
    peer.run()
    peer.acknowledged()
    assert [code for *_, code in peer.ended()] == ["INVALID_RECORD_STATE"] * 2


def test_partitions_that_are_assigned_no_more_are_forgotten() -> None:
    """testShareFetchRemovesUnassignedPartitionFromSession testShareFetchWithSubscriptionChange
    testCommitAsyncWithSubscriptionChange testCommitSyncWithSubscriptionChange"""
    peer = SharePeer()
    peer.with_session(T0, U0)
    peer.machine.assign([U0])
    peer.machine.want([peer.acks(T0, 5)])
    (sent,) = peer.run()
    assert isinstance(sent.request, ShareFetchRequest)
    assert named(sent.request) == [("t", 0, [(5, 5, [1])])]
    assert [(t.topic_id, t.partitions) for t in sent.request.forgotten_topics_data] == [(IDS["t"], [0])]
    peer.fetched(part(T0), part(U0))
    assert peer.ended() == [(T0, [5], "NONE")]


def test_a_renewal_acquires_nothing() -> None:
    """testShareFetchWithRenewAcknowledgement testCommitWithRenewAcknowledgements"""
    peer = SharePeer()
    peer.with_session(T0)
    renewed = peer.acks(T0, 0, kind=4)
    peer.machine.want([renewed])
    (sent,) = peer.run()
    request = sent.request
    assert isinstance(request, ShareFetchRequest)
    sizes = request.max_wait_ms, request.min_bytes, request.max_bytes, request.max_records, request.batch_size
    assert (request.is_renew_ack, sizes) == (True, (0, 0, 0, 0, 0))
    peer.fetched(part(T0), lock_ms=20_000)
    assert (peer.ended(), renewed.lock_timeout_ms) == ([(T0, [0], "NONE")], 20_000)
    peer = SharePeer()
    peer.with_session(T0)
    peer.machine.commit([peer.acks(T0, 0, kind=4)], 60_000)
    (sent,) = peer.run()
    assert sent.request.is_renew_ack


def test_one_broker_at_a_time_acquires_with_a_limit_of_records() -> None:
    """testFetchOneNodeAtATimeForRecordLimitMode"""
    peer = SharePeer(acquire_mode=RECORD_LIMIT)
    peer.machine.assign([T0, T1])
    peer.machine.want()
    first, second = peer.run()
    assert isinstance(first.request, ShareFetchRequest)
    assert isinstance(second.request, ShareFetchRequest)
    assert (first.request.max_records, second.request.max_records) == (500, 0)
    assert first.request.share_acquire_mode == 1
    peer.fetched(part(T1), node=2)
    assert peer.run() == [], "the other broker's turn comes after the first"
    peer.fetched(part(T0))
    turns = peer.run()
    assert [each.request.max_records for each in turns if isinstance(each.request, ShareFetchRequest)] == [500]


def test_a_close_sends_the_last_acknowledgements_and_ends_each_session() -> None:
    """testAcknowledgeOnClose testAcknowledgeOnCloseWithPendingCommitAsync testAcknowledgeOnCloseWithPendingCommitSync
    testShareFetchAndCloseMultipleNodes"""
    peer = SharePeer()
    peer.with_session(T0, T1)
    peer.machine.commit([peer.acks(T0, 0)], 60_000)
    peer.machine.close([peer.acks(T0, 1)])
    sent = {each.node_id: each.request for each in peer.run()}
    assert (sent[1].share_session_epoch, sent[2].share_session_epoch) == (1, -1)
    peer.acknowledged((T0, _E.NONE))
    (last,) = peer.run()
    assert (last.request.share_session_epoch, named(last.request)) == (-1, [("t", 0, [(1, 1, [1])])])
    assert not peer.machine.is_closed
    peer.acknowledged((T0, _E.NONE))
    peer.acknowledged(node=2)
    assert peer.machine.is_closed
    assert [offsets for _, offsets, _ in peer.ended()] == [[0], [1]]


def test_a_close_without_a_session_is_done() -> None:
    """testCloseShouldBeIdempotent testCloseFutureCompletedWhenMemberIdIsNull"""
    peer = SharePeer()
    peer.machine.close([])
    assert (peer.run(), peer.machine.is_closed) == ([], True)


def test_acknowledgements_for_a_broker_without_a_session() -> None:
    """Where another broker leads the partition, that is the error of a commit."""
    peer = SharePeer()
    peer.machine.commit([peer.acks(T0, 0, node=9)], 60_000)
    peer.machine.want([peer.acks(T0, 1, node=9)])
    peer.leads({T0: 9}, epoch=1)  # a broker without an address
    peer.machine.commit([peer.acks(T0, 2, node=9)], 60_000)
    codes = [code for *_, code in peer.ended()]
    assert codes == ["NOT_LEADER_OR_FOLLOWER", "NETWORK_EXCEPTION", "NETWORK_EXCEPTION"]


def test_a_broker_that_the_metadata_has_no_longer() -> None:
    """testFetchRecoversWhenCachedLeaderNodeDisappearsFromMetadata testAcknowledgeRequestFailedWhenNodeDisappearsBeforeSend
    testSessionHandlerRemovedAndPiggybackAcksFailedWhenNodeDisappears: its session is over, nothing is sent to it"""
    peer = SharePeer()
    peer.with_session(T0)
    peer.machine.commit([peer.acks(T0, 0)], 60_000)
    peer.machine.want([peer.acks(T0, 1)])
    peer.leads({T0: 2}, epoch=1, brokers=[2])
    assert [(each.node_id, each.request.share_session_epoch) for each in peer.run()] == [(2, 0)]
    assert peer.ended() == [(T0, [0], "NOT_LEADER_OR_FOLLOWER"), (T0, [1], "NETWORK_EXCEPTION")]
    peer.fetched(part(T0), node=2)
    peer.leads({T0: 1}, epoch=2)
    assert [(each.node_id, each.request.share_session_epoch) for each in peer.run()] == [(1, 0), (2, 1)]


def test_a_broker_that_leads_nothing_after_its_failure_is_no_deadline() -> None:
    """Once its pause is over, nothing is to be sent to it until it leads a partition again."""
    peer = SharePeer()
    peer.with_session(T0)
    peer.machine.want()
    peer.run()
    peer.disconnected()
    peer.leads({T0: 2}, epoch=1)
    peer.run()
    peer.refreshed()
    peer.run(60_000)
    (sent,) = peer.sent
    assert sent.node_id == 2
    assert peer.machine.next_deadline_ms() is None
    peer.leads({T0: 1}, epoch=2)
    assert [each.node_id for each in peer.run()] == [1], "it is asked again where it leads again"


def _without_partitions(*acknowledged: int, buffered: bool = False) -> SharePeer:
    """Broker 1 has a session and leads nothing any more; the request that says so is under way."""
    peer = SharePeer()
    peer.with_session(T0)
    if buffered:
        peer.machine.want()
        peer.run()
        peer.fetched(part(T0, [(0, 0, 1)], batch(0, 1)))
    peer.leads({T0: 2}, epoch=1)
    peer.machine.want([peer.acks(T0, *acknowledged)] if acknowledged else [])
    assert {each.node_id for each in peer.run()} == {1, 2}
    return peer


def test_the_session_at_a_broker_that_leads_nothing_any_more_is_closed() -> None:
    """testCloseSessionWhenNoSharePartitions"""
    peer = _without_partitions()
    peer.fetched(part(T0))
    (sent,) = peer.run()
    assert isinstance(sent.request, ShareAcknowledgeRequest)
    assert (sent.node_id, sent.request.share_session_epoch, named(sent.request)) == (1, -1, [])
    peer.acknowledged()
    assert peer.run() == []
    peer.leads({T0: 1}, epoch=2)
    peer.fetched(part(T0), node=2)
    assert [(each.node_id, each.request.share_session_epoch) for each in peer.run()] == [(1, 0), (2, 1)]


def test_no_session_is_closed_while_records_of_it_are_buffered() -> None:
    """testDoesNotCloseSessionWhileRecordsBuffered"""
    peer = _without_partitions(buffered=True)
    peer.fetched(part(T0))
    assert peer.run() == []
    peer.machine.buffered.clear()
    (sent,) = peer.run()
    assert (sent.node_id, sent.request.share_session_epoch) == (1, -1)


def test_no_session_is_closed_while_a_renewed_record_is_in_hand() -> None:
    """testHasPendingAcknowledgements"""
    peer = SharePeer()
    peer.with_session(T0, T1)
    peer.machine.assign([T1])
    peer.machine.want([peer.acks(T0, 0, kind=4)])
    peer.run()
    peer.fetched(part(T0))
    assert peer.run() == []
    peer.machine.commit([peer.acks(T0, 0)], 60_000)
    peer.run()
    peer.acknowledged((T0, _E.NONE))
    (sent,) = peer.run()
    assert (sent.node_id, sent.request.share_session_epoch) == (1, -1)


def test_no_session_is_closed_while_acknowledgements_wait_for_it() -> None:
    """testDoesNotCloseSessionWhileAcknowledgementsPending"""
    peer = _without_partitions(0)
    peer.machine.commit([peer.acks(T0, 1)], 60_000)
    peer.fetched(part(T0))
    (sent,) = peer.run()
    assert (sent.request.share_session_epoch, named(sent.request)) == (2, [("t", 0, [(1, 1, [1])])])
    assert peer.run() == []
    peer.acknowledged((T0, _E.REQUEST_TIMED_OUT))
    assert peer.run() == [], "they are sent once more after a pause, in the same session"
    (sent,) = peer.run(100)
    assert sent.request.share_session_epoch == 3
    peer.acknowledged((T0, _E.NONE))
    (sent,) = peer.run()
    assert sent.request.share_session_epoch == -1


def test_a_new_session_at_a_broker_that_leads_nothing_any_more() -> None:
    """testPiggybackAcknowledgementsOnInitialShareSessionErrorTopicRemovedFromMetadata"""
    peer = SharePeer()
    peer.with_session(T0)
    peer.machine.want()
    peer.run()
    peer.fetched(code=_E.SHARE_SESSION_NOT_FOUND)
    peer.leads({T0: 7}, epoch=1)  # a broker without an address
    peer.machine.want([peer.acks(T0, 0)])
    assert peer.run(1_000) == []
    assert peer.ended() == [(T0, [0], "NETWORK_EXCEPTION")]


def test_a_response_that_knows_no_topic_id_has_the_leaders_looked_up() -> None:
    peer = SharePeer()
    peer.with_session(T0)
    peer.machine.want()
    peer.run()
    peer.fetched(code=_E.UNKNOWN_TOPIC_ID)
    peer.run()
    assert [refresh.topics for refresh in peer.refreshes] == [{"t"}]


def test_older_metadata_changes_no_leader() -> None:
    peer = SharePeer()
    peer.leads({T0: 1}, epoch=5)
    peer.with_session(T0)
    peer.leads({T0: 2}, epoch=4)
    peer.machine.want([peer.acks(T0, 0)])
    (sent,) = peer.run()
    assert (sent.node_id, named(sent.request)) == (1, [("t", 0, [(0, 0, [1])])])
    peer.fetched(part(T0, code=_E.NOT_LEADER_OR_FOLLOWER, leader=(2, 6)))
    peer.leads({T0: 1}, epoch=5)
    assert [each.node_id for each in peer.run(100)] == [1, 2], "the former leader forgets it"
    assert peer.ended() == [(T0, [0], "NONE")]


def test_an_older_leader_in_an_error_changes_no_leader() -> None:
    """testStaleLeaderEpochDoesNotDowngradeShareSessionLeader"""
    peer = SharePeer()
    peer.leads({T0: 1}, epoch=5)
    peer.with_session(T0)
    peer.machine.want()
    peer.run()
    peer.fetched(part(T0, code=_E.NOT_LEADER_OR_FOLLOWER, leader=(2, 2)))
    assert [each.node_id for each in peer.run(100)] == [1]


def test_newer_metadata_fails_no_acknowledgements() -> None:
    """testStaleMetadataLeadershipChangeDoesNotFailAcknowledgements: the brokers that have delivered records decide"""
    peer = SharePeer()
    peer.with_session(T0, T1)
    peer.leads({T0: 2, T1: 2}, epoch=1)
    peer.machine.commit([peer.acks(T0, 1), peer.acks(T1, 1, 2, node=2)], 60_000)
    sent = {each.node_id: named(each.request) for each in peer.run()}
    assert sent == {1: [("t", 0, [(1, 1, [1])])], 2: [("t", 1, [(1, 2, [1])])]}
    peer.acknowledged((T0, _E.NONE))
    peer.acknowledged((T1, _E.NONE), node=2)
    assert peer.ended() == [(T0, [1], "NONE"), (T1, [1, 2], "NONE")]


def test_a_leader_without_an_address_is_looked_up() -> None:
    peer = SharePeer()
    peer.with_session(T1)
    peer.leads({T1: 7}, epoch=1)
    peer.machine.want()
    (sent,) = peer.run()
    assert (sent.node_id, len(peer.refreshes)) == (2, 1), "the former leader forgets the partition"
    peer.fetched(part(T1), node=2)
    peer.leads({T1: 1}, epoch=2)
    peer.refreshed()
    assert [(each.node_id, each.request.share_session_epoch) for each in peer.run(100)] == [(2, -1), (1, 0)]


@pytest.mark.parametrize(
    "by_fetch",
    [True, False],
    ids=[
        "testFetchResponseWithUnknownTopicIdRefreshesTopicIdOnRecreation",
        "testAcknowledgeResponseWithUnknownTopicIdRefreshesTopicIdOnRecreation",
    ],
)
def test_a_topic_that_is_made_again(by_fetch: bool) -> None:
    """The topic's leaders are looked up; the next fetch names the new id and forgets the former one."""
    peer = SharePeer()
    peer.with_session(T0)
    if by_fetch:
        peer.machine.want()
        peer.run()
        peer.fetched(part(T0, code=_E.UNKNOWN_TOPIC_ID))
    else:
        peer.machine.commit([peer.acks(T0, 0)], 60_000)
        peer.run()
        peer.acknowledged((T0, _E.UNKNOWN_TOPIC_ID))
        assert peer.ended() == [(T0, [0], "UNKNOWN_TOPIC_ID")]
    peer.run()
    peer.leads({T0: 1}, ids={"t": b"n" * 16}, epoch=0)
    peer.refreshed()
    peer.machine.want()
    (sent,) = peer.run(1_000)
    assert isinstance(sent.request, ShareFetchRequest)
    assert [topic.topic_id for topic in sent.request.topics] == [b"n" * 16]
    assert [topic.topic_id for topic in sent.request.forgotten_topics_data] == [IDS["t"]]


def test_a_commit_of_nothing_sends_nothing() -> None:
    peer = SharePeer()
    peer.with_session(T0)
    peer.machine.commit([], 60_000)
    assert (peer.run(), peer.ended(), peer.machine.next_deadline_ms()) == ([], [], None)
