"""A broker that syncs before it answers, request by request: what a power cut may take, what ends the broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coterie.client.connection.connection import Connection
from coterie.client.connection.handshake import response_type
from coterie.log.partition_log import PartitionLog
from coterie.records.batch import TRANSACTIONAL_BIT
from coterie.records.encoding import encode_batch
from coterie.simulation.process import SimulatedProcess
from coterie.testing import simulate
from coterie.testing.simulated import SimulatedWorld
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from coterie.wire.messages.transactions.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from coterie.wire.messages.transactions.end_txn import EndTxnRequest
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

SLOW_S = 60.0  # at most: how long a sync takes is random
SOON_S = 0.1
REQUEST_S = 300.0
SETTINGS = {
    "log.flush.interval.messages": "1",
    "log.segment.bytes": "3000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}


class Story:
    """A broker with a topic of two partitions."""

    def __init__(self, world: SimulatedWorld) -> None:
        self.world, self.broker = world, world.broker(SETTINGS)
        self.broker.create_topic("t", 2)
        self.disk = world.disk("broker-1")
        self._clients = 0

    def send(self, request: Message, version: int) -> SimulatedProcess:
        """By a client of its own, whose result is the response."""
        self._clients += 1
        return self.world.spawn(f"client-{self._clients}", self._request, request, version)

    async def _request(self, request: Message, version: int) -> Message:
        connection = await Connection.connect(self.broker.host, self.broker.port, "client", REQUEST_S)
        try:
            return await connection.request(request, response_type(request), REQUEST_S, highest=version)
        finally:
            connection.close()

    def request(self, request: Message, version: int) -> Message:
        """Its response."""
        client = self.send(request, version)
        self.world.until(lambda: not client.is_alive, "the response")
        response = client.result
        assert isinstance(response, Message)
        return response

    def produce(self, batch: ProduceRequest) -> int:
        """The error code of the response."""
        return code(self.request(batch, 9))

    def log(self, partition: int = 0) -> PartitionLog:
        return self.broker.broker.topics.partition("t", partition).log

    def power_cut(self) -> None:
        self.broker.power_cut()
        self.broker.restart()


@pytest.fixture
def story() -> Iterator[Story]:
    with simulate(seed=1) as world:
        yield Story(world)


def produce(
    value: bytes, sequence: int, *, partition: int = 0, producer_id: int = 5, transactional_id: str | None = None
) -> ProduceRequest:
    batch = encode_batch(
        [(1, None, value, ())],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        attributes=0 if transactional_id is None else TRANSACTIONAL_BIT,
    )
    data = TopicProduceData("t", partition_data=[PartitionProduceData(partition, batch)])
    return ProduceRequest(transactional_id, -1, 5_000, [data])


def code(response: object) -> int:
    assert isinstance(response, ProduceResponse)
    return response.responses[0].partition_responses[0].error_code


def test_a_repeated_batch_waits_for_the_sync_of_the_first(story: Story) -> None:
    story.world.loop.executor_s = SLOW_S
    first = story.send(produce(b"one", 0), 9)
    story.world.advance(SOON_S)
    again = story.send(produce(b"one", 0), 9)
    story.world.advance(SOON_S)
    assert first.is_alive
    assert again.is_alive, "a repeated batch is acknowledged before the first is on the disk"
    story.world.advance(3 * SLOW_S)
    assert [code(each.result) for each in (first, again)] == [ErrorCode.NONE] * 2
    story.power_cut()
    assert story.log().end_offset == 1


def test_a_repeated_batch_on_the_disk_is_answered_without_a_sync(story: Story) -> None:
    assert story.produce(produce(b"one", 0)) == ErrorCode.NONE
    story.world.loop.executor_s = SLOW_S
    again = story.send(produce(b"one", 0), 9)
    story.world.advance(SOON_S)
    assert code(again.result) == ErrorCode.NONE


def test_a_full_segment_that_cannot_be_synced_ends_the_broker(story: Story) -> None:
    assert story.produce(produce(b"x" * 2_900, 0)) == ErrorCode.NONE
    story.disk.failing_syncs = 1
    story.send(produce(b"y" * 2_900, 1), 9)
    story.world.advance(1)
    assert not story.broker.is_alive(1), "the broker lives on after a sync that failed"


def initialized(story: Story) -> int:
    response = story.request(InitProducerIdRequest("x", 60_000), 4)
    assert isinstance(response, InitProducerIdResponse)
    return response.producer_id


@pytest.mark.parametrize("committed", [True, False])
def test_an_acknowledged_end_of_a_transaction_outlives_a_power_cut(story: Story, committed: bool) -> None:
    producer_id = initialized(story)
    story.request(AddPartitionsToTxnRequest("x", producer_id, 0, [AddPartitionsToTxnTopic("t", [0, 1])]), 3)
    for partition in (0, 1):
        written = produce(b"one", 0, partition=partition, producer_id=producer_id, transactional_id="x")
        assert story.produce(written) == ErrorCode.NONE
    story.request(EndTxnRequest("x", producer_id, 0, committed), 3)
    story.power_cut()
    for partition in (0, 1):
        log = story.log(partition)
        assert log.last_stable_offset == log.end_offset == 2
        assert bool(log.transactions.aborted_between(0, 2)) is not committed


def test_partitions_of_a_transaction_outlive_a_power_cut(story: Story) -> None:
    """Else its records would stay undecided for ever: no coordinator knows that they are there."""
    producer_id = initialized(story)
    story.request(AddPartitionsToTxnRequest("x", producer_id, 0, [AddPartitionsToTxnTopic("t", [0])]), 3)
    assert story.produce(produce(b"one", 0, producer_id=producer_id, transactional_id="x")) == ErrorCode.NONE
    story.power_cut()
    story.world.advance(120)
    assert story.log().last_stable_offset == story.log().end_offset == 2


def test_a_write_that_fails_half_way_leaves_nothing(story: Story) -> None:
    assert story.produce(produce(b"one", 0)) == ErrorCode.NONE
    story.disk.full = True
    assert story.produce(produce(b"two", 1)) == ErrorCode.KAFKA_STORAGE_ERROR
    assert story.log().end_offset == 1
    story.disk.mend()
    assert story.produce(produce(b"two", 1)) == ErrorCode.NONE
    story.power_cut()
    assert story.log().end_offset == 2


def test_what_a_process_left_unsynced_is_on_the_disk_before_a_repeated_batch_is_acknowledged(story: Story) -> None:
    """The process dies between the append and its sync; the producer sends again to the next process; the machine goes down."""
    story.world.loop.executor_s = SLOW_S
    first = story.send(produce(b"one", 0), 9)
    story.world.advance(SOON_S)
    assert first.is_alive
    first.kill()
    story.broker.kill()
    story.world.loop.executor_s = 0.0
    story.broker.restart()
    assert story.produce(produce(b"one", 0)) == ErrorCode.NONE
    story.power_cut()
    assert story.log().end_offset == 1, "an acknowledged record is gone"


RETURNS_S = 5.0


def test_a_leader_whose_machine_lost_power_is_followed_again_at_once() -> None:
    """A fetch waited for the dead machine until replica.socket.timeout.ms, 30 s, also once that broker led again (stories of
    three brokers, seed 801936)."""
    with simulate(1) as world:
        broker = world.broker({"auto.leader.rebalance.enable": "false"}, brokers=3)
        broker.create_topic("t", 1)
        cluster = broker.cluster
        first = cluster.leader("t", 0)
        assert first is not None
        world.advance(1)
        broker.power_cut(first.broker_id)
        world.until(lambda: cluster.leader("t", 0) not in (None, first), "another leader")
        broker.restart(first.broker_id)
        world.until(lambda: cluster.in_sync("t", 0) == {1, 2, 3}, "all in sync")
        world.run(cluster.move_leader("t", 0, first.broker_id))
        began_s = world.now_s
        replica = first.broker.topics.partition("t", 0).replica
        assert replica is not None
        world.until(
            lambda: all(r.end_offset == 0 for r in replica.leading().remotes.values()), "fetches of all followers"
        )
        assert world.now_s - began_s < RETURNS_S
