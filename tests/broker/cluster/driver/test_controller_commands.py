"""Elections and reassignments over sockets, by the requests of Kafka's tools. Feature levels of a cluster (KIP-584): what
one broker is asked to set is finalized for all."""

from __future__ import annotations

import pytest

from coterie.broker.cluster.peers.connections import M, PeerConnection
from coterie.client.connection.connection import Connection
from coterie.testing.simulated import WorldBroker, simulate
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.clients.api_versions import ApiVersionsRequest, ApiVersionsResponse
from coterie.wire.messages.settings.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from coterie.wire.messages.topics.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from coterie.wire.messages.topics.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from coterie.wire.messages.topics.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from tests.awaiting import until
from tests.broker.cluster.harness import ORDERS, RunningBroker, running

REQUEST_S = 30.0
UPGRADE, DOWNGRADE = 1, 2
TRANSACTIONS = "transaction.version"


async def request(broker: RunningBroker, message: Message, response: type[M], version: int) -> M:
    connection = PeerConnection("test", 10_000)
    try:
        live = broker.broker.cluster.live[broker.number]
        return await connection.request((live.host, live.port), message, response, version)
    finally:
        connection.close()


async def reassign(broker: RunningBroker, replicas: list[int] | None) -> AlterPartitionReassignmentsResponse:
    topics = [ReassignableTopic("orders", [ReassignablePartition(0, replicas)])]
    message = AlterPartitionReassignmentsRequest(topics=topics)
    return await request(broker, message, AlterPartitionReassignmentsResponse, 0)


async def test_a_partition_moves_to_another_broker() -> None:
    async with running() as cluster:
        cluster.create_topic({0: (1, 2)})
        leader = await cluster.leader()
        for value in range(10):
            await leader.append(b"%d" % value)
        controller = await cluster.controller()
        response = await reassign(controller, [3, 2])
        assert [row.error_code for row in response.responses[0].partitions] == [ErrorCode.NONE]
        await until(lambda: cluster.isr() == {2, 3}, "the reassignment")
        await until(lambda: cluster.brokers[3].leads(), "the new leader")
        await cluster.until_equal(2, 3)
        await until(lambda: ORDERS not in cluster.brokers[1].storage.logs, "the old replica to be removed")
        listed = await request(controller, ListPartitionReassignmentsRequest(), ListPartitionReassignmentsResponse, 0)
        assert (listed.error_code, listed.topics) == (ErrorCode.NONE, [])


async def test_a_reassignment_that_cannot_end_is_listed_and_cancelled() -> None:
    """The new replica cannot reach its leader."""
    async with running() as cluster:
        controller = await cluster.controller()
        one, other = (broker.number for broker in cluster.live() if broker is not controller)
        cluster.create_topic({0: (one,)})
        await cluster.leader()
        cluster.network.separate(one, other)
        assert (await reassign(controller, [other])).responses[0].partitions[0].error_code == ErrorCode.NONE
        message = ListPartitionReassignmentsRequest()
        listed = await request(controller, message, ListPartitionReassignmentsResponse, 0)
        (row,) = listed.topics[0].partitions
        assert (row.adding_replicas, row.removing_replicas) == ([other], [one])
        assert (await reassign(controller, None)).responses[0].partitions[0].error_code == ErrorCode.NONE
        assert (await request(controller, message, ListPartitionReassignmentsResponse, 0)).topics == []


async def test_the_preferred_leader_is_elected() -> None:
    async with running() as cluster:
        cluster.create_topic({0: (1, 2, 3)})
        first = await cluster.leader()
        await first.stop()
        await cluster.leader()
        await first.start()
        controller = await cluster.controller()
        requested = ElectLeadersRequest(0, [TopicPartitions("orders", [0, 7])])

        async def elected() -> bool:
            """Once the leader's change of the ISR has come to the controller."""
            response = await request(controller, requested, ElectLeadersResponse, 2)
            (topic,) = response.replica_election_results
            codes = {row.partition_id: row.error_code for row in topic.partition_result}
            assert codes[7] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert codes[0] in (ErrorCode.NONE, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
            return codes[0] == ErrorCode.NONE

        await until(elected, "an election")
        await until(first.leads, "the preferred leader")
        again = await request(controller, ElectLeadersRequest(0, None), ElectLeadersResponse, 2)
        assert again.replica_election_results == []


async def test_other_brokers_are_not_the_controller() -> None:
    async with running() as cluster:
        cluster.create_topic({0: (1, 2)})
        await cluster.leader()
        controller = await cluster.controller()
        other = next(broker for broker in cluster.live() if broker is not controller)
        assert (await reassign(other, [3])).error_code == ErrorCode.NOT_CONTROLLER
        requested = ElectLeadersRequest(0, [TopicPartitions("orders", [0])])
        elected = await request(other, requested, ElectLeadersResponse, 2)
        assert elected.replica_election_results[0].partition_result[0].error_code == ErrorCode.NOT_CONTROLLER
        every = await request(other, ElectLeadersRequest(0, None), ElectLeadersResponse, 2)
        assert [row.error_code for row in every.replica_election_results[0].partition_result] == [
            ErrorCode.NOT_CONTROLLER
        ]
        listed = await request(other, ListPartitionReassignmentsRequest(), ListPartitionReassignmentsResponse, 0)
        assert listed.error_code == ErrorCode.NOT_CONTROLLER


async def connected(broker: WorldBroker, *numbers: int) -> list[Connection]:
    every = [address.rsplit(":", 1) for address in broker.bootstrap_servers.split(",")]
    addresses = [every[number - 1] for number in numbers or (1, 2, 3)]
    return [await Connection.connect(host, int(port), "test", REQUEST_S) for host, port in addresses]


async def update(one: Connection, level: int, kind: int, *, validate_only: bool = False) -> int:
    request = UpdateFeaturesRequest(
        feature_updates=[FeatureUpdateKey(TRANSACTIONS, level, upgrade_type=kind)], validate_only=validate_only
    )
    return (await one.request(request, UpdateFeaturesResponse, REQUEST_S)).error_code


async def finalized(one: Connection) -> tuple[int, int]:
    """The level, 0 where there is none, and the epoch."""
    response = await one.request(ApiVersionsRequest("x", "1"), ApiVersionsResponse, REQUEST_S, highest=4)
    levels = {feature.name: feature.max_version_level for feature in response.finalized_features}
    return levels.get(TRANSACTIONS, 0), response.finalized_features_epoch


def test_a_level_that_one_broker_sets_is_finalized_for_all() -> None:
    with simulate(seed=1) as world:
        broker = world.broker(brokers=3)

        async def story() -> None:
            first, second, _ = brokers = await connected(broker)
            assert await update(first, 1, UPGRADE) == ErrorCode.INVALID_UPDATE_VERSION
            assert await update(first, 1, DOWNGRADE, validate_only=True) == ErrorCode.NONE
            assert [await finalized(one) for one in brokers] == [(2, 0)] * 3
            assert await update(first, 0, DOWNGRADE) == ErrorCode.NONE
            assert await finalized(first) == (0, 1)
            # What another broker is asked next knows it, notified or not.
            assert await update(second, 1, UPGRADE) == ErrorCode.NONE
            assert await finalized(second) == (1, 2)

        world.run(story())
        world.advance(1.0)

        async def notified() -> None:
            assert [await finalized(one) for one in await connected(broker)] == [(1, 2)] * 3

        world.run(notified())


@pytest.mark.parametrize("starts_after", [False, True])
def test_a_broker_that_was_away_has_the_levels_of_the_cluster(starts_after: bool) -> None:
    with simulate(seed=1) as world:
        broker = world.broker(brokers=3)
        if starts_after:
            broker.kill(3)

        async def story() -> None:
            (one,) = await connected(broker, 1)
            assert await update(one, 1, DOWNGRADE) == ErrorCode.NONE

        world.run(story())
        if starts_after:
            broker.restart(3)
        world.advance(10.0)

        async def levels() -> None:
            (last,) = await connected(broker, 3)
            assert await finalized(last) == (1, 1)

        world.run(levels())
