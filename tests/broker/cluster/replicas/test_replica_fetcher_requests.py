"""What the fetcher of a follower's replicas requests, and when: Kafka's ReplicaFetcherThreadTest and
AbstractFetcherManagerTest, by name."""

from __future__ import annotations

from coterie.log.retention import advance_start_offset
from coterie.replication.leader import Leader
from coterie.replication.states import TopicPartition
from coterie.wire.messages.logs.fetch import FetchRequest
from coterie.wire.messages.logs.list_offsets import ListOffsetsRequest
from coterie.wire.messages.logs.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from tests.awaiting import quiet
from tests.broker.cluster.scripted_leader import (
    BACKOFF_MS,
    T0,
    FetchersConnection,
    FollowerAndLeader,
    batch,
    log,
    play,
)

T1: TopicPartition = ("orders", 1)
T2: TopicPartition = ("other", 1)
LOOKUP, FETCH, ENDS = OffsetForLeaderEpochRequest, FetchRequest, ListOffsetsRequest


@play({T0: log(0)}, {T0: [batch(2, 4)]})
async def test_versions(both: FollowerAndLeader) -> None:
    """shouldSendLatestRequestVersionsByDefault: those of inter.broker.protocol.version 2.6"""
    both.led_in(4)
    both.follows_in(4)
    await both.exchange(LOOKUP, FETCH, ENDS)
    assert both.versions == {LOOKUP: 3, FETCH: 11, ENDS: 5}


@play({T0: log(5, 5), T1: log(5), T2: []}, {T0: log(5), T1: log(5), T2: []})
async def test_ends_of_epochs_are_looked_up_once(both: FollowerAndLeader) -> None:
    """shouldFetchLeaderEpochRequestIfLastEpochDefinedForSomePartitions,
    shouldFetchLeaderEpochOnFirstFetchOnlyIfLeaderEpochKnownToBoth, shouldMovePartitionsOutOfTruncatingLogState: one request for
    all that know an epoch, and only fetches from then on, each of which names what has changed since the last (KIP-227)."""
    every = (T0, T1, T2)
    for partition in every:
        both.led_in(5, partition)
    both.follows_in(5, *every)
    assert [both.role(partition).truncates for partition in every] == [True] * 3
    lookup = await both.next(LOOKUP)
    assert sorted(lookup.partitions()) == [T0, T1]
    await both.respond(lookup)
    assert (await both.exchange(FETCH)).partitions() == [T2]
    assert [both.role(partition).truncates for partition in every] == [False] * 3
    named = [sorted((await both.exchange(FETCH)).partitions()) for _ in range(3)]
    assert named == [[T0, T1], [], []]
    assert [both.log(partition).end_offset for partition in every] == [1, 1, 0]


@play({T0: log(5, 5)}, {T0: log(5)})
async def test_a_leader_that_cannot_be_reached(both: FollowerAndLeader) -> None:
    """shouldHandleExceptionFromBlockingSend: nothing is truncated, and the request is repeated after the back-off."""
    both.led_in(5)
    both.follows_in(5)
    for _ in range(3):
        (await both.next(LOOKUP)).response.set_exception(ConnectionResetError())
        await quiet()
        assert FetchersConnection.sent.empty()
        both.pass_ms(BACKOFF_MS)
    assert (both.log().end_offset, both.role().truncates) == (2, True)
    await both.exchange(LOOKUP)
    assert both.log().end_offset == 1


@play({T0: log(5, 5, 5), T1: log(5, 5, 5)}, {T0: log(5), T1: log(5)})
async def test_a_partition_that_leads_meanwhile(both: FollowerAndLeader) -> None:
    """shouldFilterPartitionsMadeLeaderDuringLeaderEpochRequest: its log is no longer the follower's to truncate."""
    for partition in (T0, T1):
        both.led_in(5, partition)
    both.follows_in(5, T0, T1)
    lookup = await both.next(LOOKUP)
    both.follower_leads(6, T0)
    await both.respond(lookup)
    assert isinstance(both.follower.replicas.partitions[T0].role, Leader)
    assert [both.log(partition).end_offset for partition in (T0, T1)] == [3, 1]
    assert (await both.next(FETCH)).partitions() == [T1]


@play({T0: log(5)}, {T0: log(5)})
async def test_the_end_while_a_request_is_under_way(both: FollowerAndLeader) -> None:
    """shouldCatchExceptionFromBlockingSendWhenShuttingDownReplicaFetcherThread: a connection that cannot be closed is no reason
    not to end."""

    def fail() -> None:
        raise OSError("the connection is closed")

    both.led_in(5)
    both.follows_in(5)
    lookup = await both.next(LOOKUP)
    FetchersConnection.closes.append(fail)
    await both.fetchers.close()
    assert lookup.response.cancelled()
    both.follows_in(6)
    await both.nothing_is_requested()


@play({T0: log(5)}, {T0: log(5)})
async def test_a_fetcher_for_each_leader_with_followers_here(both: FollowerAndLeader) -> None:
    """testAddAndRemovePartition: the fetcher ends with its last partition."""
    both.led_in(5)
    both.follows_in(5)
    lookup = await both.next(LOOKUP)
    assert len(both.fetchers._running) == 1
    both.stopped()
    await both.respond(lookup)
    assert both.fetchers._running == {}
    await both.nothing_is_requested()


async def at_rest(both: FollowerAndLeader) -> None:
    """Both replicas are caught up, in a session in which a fetch names neither."""
    for partition in (T0, T1):
        both.led_in(0, partition)
    both.follows_in(0, T0, T1)
    await both.exchange(LOOKUP, FETCH)
    while (await both.exchange(FETCH)).partitions():
        pass


EQUAL = {T0: log(0), T1: log(0)}


@play(EQUAL, EQUAL)
async def test_a_session_that_the_leader_has_lost_begins_again_at_once(both: FollowerAndLeader) -> None:
    """FETCH_SESSION_ID_NOT_FOUND: no partition rests for the back-off."""
    await at_rest(both)
    both.sessions._sessions.clear()
    assert (await both.exchange(FETCH)).partitions() == []
    assert sorted((await both.exchange(FETCH)).partitions()) == [T0, T1]
    assert (await both.exchange(FETCH)).partitions() == []


@play(EQUAL, EQUAL)
async def test_after_a_lost_connection_a_session_begins_with_all(both: FollowerAndLeader) -> None:
    await at_rest(both)
    (await both.next(FETCH)).response.set_exception(ConnectionResetError())
    await quiet()
    assert FetchersConnection.sent.empty()
    both.pass_ms(BACKOFF_MS)
    assert sorted((await both.exchange(FETCH)).partitions()) == [T0, T1]


@play(EQUAL, EQUAL)
async def test_a_partition_that_moves_is_forgotten_and_one_whose_log_begins_elsewhere_is_named(
    both: FollowerAndLeader,
) -> None:
    await at_rest(both)
    advance_start_offset(both.log(T1), 1)
    both.stopped(T0)
    await both.exchange(FETCH)  # which was under way
    fetch = await both.exchange(FETCH)
    assert isinstance(fetch.message, FetchRequest)
    assert [(each.topic, each.partitions) for each in fetch.message.forgotten_topics_data] == [("orders", [0])]
    assert [row.log_start_offset for row in fetch.message.topics[0].partitions] == [1]
    assert fetch.partitions() == [T1]


@play(EQUAL, EQUAL)
async def test_a_start_of_the_leaders_log_that_moves_is_news(both: FollowerAndLeader) -> None:
    await at_rest(both)
    leaders = both.leader_logs.logs[T0]
    advance_start_offset(leaders, 1)
    await both.exchange(FETCH, FETCH)
    assert both.log().log_start_offset == 1
