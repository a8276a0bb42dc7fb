"""The share coordinator of a broker: its five requests, `__share_group_state` over a restart, and FindCoordinator for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from coterie.broker.broker import Broker
from coterie.broker.settings import BrokerSettings
from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.testing import ErrorCode, LocalBroker
from coterie.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from coterie.wire.messages.share.delete_share_group_state import (
    DeletedStatePartition,
    DeletedStateTopic,
    DeleteShareGroupStateRequest,
)
from coterie.wire.messages.share.initialize_share_group_state import (
    InitializedPartition,
    InitializedTopic,
    InitializeShareGroupStateRequest,
)
from coterie.wire.messages.share.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadStatePartition,
    ReadStateTopic,
)
from coterie.wire.messages.share.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from coterie.wire.messages.share.write_share_group_state import (
    WriteShareGroupStateRequest,
    WrittenPartitionState,
    WrittenTopicState,
)
from coterie.wire.messages.stored.share_group_state import StateBatch
from coterie.wire.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState
from coterie.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic
from tests.awaiting import until_in_thread

SHARE = 2


@pytest.fixture
def socket(coterie_broker: LocalBroker) -> Iterator[BrokerSocket]:
    coterie_broker.create_topic("t", 2)
    opened = BrokerSocket(coterie_broker.host, coterie_broker.port)
    yield opened
    opened.close()


def topic_id(socket: BrokerSocket) -> bytes:
    made: bytes = socket.request(MetadataRequest([MetadataRequestTopic(name="t")])).topics[0].topic_id
    return made


def initialize(socket: BrokerSocket, topic: bytes, *partitions: InitializedPartition) -> list[int]:
    request = InitializeShareGroupStateRequest("g", [InitializedTopic(topic, list(partitions))])
    return [row.error_code for row in socket.request(request).results[0].partitions]


def write(socket: BrokerSocket, topic: bytes, written: WrittenPartitionState) -> int:
    (result,) = socket.request(WriteShareGroupStateRequest("g", [WrittenTopicState(topic, [written])])).results
    code: int = result.partitions[0].error_code
    return code


def read(socket: BrokerSocket, topic: bytes, leader_epoch: int, partition: int = 0) -> Any:
    request = ReadShareGroupStateRequest("g", [ReadStateTopic(topic, [ReadStatePartition(partition, leader_epoch)])])
    return socket.request(request).results[0].partitions[0]


def test_a_state_is_initialized_written_read_and_deleted(socket: BrokerSocket) -> None:
    topic = topic_id(socket)
    assert initialize(socket, topic, InitializedPartition(0, 1, 5), InitializedPartition(7, 1, 5)) == [0, 3]
    batch = StateBatch(5, 9, 2, 1)
    assert write(socket, topic, WrittenPartitionState(0, 1, 0, 5, 5, [batch])) == 0
    state = read(socket, topic, 3)
    assert (state.start_offset, state.state_epoch, state.state_batches) == (5, 1, [batch])
    assert write(socket, topic, WrittenPartitionState(0, 1, 2, 5, 5, [])) == ErrorCode.FENCED_LEADER_EPOCH
    assert write(socket, topic, WrittenPartitionState(0, 0, 3, 5, 5, [])) == ErrorCode.FENCED_STATE_EPOCH
    assert read(socket, topic, 3, partition=1).error_code == ErrorCode.INVALID_REQUEST
    summary = ReadShareGroupStateSummaryRequest("g", [ReadStateTopic(topic, [ReadStatePartition(0, -1)])])
    row = socket.request(summary).results[0].partitions[0]
    assert (row.start_offset, row.leader_epoch, row.delivery_complete_count) == (5, 3, 5)
    delete = DeleteShareGroupStateRequest("g", [DeletedStateTopic(topic, [DeletedStatePartition(0)])])
    assert socket.request(delete).results[0].partitions[0].error_code == 0
    assert read(socket, topic, 3).error_code == ErrorCode.INVALID_REQUEST
    assert socket.request(summary).results[0].partitions[0].start_offset == -1


def test_requests_without_a_group_a_topic_or_a_partition_have_no_results(socket: BrokerSocket) -> None:
    topic = topic_id(socket)
    for request in (
        ReadShareGroupStateRequest("", [ReadStateTopic(topic, [ReadStatePartition(0, 0)])]),
        ReadShareGroupStateRequest("g", []),
        ReadShareGroupStateRequest("g", [ReadStateTopic(topic, [])]),
    ):
        assert socket.request(request).results == []


def test_find_coordinator_knows_the_share_coordinator(socket: BrokerSocket) -> None:
    key = "g:AAECAwQFBgcICQoLDA0ODw:0"
    responses = socket.request(FindCoordinatorRequest("", SHARE, [key, "g"])).coordinators
    assert [(c.key, c.error_code) for c in responses] == [(key, 0), ("g", ErrorCode.INVALID_REQUEST)]
    old = socket.request(FindCoordinatorRequest("", SHARE, [key]), highest=5).coordinators
    assert old[0].error_code == ErrorCode.INVALID_REQUEST


def test_states_outlast_a_restart_also_after_their_log_was_pruned(tmp_path: Path) -> None:
    """ShareCoordinatorServiceTest: testStartupShutdown"""
    settings = BrokerSettings({"share.coordinator.snapshot.update.records.per.snapshot": "1"})
    responses: list[Any] = []

    async def write_and_prune() -> bytes:
        async with started(Broker(settings, tmp_path)) as broker:
            topic = broker.topics.create("t", 1).topic_id
            submit = broker.share_coordinator.submit
            initial = InitializedTopic(topic, [InitializedPartition(0, 1, 0)])
            submit(InitializeShareGroupStateRequest("g", [initial]), responses.append)
            for offset in range(4):
                written = WrittenPartitionState(0, 1, 0, 0, 0, [StateBatch(offset, offset, 2, 1)])
                submit(WriteShareGroupStateRequest("g", [WrittenTopicState(topic, [written])]), responses.append)
            broker.share_coordinator.prune()
            # initialized, an update, a snapshot, an update, a snapshot
            assert max(log.log_start_offset for log in broker.topics.every_log()) == 4
        return topic

    async def read_again(topic: bytes) -> None:
        async with started(Broker(settings, tmp_path)) as broker:
            request = ReadShareGroupStateRequest("g", [ReadStateTopic(topic, [ReadStatePartition(0, 0)])])
            loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            while responses[-1].results[0].partitions[0].error_code == loading or len(responses) == 5:
                await asyncio.sleep(0)
                broker.share_coordinator.submit(request, responses.append)
            assert responses[-1].results[0].partitions[0].state_batches == [StateBatch(0, 3, 2, 1)]

    asyncio.run(read_again(asyncio.run(write_and_prune())))
    assert all(not r.results[0].partitions[0].error_code for r in responses[:5])


@asynccontextmanager
async def started(broker: Broker) -> AsyncIterator[Broker]:
    await broker.start("127.0.0.1", 0)
    try:
        yield broker
    finally:
        await broker.stop()


def test_a_deleted_topic_leaves_no_state(coterie_broker: LocalBroker, socket: BrokerSocket) -> None:
    topic = topic_id(socket)
    initialize(socket, topic, InitializedPartition(0, 1, 0))
    socket.request(DeleteTopicsRequest([DeleteTopicState("t")]))
    hosted = coterie_broker.broker.share_coordinator._hosted.values()
    until_in_thread(lambda: not sum(len(h.shard) for h in hosted), "the state is gone")
