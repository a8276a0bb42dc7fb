"""A producer whose records are refused, or whose brokers go: Kafka's ProducerFailureHandlingTest, by name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coterie.broker.cluster.settings import ClusterConfig
from coterie.broker.settings import BrokerSettings
from coterie.broker.storage.topic import OFFSETS_TOPIC
from coterie.client import KafkaError
from coterie.client.producer.producer import Producer
from coterie.testing.cluster_brokers import ClusterBrokers
from coterie.wire.errors import ErrorCode
from tests.awaiting import until
from tests.broker.cluster.brokers_in_memory import TOPIC, addresses, clustered, create, equal_logs, led_by, log_of
from tests.broker_process import free_port

MESSAGE_MAX_BYTES = 15_000
FETCH_MAX_BYTES, RESPONSE_MAX_BYTES = MESSAGE_MAX_BYTES + 200, MESSAGE_MAX_BYTES + 400
SETTINGS = {"auto.create.topics.enable": "false", "message.max.bytes": str(MESSAGE_MAX_BYTES)}
SHORT = {
    "max.block.ms": "300",
    "request.timeout.ms": "1000",
    "delivery.timeout.ms": "1000",
    "enable.idempotence": "false",
}
RECORD_OVERHEAD = 61 + 21  # of a batch, and of a record at most
WRONG_REPLICAS = {
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
}


class SmallFetches(ClusterBrokers):
    """Followers fetch less at a time than a record may have."""

    def config(self, broker_id: int, rack: str | None, settings: BrokerSettings) -> ClusterConfig:
        config = super().config(broker_id, rack, settings)
        return replace(
            config, replica_fetch_max_bytes=FETCH_MAX_BYTES, replica_fetch_response_max_bytes=RESPONSE_MAX_BYTES
        )


async def failure(cluster: ClusterBrokers, acks: str, topic: str = TOPIC, value: bytes = b"value") -> ErrorCode:
    """The error of one record."""
    async with Producer({**addresses(cluster), **SHORT, "acks": acks}) as producer:
        with pytest.raises(KafkaError) as failed:
            await producer.send_and_wait(topic, value, b"key")
    return failed.value.code


async def test_too_large_record() -> None:
    """testTooLargeRecordWithAckZero: nobody knows of the refusal, and the offset is unknown. testTooLargeRecordWithAckOne"""
    async with clustered(settings=SETTINGS) as cluster:
        await create(cluster)
        too_large = bytes(MESSAGE_MAX_BYTES + 1)
        async with Producer({**addresses(cluster), **SHORT, "acks": "0"}) as producer:
            sent = await producer.send_and_wait(TOPIC, too_large, b"key")
            assert (sent.topic, sent.partition, sent.offset) == (TOPIC, 0, -1)
        assert await failure(cluster, "1", value=too_large) is ErrorCode.MESSAGE_TOO_LARGE
        assert {log_of(broker).end_offset for broker in cluster.live()} == {0}


@pytest.mark.parametrize(
    "fetch_bytes",
    [
        pytest.param(FETCH_MAX_BYTES, id="testPartitionTooLargeForReplicationWithAckAll"),
        pytest.param(RESPONSE_MAX_BYTES, id="testResponseTooLargeForReplicationWithAckAll"),
    ],
)
async def test_a_record_too_large_for_a_fetch_is_replicated(fetch_bytes: int) -> None:
    """KIP-74: the first batch of a response is whole."""
    async with clustered(settings=SETTINGS, kind=SmallFetches) as cluster:
        most = fetch_bytes + 100
        await create(cluster, configs={"min.insync.replicas": "2", "max.message.bytes": str(most)})
        async with Producer({**addresses(cluster), **SHORT, "acks": "all"}) as producer:
            sent = await producer.send_and_wait(TOPIC, bytes(most - RECORD_OVERHEAD))
        assert (sent.topic, sent.offset) == (TOPIC, 0)
        await equal_logs(cluster)
        assert log_of(cluster.brokers[2]).size > fetch_bytes


async def test_non_existent_topic() -> None:
    """testNonExistentTopic: it is waited for, for max.block.ms."""
    async with clustered(settings=SETTINGS) as cluster:
        assert await failure(cluster, "0") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_wrong_broker_list() -> None:
    """testWrongBrokerList"""
    async with clustered(settings=SETTINGS) as cluster:
        await create(cluster)
        nobody = {"bootstrap.servers": f"127.0.0.1:{free_port()},127.0.0.1:{free_port()}"}
        with pytest.raises(KafkaError):
            async with Producer({**nobody, **SHORT, "acks": "1"}) as producer:
                await producer.send_and_wait(TOPIC, b"value", b"key")


@pytest.mark.parametrize("partition", [1, -1])
async def test_invalid_partition(partition: int) -> None:
    """testInvalidPartition: it is waited for, for max.block.ms; a negative one is refused at once."""
    async with clustered(settings=SETTINGS) as cluster:
        await create(cluster)
        async with Producer({**addresses(cluster), **SHORT, "acks": "1"}) as producer:
            await producer.send_and_wait(TOPIC, b"value", b"key")
            with pytest.raises(KafkaError, match="orders has partitions 0 to 0") as failed:
                await producer.send(TOPIC, b"value", b"key", partition=partition)
            assert failed.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_partition_that_is_new() -> None:
    """The number of partitions that the producer knows is an old one."""
    async with clustered(settings=SETTINGS) as cluster:
        await create(cluster)
        async with Producer(addresses(cluster)) as producer:
            await producer.send_and_wait(TOPIC, b"value")
            controller = cluster.controller()
            assert controller is not None
            changes = controller.broker.topic_changes
            assert changes is not None
            await changes.enlarge(TOPIC, 2, None, validate_only=False)
            await until(lambda: cluster.all_know(TOPIC, 2), "the partition")
            sent = await producer.send_and_wait(TOPIC, b"value", partition=1)
            assert (sent.partition, sent.offset) == (1, 0)


@pytest.mark.parametrize("acks", ["0", "1", "all"])
async def test_send_after_closed(acks: str) -> None:
    """testSendAfterClosed"""
    async with clustered(settings=SETTINGS) as cluster:
        await create(cluster)
        producer = Producer[bytes, bytes]({**addresses(cluster), **SHORT, "acks": acks})
        await producer.send_and_wait(TOPIC, b"value", b"key")
        await producer.close()
        with pytest.raises(RuntimeError, match="closed"):
            await producer.send(TOPIC, b"value", b"key")


async def test_cannot_send_to_internal_topic() -> None:
    """testCannotSendToInternalTopic"""
    async with clustered(settings={**SETTINGS, "offsets.topic.num.partitions": "1"}) as cluster:
        await create(cluster, name=OFFSETS_TOPIC)
        assert await failure(cluster, "1", OFFSETS_TOPIC) is ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_not_enough_replicas() -> None:
    """testNotEnoughReplicas: min.insync.replicas above the number of brokers"""
    async with clustered(settings=SETTINGS) as cluster:
        await create(cluster, configs={"min.insync.replicas": "3"})
        assert await failure(cluster, "all") is ErrorCode.NOT_ENOUGH_REPLICAS


async def test_not_enough_replicas_after_broker_shutdown() -> None:
    """testNotEnoughReplicasAfterBrokerShutdown"""
    async with clustered(settings=SETTINGS) as cluster:
        await create(cluster, configs={"min.insync.replicas": "2"})
        settings = {**addresses(cluster), **SHORT, "acks": "all", "delivery.timeout.ms": "5000"}
        async with Producer(settings) as producer:
            await producer.send_and_wait(TOPIC, b"value", b"key")
            await cluster.brokers[1].stop()
            await led_by(cluster, 2)
            with pytest.raises(KafkaError) as failed:
                await producer.send_and_wait(TOPIC, b"value", b"key")
            assert failed.value.code in WRONG_REPLICAS
