"""Followers' fetches at their leader, in virtual time: of Kafka's ReplicaManagerTest, by its names."""

from __future__ import annotations

from coterie.broker.cluster.cluster_view import ClusterView
from coterie.broker.cluster.replicas.follower_fetches import FollowerFetches
from coterie.broker.cluster.replicas.replica_manager import ReplicaManager
from coterie.broker.requests.pending import Pending
from coterie.laboratory.world import World
from coterie.replication.states import PartitionState, ReplicationConfig, TopicPartition
from coterie.wire.messages.logs.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from tests.broker.cluster.harness import ORDERS, MemoryStorage
from tests.world_scheduler import WorldScheduler

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
        self.fetches = FollowerFetches(self.manager, view, WorldScheduler(self.world))
        assert self.manager.leader_and_isr(1, 1, states) == {}
        self.acknowledged = 0

    def append(self, partition: TopicPartition, value: bytes) -> None:
        def decided(error: object) -> None:
            assert error is None
            self.acknowledged += 1

        self.manager.append(partition, value, decided, acks_all=True)

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
    assert leading.manager.replicas.high_watermarks() == {ORDERS: 1, SECOND: 0}


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
