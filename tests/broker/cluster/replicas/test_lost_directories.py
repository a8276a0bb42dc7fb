"""A broker with several log directories, as Apache Kafka's may have them, of which one fails; coterie is the controller."""

from __future__ import annotations

from coterie.broker.handlers.services import Services
from coterie.broker.requests.calls import Call
from coterie.broker.requests.pending import Pending
from coterie.controller import nodes
from coterie.testing.cluster_brokers import ClusterBrokers, ClusteredBroker
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.brokers.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
)
from coterie.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from coterie.zookeeper.operations import Create
from tests.awaiting import until
from tests.broker.cluster.brokers_in_memory import (
    TOPIC,
    all_in_sync,
    clustered,
    create,
    equal_logs,
    led_by,
    produce,
    requested,
)

OTHER = "payments"
LEADER_AND_ISR = LeaderAndIsrRequest.api_key


def lose_directory(cluster: ClusterBrokers, broker_id: int) -> None:
    """The directory with the log of ``TOPIC``: the replica stops, as ReplicaManager.handleLogDirFailure has it, and
    LeaderAndIsr is answered as becomeLeaderOrFollower does. The broker announces it."""
    broker = cluster.brokers[broker_id].broker
    carry_out = broker.handlers[LEADER_AND_ISR]

    def handle(services: Services, request: Message, call: Call) -> Message | Pending | None:
        assert isinstance(request, LeaderAndIsrRequest)
        is_lost = any(topic.topic_name == TOPIC for topic in request.topic_states)
        request.topic_states = [topic for topic in request.topic_states if topic.topic_name != TOPIC]
        pending = Pending()
        pending.respond_with(carry_out(services, request, call))
        return pending.then(with_error) if is_lost else pending

    broker.handlers[LEADER_AND_ISR] = handle
    assert broker.member is not None
    broker.member.manager.forgotten([(TOPIC, 0)])
    path = f"{nodes.LOG_DIR_EVENTS}/log_dir_event_"
    cluster.zookeeper.apply(Create(path, nodes.log_dir_event(broker_id), ephemeral=False, sequential=True))


def with_error(response: Message) -> Message:
    """For the partition of ``TOPIC``."""
    assert isinstance(response, LeaderAndIsrResponse)
    response.partition_errors.append(LeaderAndIsrPartitionError(TOPIC, 0, ErrorCode.KAFKA_STORAGE_ERROR))
    return response


async def offline(broker: ClusteredBroker, topic: str) -> list[int]:
    """The offline replicas, as Metadata describes them."""
    request = MetadataRequest([MetadataRequestTopic(name=topic)])
    (described,) = (await requested(broker, request, MetadataResponse, 9)).topics
    return described.partitions[0].offline_replicas


async def all_describe(cluster: ClusterBrokers, topic: str, replicas: list[int]) -> None:
    """Every broker describes these as offline."""
    for broker in cluster.live():

        async def is_described(broker: ClusteredBroker = broker) -> bool:
            return await offline(broker, topic) == replicas

        await until(is_described, f"broker {broker.broker_id} to describe {replicas}")


async def test_another_broker_leads_until_the_broker_starts_again() -> None:
    """Its other replicas go on, the lost one comes back with the next start."""
    async with clustered(3) as cluster:
        await create(cluster, (2, 1, 3))
        await create(cluster, (2, 1, 3), name=OTHER)
        await led_by(cluster, 2)
        await produce(cluster, b"before")
        await all_in_sync(cluster, 1, 2, 3)
        lose_directory(cluster, 2)
        await led_by(cluster, 1)
        await all_in_sync(cluster, 1, 3)
        await produce(cluster, b"meanwhile")
        await produce(cluster, b"elsewhere", name=OTHER)
        await led_by(cluster, 2, OTHER)
        await all_describe(cluster, TOPIC, [2])
        await all_describe(cluster, OTHER, [])
        await cluster.brokers[2].stop()
        await cluster.brokers[2].start()
        await all_in_sync(cluster, 1, 2, 3)
        await all_describe(cluster, TOPIC, [])
        await equal_logs(cluster)
