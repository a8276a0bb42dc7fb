"""Appends to a partition with replicas: a Produce with acks=all, and what a group's coordinator decides, wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from coterie.broker.broker import Broker
from coterie.broker.cluster.cluster_view import ClusterView, LiveBroker
from coterie.broker.settings import BrokerSettings
from coterie.broker.storage.replicas import AppendToken
from coterie.broker.storage.topic import OFFSETS_TOPIC, Partition
from coterie.records.encoding import encode_batch
from coterie.replication.leader import Leader
from coterie.replication.replicas import Replica
from coterie.replication.states import (
    AppendDecided,
    Effect,
    HighWatermarkMoved,
    PartitionState,
    ReplicaFetch,
    ReplicationConfig,
)
from coterie.replication.stored_log import StoredReplicaLog
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from coterie.wire.messages.groups.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from coterie.wire.messages.logs.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from coterie.wire.messages.logs.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.awaiting import quiet, until
from tests.broker.connections.test_server import FAST, Client
from tests.broker.handlers.test_old_versions import batch

ME, OTHER = 1, 2
SETTINGS = FAST | {"offsets.topic.num.partitions": "1"}
LONG_MS = 60_000
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def act(broker: Broker, effects: Iterable[Effect]) -> None:
    """What a cluster's replica manager does with a leader's effects, but for ISRs: there is no ZooKeeper here."""
    for effect in effects:
        match effect:
            case AppendDecided(token, error):
                assert isinstance(token, AppendToken)
                token.decide(error)
            case HighWatermarkMoved((topic, index), _):
                broker.topics.partition(topic, index).appended()


def lead(broker: Broker, partition: Partition, isr: tuple[int, ...], min_insync: int = 1) -> Leader:
    """The controller makes this broker the leader in epoch 1."""
    broker.replica_effects.act = lambda effects: act(broker, effects)
    config = ReplicationConfig(min_insync_replicas=min_insync)
    name = (partition.topic, partition.index)
    partition.replica = Replica(ME, name, StoredReplicaLog(partition.log, 0, broker.clock.now_ms), config, 0)
    state = PartitionState(ME, 1, isr, 1, 0, (ME, OTHER))
    broker.cluster.states[name] = state
    effects = partition.replica.assume(state, broker.clock.now_ms())
    broker.replica_effects.act(effects)
    broker.role_changed(partition)
    return partition.replica.leading()


def follow(broker: Broker, partition: Partition) -> None:
    """The controller makes the other one the leader in epoch 2."""
    assert partition.replica is not None
    state = PartitionState(OTHER, 2, (ME, OTHER), 1, 1, (ME, OTHER))
    broker.replica_effects.act(partition.replica.assume(state, broker.clock.now_ms()))
    broker.role_changed(partition)


def fetched(broker: Broker, leader: Leader) -> None:
    """The follower has all that there is."""
    request = ReplicaFetch(OTHER, leader.state.leader_epoch, leader.log.end_offset, 0)
    _, effects = leader.fetch(request, broker.clock.now_ms())
    broker.replica_effects.act(effects)


def announced(broker: Broker, name: str) -> Partition:
    """The controller's topic of one partition, with a replica here."""
    partition = broker.topics.announce(name, 1, name.encode().ljust(16), {}).partitions[0]
    broker.topics.store(partition)
    return partition


@asynccontextmanager
async def one_of_two(**settings: str) -> AsyncIterator[tuple[Broker, Client, Partition, Partition]]:
    """A broker of a cluster with the topics t and __consumer_offsets of a partition each."""
    broker = Broker(BrokerSettings(SETTINGS | {k.replace("_", "."): v for k, v in settings.items()}))
    broker.cluster = ClusterView(ME, is_alone=False)
    broker.cluster.update(ME, [LiveBroker(ME, "127.0.0.1", 1), LiveBroker(OTHER, "127.0.0.1", 2)], {})
    address = await broker.start("127.0.0.1", 0)
    await broker.serve()
    client = Client(*await asyncio.open_connection(*address))
    try:
        yield broker, client, announced(broker, "t"), announced(broker, OFFSETS_TOPIC)
    finally:
        client.writer.close()
        await broker.stop()


def produce(
    client: Client, acks: int, timeout_ms: int = LONG_MS, records: bytes = batch(b"a"), version: int = 8
) -> asyncio.Task[ProduceResponse]:
    data = [TopicProduceData("t", partition_data=[PartitionProduceData(0, records)])]
    return asyncio.create_task(client.ask(ProduceRequest(None, acks, timeout_ms, data), ProduceResponse, version))


def code(response: ProduceResponse) -> int:
    return response.responses[0].partition_responses[0].error_code


async def test_a_produce_with_acks_all_waits_for_the_replicas_in_sync() -> None:
    async with one_of_two() as (broker, client, partition, _):
        leader = lead(broker, partition, (ME, OTHER))
        waiting = produce(client, -1)
        await until(lambda: partition.log.end_offset == 1)
        await quiet()
        assert not waiting.done()
        fetched(broker, leader)
        response = await waiting
        assert (code(response), response.responses[0].partition_responses[0].base_offset) == (0, 0)


@pytest.mark.parametrize("acks", [1, -1])
async def test_a_produce_waits_for_no_replica_that_is_not_in_sync(acks: int) -> None:
    async with one_of_two() as (broker, client, partition, _):
        lead(broker, partition, (ME, OTHER) if acks == 1 else (ME,))
        assert code(await produce(client, acks)) == ErrorCode.NONE


async def test_acks_are_none_one_or_all() -> None:
    """testIllegalRequiredAcks"""
    async with one_of_two() as (broker, client, partition, _):
        lead(broker, partition, (ME, OTHER))
        assert code(await produce(client, 3)) == ErrorCode.INVALID_REQUIRED_ACKS
        assert partition.log.end_offset == 0


async def test_a_sequence_out_of_order_is_refused_with_the_start_of_the_log() -> None:
    """testReceiveOutOfOrderSequenceExceptionWithLogStartOffset"""
    async with one_of_two() as (broker, client, partition, _):
        lead(broker, partition, (ME, OTHER))
        for sequence, error in ((0, ErrorCode.NONE), (1, ErrorCode.NONE), (2, ErrorCode.NONE), (13, OUT_OF_ORDER)):
            ids = {"producer_id": 234, "producer_epoch": 5, "base_sequence": sequence}
            response = await produce(client, 1, records=encode_batch([(1_000, None, b"v", ())], **ids))
            (row,) = response.responses[0].partition_responses
            assert (row.error_code, row.log_start_offset) == (error, 0)
        assert partition.log.end_offset == 3


async def test_too_few_replicas_in_sync_refuse_an_append() -> None:
    async with one_of_two() as (broker, client, partition, _):
        lead(broker, partition, (ME,), min_insync=2)
        assert code(await produce(client, -1)) == ErrorCode.NOT_ENOUGH_REPLICAS
        assert partition.log.end_offset == 0
        assert code(await produce(client, 1)) == ErrorCode.NONE


async def test_an_isr_that_shrinks_meanwhile_is_not_enough_after_the_append() -> None:
    async with one_of_two() as (broker, client, partition, _):
        leader = lead(broker, partition, (ME, OTHER), min_insync=2)
        waiting = produce(client, -1)
        await until(lambda: partition.log.end_offset == 1)
        leader.state = replace(leader.state, isr=(ME,))
        fetched(broker, leader)
        assert code(await waiting) == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


async def test_an_append_that_is_not_acknowledged_in_time_has_timed_out() -> None:
    async with one_of_two() as (broker, client, partition, _):
        leader = lead(broker, partition, (ME, OTHER))
        assert code(await produce(client, -1, timeout_ms=1)) == ErrorCode.REQUEST_TIMED_OUT
        fetched(broker, leader)  # too late, and nobody is answered twice
        assert code(await produce(client, 1)) == ErrorCode.NONE


async def test_a_leader_that_resigns_refuses_what_waits() -> None:
    async with one_of_two() as (broker, client, partition, _):
        lead(broker, partition, (ME, OTHER))
        waiting = produce(client, -1)
        await until(lambda: partition.log.end_offset == 1)
        follow(broker, partition)
        assert code(await waiting) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert code(await produce(client, 1)) == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_leader_that_resigns_names_the_new_one() -> None:
    """KIP-951. The view of the cluster has not heard of it: the controller announces it after LeaderAndIsr."""
    async with one_of_two() as (broker, client, partition, _):
        lead(broker, partition, (ME, OTHER))
        waiting = produce(client, -1, version=10)
        await until(lambda: partition.log.end_offset == 1)
        follow(broker, partition)
        for response in (await waiting, await produce(client, 1, version=10)):
            (row,) = response.responses[0].partition_responses
            assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == (OTHER, 2)
            assert [(n.node_id, n.host, n.port) for n in response.node_endpoints] == [(OTHER, "127.0.0.1", 2)]


# -- groups ---------------------------------------------------------------------------------------------------------------


def commit(client: Client, offset: int) -> asyncio.Task[OffsetCommitResponse]:
    topics = [OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, offset)])]
    return asyncio.create_task(client.ask(OffsetCommitRequest("g", topics=topics), OffsetCommitResponse, 8))


def committed(response: OffsetCommitResponse) -> int:
    return response.topics[0].partitions[0].error_code


async def heartbeat(client: Client) -> int:
    return (await client.ask(HeartbeatRequest("g", 1, "m"), HeartbeatResponse, 4)).error_code


async def offset_of(client: Client) -> tuple[int, int]:
    """The error and the offset of t-0."""
    response = await client.ask(OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", [0])]), OffsetFetchResponse, 7)
    return response.error_code, response.topics[0].partitions[0].committed_offset if response.topics else -1


async def stable_offset_of(client: Client) -> tuple[int, int]:
    """The partition's error and the offset, where it must be stable."""
    request = OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", [0])], require_stable=True)
    row = (await client.ask(request, OffsetFetchResponse, 7)).topics[0].partitions[0]
    return row.error_code, row.committed_offset


async def test_a_groups_change_waits_for_the_replicas_in_sync() -> None:
    async with one_of_two() as (broker, client, _, offsets):
        leader = lead(broker, offsets, (ME, OTHER))
        await broker.groups.loaded()
        waiting = commit(client, 5)
        await until(lambda: offsets.log.end_offset == 1)
        await quiet()
        assert not waiting.done()
        fetched(broker, leader)
        assert committed(await waiting) == ErrorCode.NONE
        assert await offset_of(client) == (0, 5)


async def test_a_groups_change_is_refused_without_enough_replicas() -> None:
    async with one_of_two(offsets_commit_timeout_ms="1") as (broker, client, _, offsets):
        lead(broker, offsets, (ME,), min_insync=2)
        await broker.groups.loaded()
        assert committed(await commit(client, 5)) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert offsets.log.end_offset == 0
        lead(broker, offsets, (ME, OTHER))
        assert committed(await commit(client, 6)) == ErrorCode.COORDINATOR_NOT_AVAILABLE  # timed out
        assert offsets.log.end_offset == 1


async def test_a_coordinator_that_loses_its_partition_answers_so_and_another_loads_it() -> None:
    async with one_of_two() as (broker, client, _, offsets):
        assert await heartbeat(client) == ErrorCode.NOT_COORDINATOR  # no role yet
        leader = lead(broker, offsets, (ME, OTHER))
        with pytest.raises(Refusal) as refused:
            broker.groups.group("g")
        assert refused.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await broker.groups.loaded()
        waiting = commit(client, 7)
        await until(lambda: offsets.log.end_offset == 1)
        follow(broker, offsets)
        assert committed(await waiting) == ErrorCode.NOT_COORDINATOR
        assert await offset_of(client) == (ErrorCode.NOT_COORDINATOR, -1)
        state = replace(leader.state, leader_epoch=3)
        assert offsets.replica is not None
        offsets.replica.assume(state, broker.clock.now_ms())
        broker.role_changed(offsets)
        await broker.groups.loaded()
        assert await offset_of(client) == (0, 7)  # what the log has


async def test_an_offset_that_not_all_in_sync_have_is_not_read_yet() -> None:
    """Kafka's GroupMetadataManagerTest: testCommitOffset..., and pending commits with require_stable (KIP-447)."""
    async with one_of_two(offsets_commit_timeout_ms="200") as (broker, client, _, offsets):
        leader = lead(broker, offsets, (ME, OTHER))
        await broker.groups.loaded()
        reader = Client(*await asyncio.open_connection(*client.writer.get_extra_info("peername")))
        assert await offset_of(reader) == (0, -1)
        waiting = commit(client, 5)
        await until(lambda: offsets.log.end_offset == 1)
        assert await offset_of(reader) == (0, -1)
        assert await stable_offset_of(reader) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
        fetched(broker, leader)
        assert committed(await waiting) == ErrorCode.NONE
        assert await stable_offset_of(reader) == (0, 5)
        assert committed(await commit(client, 6)) == ErrorCode.COORDINATOR_NOT_AVAILABLE  # timed out
        assert committed(await commit(client, 7)) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await offset_of(reader) == (0, 5)
        fetched(broker, leader)
        assert await stable_offset_of(reader) == (0, 7)
        reader.writer.close()


@pytest.mark.parametrize(
    ("version", "error"), [(4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)]
)
async def test_the_end_is_not_available_until_the_new_leaders_high_watermark_is(version: int, error: ErrorCode) -> None:
    """Kafka's testFetchOffsetForTimestampNotAvailable of PartitionTest (KIP-207)."""
    async with one_of_two() as (broker, client, partition, _):
        for value in (b"a", b"b"):
            partition.log.append(batch(value), 1_000)
        partition.log.move_high_watermark(1)
        leader = lead(broker, partition, (ME, OTHER))
        leader.log.high_watermark = 1

        async def listed(timestamp: int, replica_id: int = -1) -> tuple[int, int]:
            wanted = ListOffsetsPartition(0, timestamp=timestamp)
            request = ListOffsetsRequest(replica_id, topics=[ListOffsetsTopic("t", [wanted])])
            row = (await client.ask(request, ListOffsetsResponse, version)).topics[0].partitions[0]
            return row.error_code, row.offset

        assert await listed(-1) == (error, -1)
        assert await listed(10**13) == (error, -1)
        assert await listed(-2) == (0, 0)
        assert await listed(-1, replica_id=-2) == (0, 2)
        fetched(broker, leader)
        assert await listed(-1) == (0, 2)
