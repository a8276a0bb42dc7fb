"""The broker's handlers on the laboratory's disk, request by request: what a power cut may take, what ends the broker."""

from __future__ import annotations

import pytest

from coterie.laboratory.broker_actor import Durability
from coterie.laboratory.node.broker import LaboratoryBroker
from coterie.laboratory.world import World
from coterie.records.batch import TRANSACTIONAL_BIT
from coterie.records.encoding import encode_batch
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from coterie.wire.messages.transactions.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from coterie.wire.messages.transactions.end_txn import EndTxnRequest
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

SLOW_MS = 5_000


class Story:
    """A broker that syncs before it answers, with the responses to its requests."""

    def __init__(self) -> None:
        self.world = World(1)
        self.broker = LaboratoryBroker(self.world, Durability.POWER, {"t": 2})
        self.run(1_000)

    def run(self, ms: int) -> None:
        self.world.run_until(self.world.now_ms + ms)

    def send(self, request: Message, version: int) -> list[Message | None]:
        """The list gets the response once there is one."""
        responses: list[Message | None] = []
        self.broker.handle(request, version, "a", responses.append)
        return responses

    def request(self, request: Message, version: int) -> Message:
        responses = self.send(request, version)
        self.run(1_000)
        (response,) = responses
        assert response is not None
        return response

    def end_offset(self, partition: int = 0) -> int:
        return self.broker.node.topics.partition("t", partition).log.end_offset

    def power_cut(self) -> None:
        self.broker.crash(power=True)
        self.run(10_000)
        assert self.broker.up


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


def code(response: Message | None) -> int:
    assert isinstance(response, ProduceResponse)
    return response.responses[0].partition_responses[0].error_code


def test_a_repeated_batch_waits_for_the_sync_of_the_first() -> None:
    story = Story()
    story.broker.slow_sync_ms = SLOW_MS
    first = story.send(produce(b"one", 0), 9)
    story.run(1)
    again = story.send(produce(b"one", 0), 9)
    assert not first
    assert not again, "a repeated batch is acknowledged before the first is on the disk"
    story.run(2 * SLOW_MS)
    assert [code(r) for r in first + again] == [ErrorCode.NONE] * 2
    story.power_cut()
    assert story.end_offset() == 1


def test_a_repeated_batch_on_the_disk_is_answered_at_once() -> None:
    story = Story()
    assert code(story.request(produce(b"one", 0), 9)) == ErrorCode.NONE
    again = story.send(produce(b"one", 0), 9)
    assert [code(r) for r in again] == [ErrorCode.NONE]


def test_a_full_segment_that_cannot_be_synced_ends_the_broker() -> None:
    story = Story()
    assert code(story.request(produce(b"x" * 2_900, 0), 9)) == ErrorCode.NONE
    story.broker.disk.failing_syncs = 1
    crashes = story.broker.crashes
    story.send(produce(b"y" * 2_900, 1), 9)
    assert story.broker.crashes == crashes + 1, "the broker lives on after a sync that failed"


def initialized(story: Story) -> int:
    response = story.request(InitProducerIdRequest("x", 60_000), 4)
    assert isinstance(response, InitProducerIdResponse)
    return response.producer_id


@pytest.mark.parametrize("committed", [True, False])
def test_an_acknowledged_end_of_a_transaction_outlives_a_power_cut(committed: bool) -> None:
    story = Story()
    producer_id = initialized(story)
    story.request(AddPartitionsToTxnRequest("x", producer_id, 0, [AddPartitionsToTxnTopic("t", [0, 1])]), 3)
    for partition in (0, 1):
        written = produce(b"one", 0, partition=partition, producer_id=producer_id, transactional_id="x")
        assert code(story.request(written, 9)) == ErrorCode.NONE
    story.request(EndTxnRequest("x", producer_id, 0, committed), 3)
    story.power_cut()
    for partition in (0, 1):
        log = story.broker.node.topics.partition("t", partition).log
        assert log.last_stable_offset == log.end_offset == 2
        assert bool(log.transactions.aborted_between(0, 2)) is not committed


def test_partitions_of_a_transaction_outlive_a_power_cut() -> None:
    """Else its records would stay undecided for ever: no coordinator knows that they are there."""
    story = Story()
    producer_id = initialized(story)
    story.request(AddPartitionsToTxnRequest("x", producer_id, 0, [AddPartitionsToTxnTopic("t", [0])]), 3)
    assert code(story.request(produce(b"one", 0, producer_id=producer_id, transactional_id="x"), 9)) == ErrorCode.NONE
    story.power_cut()
    story.run(120_000)
    log = story.broker.node.topics.partition("t", 0).log
    assert log.last_stable_offset == log.end_offset == 2


def test_a_write_that_fails_half_way_leaves_nothing() -> None:
    story = Story()
    assert code(story.request(produce(b"one", 0), 9)) == ErrorCode.NONE
    story.broker.disk.full = True
    assert code(story.request(produce(b"two", 1), 9)) == ErrorCode.KAFKA_STORAGE_ERROR
    assert story.end_offset() == 1
    story.broker.disk.mend()
    assert code(story.request(produce(b"two", 1), 9)) == ErrorCode.NONE
    story.power_cut()
    assert story.end_offset() == 2


def test_what_a_process_left_unsynced_is_on_the_disk_before_a_repeated_batch_is_acknowledged() -> None:
    """The process dies between the append and its sync; the producer sends again to the next process; the machine goes down."""
    story = Story()
    story.broker.slow_sync_ms = SLOW_MS
    assert not story.send(produce(b"one", 0), 9)
    story.broker.crash(power=False)
    story.broker.slow_sync_ms = 0
    story.run(10_000)
    assert code(story.request(produce(b"one", 0), 9)) == ErrorCode.NONE
    story.power_cut()
    assert story.end_offset() == 1, "an acknowledged record is gone"
