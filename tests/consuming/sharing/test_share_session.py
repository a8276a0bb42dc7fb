"""A share session at one broker, and what is carried and in hand beside it (Kafka's ShareSessionHandlerTest)."""

from __future__ import annotations

from collections import deque

from coterie.consuming.sharing.acknowledgements import Acknowledgements, AcknowledgeType, TopicIdPartition
from coterie.consuming.sharing.completed_fetch import CompletedShareFetch
from coterie.consuming.sharing.in_hand import RecordsInHand
from coterie.consuming.sharing.node import ShareNode, SharingSession
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.share.share_fetch import ShareFetchRequest
from tests.consuming.sharing.share_peer import T0, T1, U0, Batches, batch, named, part, tip

OTHER = TopicIdPartition(b"n" * 16, "t", 0)  # the topic again, made again
ACCEPT, RENEW = AcknowledgeType.ACCEPT, AcknowledgeType.RENEW


def acks(where: TopicIdPartition, *offsets: int) -> Acknowledgements:
    return Acknowledgements(where, 1, dict.fromkeys(offsets, 1))


def sent(
    session: SharingSession, *wanted: TopicIdPartition, carried: tuple[Acknowledgements, ...] = ()
) -> tuple[int, list[tuple[str, int, Batches]], list[tuple[bytes, list[int]]]]:
    """The session's epoch, the partitions that are named with their acknowledgements, and the forgotten ones."""
    request = ShareFetchRequest("g", "m")
    session.fill_fetch(request, wanted, carried)
    forgotten = [(topic.topic_id, topic.partitions) for topic in request.forgotten_topics_data]
    return request.share_session_epoch, named(request), forgotten


def test_partitions_are_named_once_and_forgotten_once() -> None:
    """testShareSession testPartitionRemoval testForgottenPartitions testPartitionForgottenOnAcknowledgeOnly
    testCanSkipIfRequestEmpty testSkipEmptyShareFetchWhenSessionEmpty"""
    session = SharingSession()
    assert session.changes([tip(T0)])
    assert sent(session, tip(T0), tip(T1)) == (0, [("t", 0, []), ("t", 1, [])], [])
    session.responded(ErrorCode.NONE)
    assert not session.changes([tip(T0), tip(T1)])
    assert session.changes([tip(T0), tip(T1), tip(U0)])
    assert sent(session, tip(T0), tip(U0)) == (1, [("u", 0, [])], [(b"t" * 16, [1])])
    session.responded(ErrorCode.NONE)
    assert sent(session, tip(U0), carried=(acks(tip(T0), 4),)) == (2, [("t", 0, [(4, 4, [1])])], [(b"t" * 16, [0])])
    session.responded(ErrorCode.NONE)
    assert sent(session) == (3, [], [(b"u" * 16, [0])])
    session.responded(ErrorCode.NONE)
    assert not session.changes([])


def test_acknowledgements_of_a_partition_outside_of_the_session() -> None:
    """testAcknowledgeOnlyPartitionNotInSessionIsForgotten: the broker takes it in with them, so it is forgotten again"""
    session = SharingSession()
    sent(session, tip(T0))
    session.responded(ErrorCode.NONE)
    assert sent(session, tip(T0), carried=(acks(tip(U0), 0),)) == (1, [("u", 0, [(0, 0, [1])])], [(b"u" * 16, [0])])
    assert list(session.partitions) == [tip(T0)]
    session.responded(ErrorCode.NONE)
    assert sent(session, tip(T0), carried=(acks(tip(T0), 0),)) == (2, [("t", 0, [(0, 0, [1])])], [])


def test_a_topic_that_is_made_again_has_another_id() -> None:
    """testTopicIdReplaced testAddNewIdAfterTopicRemovedFromSession"""
    session = SharingSession()
    sent(session, tip(T0))
    session.responded(ErrorCode.NONE)
    assert sent(session, OTHER) == (1, [("?", 0, [])], [(b"t" * 16, [0])])


def test_epochs() -> None:
    """The epoch after the highest is 1, since 0 begins a session; the last one stays until there is a response."""
    session = SharingSession()
    session.epoch = 2**31 - 2
    session.responded(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert session.epoch == 2**31 - 1
    session.responded(ErrorCode.NONE)
    assert session.epoch == 1
    session.finish()
    session.responded(ErrorCode.NONE)
    assert session.epoch == -1
    for code in (
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    ):
        session.epoch, session.partitions = 5, {tip(T0): None}
        session.responded(code)
        assert (session.epoch, session.partitions) == (0, {})


def test_a_fetch_carries_all_acknowledgements_that_came_before_it() -> None:
    node = ShareNode()
    node.carry(acks(tip(T0), 0))
    node.carry(acks(tip(U0), 7))
    node.carry(acks(tip(T0), 1, 2))
    assert [(each.partition, list(each.types)) for each in node.take_carried()] == [
        (tip(T0), [0, 1, 2]),
        (tip(U0), [7]),
    ]
    assert node.take_carried() == []


def test_an_acknowledgement_ends_once() -> None:
    ended = acks(tip(T0), 0)
    assert not ended.failed
    ended.end(ErrorCode.INVALID_RECORD_STATE, "first")
    ended.end(ErrorCode.NONE, "second")
    assert (ended.code, ended.message, ended.failed) == (ErrorCode.INVALID_RECORD_STATE, "first", True)


def completed(node_id: int, first: int, count: int, lock_ms: int) -> CompletedShareFetch:
    _, data = part(T0, [(first, first + count - 1, 1)], batch(first, count))
    return CompletedShareFetch(node_id, tip(T0), data, lock_ms, check_crcs=True)


def test_records_in_hand_go_to_the_broker_that_delivered_them_last() -> None:
    """The partition has another leader since; the lock is that of the last response."""
    in_hand = RecordsInHand()
    in_hand.take(deque([completed(1, 0, 2, 30_000), completed(2, 2, 1, 15_000)]), 500, None)
    assert in_hand.lock_timeout_ms == 15_000
    in_hand.acknowledge_all(ACCEPT)
    (taken,) = in_hand.take_acknowledged()
    assert (taken.node_id, taken.types) == (2, {0: 1, 1: 1, 2: 1})
    assert in_hand.take_acknowledged() == []
    assert not in_hand.has_records


def test_a_gap_of_a_later_delivery_is_acknowledged_too() -> None:
    """testRenewAcknowledgementOnPoll: offsets without a record have their type already; a renewal keeps the record"""
    _, data = part(T0, [(0, 3, 1)], batch(0, 2))
    with_gap = CompletedShareFetch(1, tip(T0), data, 30_000, check_crcs=True)
    in_hand = RecordsInHand()
    in_hand.take(deque([with_gap]), 500, None)
    in_hand.acknowledge(T0, 0, ACCEPT)
    in_hand.acknowledge(T0, 1, RENEW)
    (taken,) = in_hand.take_acknowledged()
    assert taken.types == {0: 1, 1: 4, 2: 0, 3: 0}
    assert in_hand.has_renewals
    taken.end(ErrorCode.NONE, lock_timeout_ms=9_000)
    in_hand.ended([taken])
    in_hand.take(deque(), 500, None)
    assert [record.offset for record in in_hand.records()[T0]] == [1]
    assert in_hand.lock_timeout_ms == 9_000
