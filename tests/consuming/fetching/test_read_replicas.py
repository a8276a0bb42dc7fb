"""Replicas that a leader names to read from (KIP-392): a consumer with client.rack reads from the nearest. Tests named as in
Kafka's FetchRequestManagerTest and FetchCollectorTest are in brackets."""

from __future__ import annotations

import pytest

from coterie.consuming.effects import RefreshMetadata, SendFetch, SendValidation
from coterie.consuming.fetching.position import FetchState
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.fetch import PartitionData
from coterie.wire.messages.logs.produce import LeaderIdAndEpoch, NodeEndpoint
from tests.consuming.cluster import T0, T1, U0
from tests.consuming.driven import Driven, records

E = ErrorCode
LEADER, FOLLOWER, UNKNOWN_BROKER = 1, 2, 7


def rows(count: int, replica: int = -1, offset: int = 0) -> PartitionData:
    """So many records, in a response that names a replica."""
    return records(count, offset, preferred_read_replica=replica)


def reading_from_follower(*, records: int = 3, **config: object) -> Driven:
    """The leader has named it, with a response that has ``records``, and those were polled."""
    driven = Driven({T0: 0}, **config)
    sent = driven.sent()
    assert sent.node_id == LEADER
    driven.respond(sent, {T0: rows(records, FOLLOWER)}, session_id=9)
    assert driven.offsets() == ({T0: list(range(records))} if records else {})
    return driven


def test_the_replica_that_the_leader_names_is_read_from() -> None:
    """[testPreferredReadReplica, testFetchWithReadReplica] Kafka's leader returns no records with it."""
    driven = reading_from_follower(records=0)
    sent = driven.sent()
    assert (sent.node_id, sent.wanted) == (FOLLOWER, {T0: (0, 0)})
    driven.respond(sent, {T0: rows(3)})
    assert driven.offsets() == {T0: [0, 1, 2]}
    assert driven.sent().node_id == FOLLOWER


def test_a_replica_that_the_metadata_lacks_is_looked_up_and_the_leader_asked_again() -> None:
    """[testPreferredReadReplica]"""
    driven = reading_from_follower()
    driven.respond(driven.sent(), {T0: rows(1, UNKNOWN_BROKER, 3)})
    assert driven.offsets() == {T0: [3]}
    assert driven.effects() == [], "after a pause, so that the two do not send each other's requests round"
    driven.wait()
    driven.refresh()
    assert driven.sent().node_id == LEADER


def test_after_metadata_max_age_the_leader_is_asked_again() -> None:
    """SubscriptionStateTest.testPreferredReadReplicaLease"""
    driven = reading_from_follower(replica_max_age_ms=1_000)
    driven.now_ms = 1_000
    sent = driven.sent()
    assert sent.node_id == FOLLOWER
    driven.respond(sent, {T0: rows(0)})
    driven.now_ms = 1_001
    sent = driven.sent()
    assert sent.node_id == LEADER
    driven.respond(sent, {T0: rows(0, FOLLOWER)})
    driven.now_ms = 2_001
    assert driven.sent().node_id == FOLLOWER


def test_a_replica_that_is_gone_from_the_metadata_is_not_asked() -> None:
    driven = reading_from_follower()
    del driven.known._brokers[FOLLOWER]
    assert driven.sent().node_id == LEADER


def test_a_lost_connection_leads_back_to_the_leader() -> None:
    """[testFetchDisconnectedShouldClearPreferredReadReplica]"""
    driven = reading_from_follower()
    driven.machine.failed(driven.sent(), E.NETWORK_EXCEPTION, driven.now_ms, 0.0)
    driven.wait()
    driven.refresh()
    assert driven.sent().node_id == LEADER


def test_a_replica_that_refuses_the_connection_leads_back_to_the_leader() -> None:
    """AbstractFetch.handleFetchFailure: whatever the error of the request is."""
    driven = reading_from_follower()
    driven.machine.refused(driven.sent())
    assert driven.offsets() == {}
    assert driven.sent().node_id == LEADER


def test_a_lost_connection_after_the_partition_was_revoked() -> None:
    """[testFetchDisconnectedShouldNotClearPreferredReadReplicaIfUnassigned] Assigned again, it begins at the leader."""
    driven = reading_from_follower()
    sent = driven.sent()
    driven.machine.assign([])
    driven.machine.failed(sent, E.NETWORK_EXCEPTION, driven.now_ms, 0.0)
    assert driven.effects() == []
    driven.machine.assign([T0])
    driven.machine.seek(T0, 0)
    assert driven.sent().node_id == LEADER


REFRESHES = [
    E.NOT_LEADER_OR_FOLLOWER,
    E.REPLICA_NOT_AVAILABLE,
    E.KAFKA_STORAGE_ERROR,
    E.FENCED_LEADER_EPOCH,
    E.OFFSET_NOT_AVAILABLE,
    E.UNKNOWN_TOPIC_OR_PARTITION,
    E.UNKNOWN_TOPIC_ID,
    E.INCONSISTENT_TOPIC_ID,
]


@pytest.mark.parametrize("code", REFRESHES)
def test_an_error_with_new_metadata_leads_back_to_the_leader(code: ErrorCode) -> None:
    """[testFetchWithMetadataRefreshErrors, testFetchErrorShouldClearPreferredReadReplica]"""
    driven = reading_from_follower()
    assert not driven.respond(driven.sent(), {T0: PartitionData(error_code=code, preferred_read_replica=FOLLOWER)})
    assert driven.offsets() == {}
    driven.wait()
    driven.refresh()
    assert driven.sent().node_id == LEADER


def test_an_offset_that_the_follower_lacks_is_asked_of_the_leader() -> None:
    """[testPreferredReadReplicaOffsetError, testFetchWithOffsetOutOfRangeWithPreferredReadReplica]"""
    driven = reading_from_follower()
    out_of_range = PartitionData(error_code=E.OFFSET_OUT_OF_RANGE, high_watermark=100)
    assert not driven.respond(driven.sent(), {T0: out_of_range})
    assert driven.offsets() == {}
    assert (driven.machine.positions[T0].state, driven.machine.resets_due()) == (FetchState.FETCHING, [])
    sent = driven.sent()
    assert (sent.node_id, sent.wanted) == (LEADER, {T0: (3, 0)})
    assert driven.respond(sent, {T0: PartitionData(error_code=E.OFFSET_OUT_OF_RANGE)})
    assert driven.machine.resets_due() == [T0], "the leader's word counts"


@pytest.mark.parametrize("code", [E.FENCED_LEADER_EPOCH, E.NOT_LEADER_OR_FOLLOWER])
def test_a_change_of_leaders_concerns_its_partition_alone(code: ErrorCode) -> None:
    """[testWhenFetchResponseReturnsALeaderShipChangeErrorButNoNewLeaderInformation]"""
    driven = Driven({T0: 0, T1: 0})
    for node_id, sent in driven.sent_to().items():
        driven.respond(sent, {T0 if node_id == LEADER else T1: rows(3, LEADER)})
    assert driven.offsets() == {T0: [0, 1, 2], T1: [0, 1, 2]}
    sent = driven.sent()
    assert (sent.node_id, set(sent.wanted)) == (LEADER, {T0, T1})
    version, leaders = driven.known.version, [driven.known.leader(*tp) for tp in (T0, T1)]
    driven.respond(sent, {T0: PartitionData(error_code=code), T1: rows(2, offset=3)})
    assert driven.offsets() == {T1: [3, 4]}
    assert (driven.known.version, [driven.known.leader(*tp) for tp in (T0, T1)]) == (version, leaders)
    positions = driven.machine.positions
    assert (positions[T0].read_replica, positions[T1].read_replica) == (None, LEADER)
    sent = driven.sent()
    assert (sent.node_id, set(sent.wanted)) == (LEADER, {T1})
    driven.wait()
    driven.refresh()
    driven.respond(sent, {T1: rows(0)})
    assert [tp.state for tp in positions.values()] == [FetchState.FETCHING] * 2
    assert set(driven.sent().wanted) == {T0, T1}


@pytest.mark.parametrize("code", [E.FENCED_LEADER_EPOCH, E.NOT_LEADER_OR_FOLLOWER])
def test_a_leader_that_the_response_names_is_asked_at_once(code: ErrorCode) -> None:
    """[testWhenFetchResponseReturnsALeaderShipChangeErrorAndNewLeaderInformation] KIP-951: also one that the metadata lacks; it
    is refreshed beside."""
    driven = Driven({T0: 0, T1: 0})
    for node_id, sent in driven.sent_to().items():
        driven.respond(sent, {T0 if node_id == LEADER else T1: rows(3, LEADER)})
    driven.offsets()
    sent = driven.sent()
    data = PartitionData(error_code=code, current_leader=LeaderIdAndEpoch(999, 100))
    driven.respond(sent, {T0: data, T1: rows(2, offset=3)}, [NodeEndpoint(999, "new", 999)])
    assert driven.offsets() == {T1: [3, 4]}
    assert (driven.known.leader(*T0), driven.known.leader_epoch(*T0)) == (999, 100)
    assert driven.known.address(999) == ("new", 999)
    positions = driven.machine.positions
    assert (positions[T0].read_replica, positions[T1].read_replica) == (None, LEADER)
    effects = driven.effects()
    assert {e.node_id: set(e.wanted) for e in effects if isinstance(e, SendFetch)} == {999: {T0}, LEADER: {T1}}
    assert [e for e in effects if not isinstance(e, SendFetch)] == [RefreshMetadata(frozenset({"t"}))]
    assert driven.machine.next_deadline_ms() is None, "no pause"


@pytest.mark.parametrize(("leader", "endpoint"), [((999, 100), None), ((999, -1), 999), ((-1, 100), 999), ((2, 0), 2)])
def test_a_leader_that_is_not_newer_or_not_reachable_is_looked_up(
    leader: tuple[int, int], endpoint: int | None
) -> None:
    driven = Driven({T0: 0})
    driven.cluster.metadata(driven.known)
    data = PartitionData(error_code=E.NOT_LEADER_OR_FOLLOWER, current_leader=LeaderIdAndEpoch(*leader))
    driven.respond(driven.sent(), {T0: data}, [] if endpoint is None else [NodeEndpoint(endpoint, "new", 999)])
    assert driven.known.leader(*T0) == LEADER
    assert driven.effects() == []
    driven.wait()
    driven.refresh()


def test_a_position_is_validated_by_the_leader_that_a_response_names() -> None:
    """SubscriptionState.maybeValidatePositionForCurrentLeader."""
    driven = Driven({T0: 0}, validates=True)
    driven.cluster.names_leaders = True
    driven.cluster.logs[T0].plain(3)
    driven.serve(driven.sent())
    driven.offsets()
    sent = driven.sent()
    driven.cluster.move(T0, 2)
    driven.serve(sent)
    validations = [effect for effect in driven.effects() if isinstance(effect, SendValidation)]
    assert [(effect.node_id, set(effect.positions)) for effect in validations] == [(2, {T0})]


def test_neighbours_of_one_leader_are_read_from_different_brokers() -> None:
    driven = Driven({T0: 0, U0: 0})
    driven.respond(driven.sent(), {T0: rows(0, FOLLOWER), U0: rows(0)}, session_id=9)
    sent = driven.sent_to()
    assert {node_id: set(of.wanted) for node_id, of in sent.items()} == {LEADER: {U0}, FOLLOWER: {T0}}
    assert [(t.topic, t.partitions) for t in sent[LEADER].request.forgotten_topics_data] == [("t", [0])]
