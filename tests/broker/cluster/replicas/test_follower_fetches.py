"""Followers' fetches at their leader, in virtual time: of Kafka's ReplicaManagerTest, by its names."""

from __future__ import annotations

from itertools import count

from coterie.broker.cluster.cluster_view import ClusterView
from coterie.broker.cluster.replicas.follower_fetches import FollowerFetches
from coterie.broker.cluster.replicas.replica_manager import ReplicaManager
from coterie.broker.requests.fetch_sessions import FetchSessions
from coterie.broker.requests.pending import Pending
from coterie.laboratory.world import World
from coterie.replication.leader import Leader
from coterie.replication.states import PartitionState, ReplicationConfig, TopicPartition, WriteIsr
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from tests.broker.cluster.harness import ORDERS, MemoryStorage, append
from tests.broker.world_scheduler import WorldScheduler

LEADER, FOLLOWER, OTHER = 0, 1, 2
SECOND: TopicPartition = ("orders", 1)


class Leading:
    """Broker 0 leads both partitions in epoch 0."""

    def __init__(self, replicas: dict[TopicPartition, tuple[int, ...]]) -> None:
        self.world = World(seed=1)
        self.manager = ReplicaManager(LEADER, ReplicationConfig(), MemoryStorage(), lambda: self.world.now_ms)
        self.manager.replicas.registered(1)
        states = {p: PartitionState(LEADER, 0, brokers, 1, 0, brokers) for p, brokers in replicas.items()}
        view = ClusterView(LEADER, is_alone=False)
        view.update(LEADER, [], states)
        ids = count(1)
        self.sessions = FetchSessions(10, lambda: next(ids))
        self.fetches = FollowerFetches(self.manager, view, WorldScheduler(self.world), self.sessions)
        self.written: list[WriteIsr] = []
        self.manager.write_isr = self.written.append
        assert self.manager.leader_and_isr(1, 1, states) == {}
        self.acknowledged = 0

    def append(self, partition: TopicPartition, value: bytes) -> None:
        def decided(error: object) -> None:
            assert error is None
            self.acknowledged += 1

        append(self.manager, partition, value, decided)

    def fetch(self, offset: int, *partitions: TopicPartition, min_bytes: int = 0) -> FetchResponse | Pending:
        rows = [FetchPartition(index, -1, offset, partition_max_bytes=100_000) for _, index in partitions]
        topics = [FetchTopic("orders", partitions=rows)]
        return self.fetches.fetch(
            FetchRequest(replica_id=FOLLOWER, max_wait_ms=1_000, min_bytes=min_bytes, topics=topics)
        )


def rows_of(response: object) -> list[PartitionData]:
    assert isinstance(response, FetchResponse)
    return response.responses[0].partitions


def test_a_partition_that_the_broker_does_not_follow_concerns_no_other() -> None:
    """testFetchMessagesWhenNotFollowerForOnePartition. Kafka 2.6 returns no records and no error for it, Kafka 3.9
    UNKNOWN_LEADER_EPOCH; here it is NOT_LEADER_OR_FOLLOWER."""
    leading = Leading({ORDERS: (LEADER, FOLLOWER), SECOND: (LEADER, OTHER)})
    for value in (b"1", b"2"):
        leading.append(ORDERS, value)
        leading.append(SECOND, value)
    first, second = rows_of(leading.fetch(1, ORDERS, SECOND))
    assert (first.error_code, second.records) == (0, b"")
    assert first.records
    assert {
        partition: replica.high_watermark for partition, replica in leading.manager.replicas.partitions.items()
    } == {ORDERS: 1, SECOND: 0}


def test_a_fetch_with_nothing_new_waits() -> None:
    """testFollowerFetchWithDefaultSelectorNoForcedHwPropagation. Kafka's first response has the high watermark from before the
    fetch; here it has the one that the fetch moves, so that the second brings no news."""
    leading = Leading({ORDERS: (LEADER, FOLLOWER)})
    for value in (b"a", b"b"):
        leading.append(ORDERS, value)
    (row,) = rows_of(leading.fetch(2, ORDERS))
    assert (row.records, row.high_watermark, leading.acknowledged) == (b"", 2, 2)
    waiting = leading.fetch(2, ORDERS, min_bytes=1_000)
    assert isinstance(waiting, Pending)
    leading.world.run_until(leading.world.now_ms + 999)
    assert waiting.response is None
    leading.world.run_until(leading.world.now_ms + 1)
    (row,) = rows_of(waiting.response)
    assert (row.records, row.high_watermark) == (b"", 2)


class Session:
    """The fetch session of a follower; it fetches in epoch 0, so many of ``wanted`` as changed."""

    def __init__(self, leading: Leading, follower: int = FOLLOWER) -> None:
        self.leading, self.follower = leading, follower
        self.id = self.epoch = 0

    def send(self, wanted: dict[TopicPartition, int], *, max_wait_ms: int = 1_000) -> FetchResponse | Pending:
        """``wanted``: offsets."""
        rows = [
            FetchPartition(index, 0, offset, log_start_offset=0, partition_max_bytes=100)
            for (_, index), offset in wanted.items()
        ]
        request = FetchRequest(
            replica_id=self.follower, max_wait_ms=max_wait_ms, min_bytes=1, session_id=self.id, session_epoch=self.epoch
        )
        request.topics = [FetchTopic("orders", partitions=rows)] if rows else []
        self.epoch += 1
        return self.leading.fetches.fetch(request)

    def fetch(self, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, PartitionData]:
        """What has news, at once."""
        response = self.send(wanted, max_wait_ms=0)
        assert isinstance(response, FetchResponse)
        assert response.error_code == 0
        self.id = response.session_id
        return {(topic.topic, row.partition_index): row for topic in response.responses for row in topic.partitions}


def begun(leading: Leading, follower: int = FOLLOWER) -> Session:
    """Of both partitions, each caught up."""
    session = Session(leading, follower)
    assert session.fetch({ORDERS: 0, SECOND: 0}).keys() == {ORDERS, SECOND}
    assert session.id
    return session


def test_in_a_session_a_follower_names_what_changed_and_is_sent_what_changed() -> None:
    """KIP-227"""
    leading = Leading({ORDERS: (LEADER, FOLLOWER), SECOND: (LEADER, FOLLOWER)})
    session = begun(leading)
    assert session.fetch({}) == {}
    leading.append(SECOND, b"a")
    (changed,) = session.fetch({}).items()
    assert (changed[0], bool(changed[1].records), changed[1].high_watermark) == (SECOND, True, 0)
    (changed,) = session.fetch({SECOND: 1}).items()
    assert (changed[0], changed[1].records, changed[1].high_watermark) == (SECOND, b"", 1)
    assert (session.fetch({}), leading.acknowledged) == ({}, 1)


def test_a_fetch_that_waits_in_a_session_ends_with_an_append() -> None:
    leading = Leading({ORDERS: (LEADER, FOLLOWER), SECOND: (LEADER, FOLLOWER)})
    session = begun(leading)
    waiting = session.send({})
    assert isinstance(waiting, Pending)
    leading.append(ORDERS, b"a")
    (row,) = rows_of(waiting.response)
    assert row.records
    assert not leading.manager.watchers


def test_a_session_that_is_not_known_and_an_epoch_that_is_not_due() -> None:
    leading = Leading({ORDERS: (LEADER, FOLLOWER), SECOND: (LEADER, FOLLOWER)})
    session = begun(leading)
    session.epoch += 1
    late = session.send({})
    session.id += 1
    unknown = session.send({})
    assert isinstance(late, FetchResponse)
    assert isinstance(unknown, FetchResponse)
    assert (late.error_code, unknown.error_code) == (
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    )


def test_a_follower_that_says_nothing_new_is_caught_up_when_it_fetched_last() -> None:
    """An append does not make one lag that has waited for it for long."""
    leading = Leading({ORDERS: (LEADER, FOLLOWER), SECOND: (LEADER, FOLLOWER)})
    session = begun(leading)
    leading.world.run_until(leading.world.now_ms + 60_000)
    assert session.fetch({}) == {}
    leading.append(ORDERS, b"a")
    leading.world.run_until(leading.world.now_ms + 29_999)
    leading.manager.tick()
    assert leading.written == []
    leading.world.run_until(leading.world.now_ms + 2)
    leading.manager.tick()
    assert [write.state.isr for write in leading.written] == [(LEADER,)]


def test_a_follower_outside_of_the_isr_asks_to_join_it_with_each_fetch() -> None:
    leading = Leading({ORDERS: (LEADER, FOLLOWER), SECOND: (LEADER, FOLLOWER)})
    session = begun(leading)
    role = leading.manager.replicas.partitions[ORDERS].role
    assert isinstance(role, Leader)
    without = PartitionState(LEADER, 0, (LEADER,), 1, 5, (LEADER, FOLLOWER))
    leading.manager.update_metadata(1, 1, {ORDERS: without})
    session.fetch({})
    (write,) = leading.written
    role.isr_refused(write.state, without, leading.world.now_ms)
    session.fetch({})
    assert [each.state.isr for each in leading.written] == [(LEADER, FOLLOWER)] * 2


def test_a_leader_that_resigns_ends_the_wait_with_its_error() -> None:
    leading = Leading({ORDERS: (LEADER, FOLLOWER), SECOND: (LEADER, FOLLOWER)})
    session = begun(leading)
    waiting = session.send({})
    assert isinstance(waiting, Pending)
    leading.manager.leader_and_isr(1, 1, {SECOND: PartitionState(FOLLOWER, 1, (FOLLOWER,), 1, 1, (LEADER, FOLLOWER))})
    (row,) = rows_of(waiting.response)
    assert (row.partition_index, row.error_code) == (1, ErrorCode.FENCED_LEADER_EPOCH)
