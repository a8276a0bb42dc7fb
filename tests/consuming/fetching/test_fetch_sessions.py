"""What a request names in a fetch session (KIP-227), and which session it is part of; tests named as in Kafka's
FetchSessionHandlerTest, and FetchRequestManagerTest where it is about sessions, are in brackets."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from coterie.consuming.fetching.requests import FetchSession, Wanted
from coterie.consuming.record import TopicPartition
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from tests.consuming.cluster import T0, T1, U0
from tests.consuming.driven import Driven

ID, OTHER = 123, b"o" * 16
EXTRA = TopicPartition("extra", 1)
E = ErrorCode


class Conversation:
    """One session and the last request of it."""

    def __init__(self) -> None:
        self.session, self.last = FetchSession(), FetchRequest()
        self.topic_ids: dict[str, bytes] = {}

    def request(self, wanted: Mapping[TopicPartition, Wanted]) -> tuple[int, int]:
        """The id and epoch in the request."""
        self.last = FetchRequest()
        self.session.fill(self.last, wanted, 200, self.topic_ids)
        return self.last.session_id, self.last.session_epoch

    @property
    def named(self) -> dict[TopicPartition, int]:
        """The fetch offsets in the request."""
        topics = self.last.topics
        return {TopicPartition(t.topic, p.partition): p.fetch_offset for t in topics for p in t.partitions}

    @property
    def forgotten(self) -> set[TopicPartition]:
        return {TopicPartition(t.topic, index) for t in self.last.forgotten_topics_data for index in t.partitions}

    def respond(self, *partitions: TopicPartition, session_id: int = ID, code: ErrorCode = E.NONE) -> ErrorCode:
        rows = [FetchableTopicResponse(tp.topic, partitions=[PartitionData(tp.partition)]) for tp in partitions]
        if self.session.by_id:
            rows = [FetchableTopicResponse("", self.topic_ids.get(row.topic, OTHER), row.partitions) for row in rows]
        return self.session.responded(FetchResponse(error_code=code, session_id=session_id, responses=rows))


def in_session() -> Conversation:
    """Of T0 and T1."""
    talk = Conversation()
    assert talk.request({T0: (0, -1), T1: (10, -1)}) == (0, 0)
    assert talk.named == {T0: 0, T1: 10}
    assert talk.respond(T0, T1) == E.NONE
    return talk


def test_a_broker_without_sessions_is_asked_in_full_each_time() -> None:
    """[testSessionless]"""
    talk = Conversation()
    assert talk.request({T0: (0, -1), T1: (10, -1)}) == (0, 0)
    assert talk.respond(T0, T1, session_id=0) == E.NONE
    assert talk.request({T0: (0, -1)}) == (0, 0)
    assert (talk.named, talk.forgotten) == ({T0: 0}, set())


def test_a_request_names_what_changed_and_an_error_begins_the_session_anew() -> None:
    """[testIncrementals] The broker ends the former session by the request in full that names it."""
    talk = in_session()
    wanted = {T0: (0, -1), T1: (10, 5), U0: (20, -1)}
    assert talk.request(wanted) == (ID, 1)
    assert talk.named == {T1: 10, U0: 20}
    assert talk.respond(T1) == E.NONE
    assert talk.respond(session_id=0, code=E.INVALID_FETCH_SESSION_EPOCH) == E.INVALID_FETCH_SESSION_EPOCH
    assert talk.request(wanted) == (ID, 0)
    assert talk.named == {T0: 0, T1: 10, U0: 20}


def test_partitions_are_removed_and_a_session_that_is_gone_is_not_named() -> None:
    """[testIncrementalPartitionRemoval]"""
    talk = Conversation()
    talk.request({T0: (0, -1), T1: (10, -1), U0: (20, -1)})
    assert talk.respond(T0, T1, U0) == E.NONE
    assert talk.request({T1: (10, -1)}) == (ID, 1)
    assert (talk.named, talk.forgotten) == ({}, {T0, U0})
    talk.respond(session_id=0, code=E.FETCH_SESSION_ID_NOT_FOUND)
    assert talk.request({T0: (0, -1)}) == (0, 0)
    assert (talk.named, talk.forgotten) == ({T0: 0}, set())


def test_a_session_of_which_everything_is_forgotten_goes_on() -> None:
    """[testIdUsageWithAllForgottenPartitions, testOkToAddNewIdAfterTopicRemovedFromSession] Without topic ids."""
    talk = in_session()
    assert talk.request({}) == (ID, 1)
    assert (talk.named, talk.forgotten) == ({}, {T0, T1})
    assert talk.respond() == E.NONE
    assert talk.request({T0: (0, -1)}) == (ID, 2)
    assert (talk.named, talk.forgotten) == ({T0: 0}, set())


def by_id(talk: Conversation, *topics: str) -> Conversation:
    talk.topic_ids = {topic: topic.encode() * 16 for topic in topics}
    return talk


@pytest.mark.parametrize("is_upgrade", [True, False])
def test_a_session_has_ids_or_names(is_upgrade: bool) -> None:
    """[testTopicIdUsageGrantedOnIdUpgrade, testIdUsageRevokedOnIdDowngrade, testSessionEpochWhenMixedUsageOfTopicIDs] It
    starts again at once where Kafka's waits for the broker's FETCH_SESSION_TOPIC_ID_ERROR."""
    talk = Conversation() if is_upgrade else by_id(Conversation(), "t")
    assert talk.request({T0: (0, -1)}) == (0, 0)
    assert (talk.respond(T0), talk.session.by_id) == (E.NONE, not is_upgrade)
    by_id(talk, "t", "u") if is_upgrade else by_id(talk, "t")
    assert talk.request({T0: (0, -1), U0: (0, -1)}) == (ID, 0)
    assert (talk.named, talk.session.by_id) == ({T0: 0, U0: 0}, is_upgrade)


def test_topics_are_named_by_ids_where_each_has_one() -> None:
    """[testVerifyFullFetchResponsePartitionsWithTopicIds, testOkToAddNewIdAfterTopicRemovedFromSession,
    testIdUsageWithAllForgottenPartitions]"""
    talk = by_id(Conversation(), "t", "u")
    talk.request({T0: (0, -1), U0: (0, -1)})
    assert [topic.topic_id for topic in talk.last.topics] == [b"t" * 16, b"u" * 16]
    assert talk.respond(T0, U0) == E.NONE
    by_id(talk, "t")
    assert talk.request({T0: (0, -1)}) == (ID, 1)
    assert [(gone.topic, gone.topic_id) for gone in talk.last.forgotten_topics_data] == [("u", b"u" * 16)]
    assert talk.respond(EXTRA) == E.NETWORK_EXCEPTION, "no topic of the session has such an id"
    assert talk.request({T0: (0, -1)}) == (ID, 0)
    assert talk.respond(T0) == E.NONE
    assert talk.request({}) == (ID, 1)
    assert (talk.respond(), talk.session.by_id) == (E.NONE, True)


def test_a_topic_that_is_made_anew_begins_the_session_anew() -> None:
    """[testTopicIdReplaced, testFetchForgetTopicIdWhenReplaced]"""
    talk = by_id(Conversation(), "t")
    talk.request({T0: (5, -1)})
    talk.respond(T0)
    talk.topic_ids = {"t": OTHER}
    assert talk.request({T0: (5, -1)}) == (ID, 0)
    assert [topic.topic_id for topic in talk.last.topics] == [OTHER]


def test_a_request_for_the_same_again_names_nothing() -> None:
    """[testTopicIdReplaced] Its case without topic ids."""
    talk = in_session()
    assert talk.request({T0: (0, -1), T1: (10, -1)}) == (ID, 1)
    assert (talk.named, talk.forgotten) == ({}, set())


def test_an_error_of_the_whole_response_begins_the_session_anew() -> None:
    """[testTopLevelErrorResetsMetadata]"""
    talk = in_session()
    assert talk.request({T0: (0, -1), T1: (10, -1), U0: (0, -1)}) == (ID, 1)
    assert talk.respond(U0, code=E.UNKNOWN_TOPIC_ID) == E.UNKNOWN_TOPIC_ID
    assert talk.request({T0: (0, -1)}) == (ID, 0)
    assert talk.named == {T0: 0}


FULL_RESPONSES: list[tuple[set[TopicPartition], set[TopicPartition], bool]] = [
    (set(), {T0, T1, U0}, False),
    ({T0, T1, U0}, {T0, T1, U0}, True),
    ({T0, T1, U0}, {T0, T1}, False),
    ({T0, U0}, {T0, EXTRA, U0}, False),
    ({T0, U0}, {T0, U0}, True),
]


@pytest.mark.parametrize(("requested", "named", "is_readable"), FULL_RESPONSES)
def test_a_response_in_full_names_what_was_requested_and_nothing_else(
    requested: set[TopicPartition], named: set[TopicPartition], is_readable: bool
) -> None:
    """[testVerifyFullFetchResponsePartitions, testVerifyFullFetchResponsePartitionsWithTopicIds, KafkaConsumerTest's
    fetchResponseWithUnexpectedPartitionIsIgnored] After one that does not, the next request is in full and names no session."""
    talk = Conversation()
    talk.request(dict.fromkeys(requested, (0, -1)))
    assert talk.respond(*named) == (E.NONE if is_readable else E.NETWORK_EXCEPTION)
    assert talk.request({T0: (0, -1)}) == ((ID, 1) if is_readable else (0, 0))


def test_a_response_within_a_session_names_nothing_else() -> None:
    """FetchSessionHandler.verifyIncrementalFetchResponsePartitions."""
    talk = in_session()
    talk.request({T0: (0, -1)})
    assert talk.respond(T1) == E.NETWORK_EXCEPTION, "it was forgotten"
    assert talk.request({T0: (0, -1)}) == (ID, 0)


def test_after_a_lost_connection_the_broker_keeps_no_second_session() -> None:
    driven = Driven({T0: 0})
    driven.serve(driven.sent())
    driven.machine.failed(driven.sent(), E.NETWORK_EXCEPTION, driven.now_ms, 0.0)
    driven.wait()
    driven.refresh()
    driven.serve(driven.sent())
    assert len(driven.cluster.sessions[1]) == 1


def test_a_session_that_is_to_begin_anew_is_closed_too() -> None:
    driven = Driven({T0: 0})
    driven.serve(driven.sent())
    driven.machine.failed(driven.sent(), E.NETWORK_EXCEPTION, driven.now_ms, 0.0)
    (sent,) = driven.machine.close()
    driven.cluster.fetch(sent.node_id, sent.request)
    assert len(driven.cluster.sessions[1]) == 0
    assert driven.machine.close() == []


def test_a_partition_that_is_no_longer_assigned_is_forgotten_by_the_session() -> None:
    """[testFetchForgetTopicIdWhenUnassigned, testFetchWithNoTopicId] Without topic ids."""
    driven = Driven({T0: 0})
    driven.cluster.logs[T0].plain(3)
    sent = driven.sent()
    assert [(topic.topic, topic.topic_id) for topic in sent.request.topics] == [("t", bytes(16))]
    driven.serve(sent)
    assert driven.offsets() == {T0: [0, 1, 2]}
    driven.machine.assign([U0])
    driven.machine.seek(U0, 0)
    sent = driven.sent()
    assert [topic.topic for topic in sent.request.topics] == ["u"]
    assert [(topic.topic, topic.partitions) for topic in sent.request.forgotten_topics_data] == [("t", [0])]
    driven.cluster.logs[U0].plain(1)
    driven.serve(sent)
    assert driven.offsets() == {U0: [0]}


def test_ids_come_and_go() -> None:
    """[testFetchWithTopicId, testFetchTopicIdUpgradeDowngrade]"""
    driven = Driven({T0: 0})
    driven.cluster.logs[T0].plain(3)
    for number, topic_ids in enumerate(({}, {"t": OTHER}, {})):
        driven.cluster.topic_ids = topic_ids
        driven.cluster.metadata(driven.known)
        sent = driven.sent()
        assert (sent.by_id, sent.request.session_epoch) == (bool(topic_ids), 0)
        assert driven.serve(sent).error_code == E.NONE
        assert driven.offsets() == ({} if number else {T0: [0, 1, 2]})


def test_records_come_by_incremental_fetches() -> None:
    """[testConsumingViaIncrementalFetchRequests] Two records a poll; requests run ahead of the polls."""
    driven = Driven({T0: 0, U0: 1})
    driven.cluster.logs[U0].plain(1)
    driven.cluster.logs[T0].plain(3)
    driven.serve(driven.sent())
    sent = driven.sent()
    assert sent.request.session_epoch == 1
    assert [(t.topic, [p.fetch_offset for p in t.partitions]) for t in sent.request.topics] == [("t", [3])]
    assert [driven.offsets(2) for _ in range(3)] == [{T0: [0, 1]}, {T0: [2]}, {}]
    assert driven.serve(sent).responses == [], "no news"
    assert driven.offsets(2) == {}
    positions = driven.machine.positions
    assert (positions[T0].offset, positions[U0].offset) == (3, 1)
    driven.cluster.logs[T0].plain(2)
    sent = driven.sent()
    assert (sent.request.session_epoch, sent.request.topics) == (2, [])
    driven.serve(sent)
    assert driven.offsets(2) == {T0: [3, 4]}
    assert (positions[T0].offset, positions[U0].offset) == (5, 1)
