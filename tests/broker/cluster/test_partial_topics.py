"""A topic of which a broker has a part so far, by LeaderAndIsr or while its settings are read, is not in its metadata yet (seed
3335 of the stories: a leader of the classic protocol shared two of three partitions out)."""

from __future__ import annotations

import pytest

from coterie.broker.broker import Broker
from coterie.broker.cluster.cluster_view import ClusterView
from coterie.replication.states import PartitionState
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.topics.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from coterie.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.broker.cluster.replicas.test_replicated_writes import ME, OTHER, one_of_two
from tests.broker.connections.test_server import Client

TOPIC_ID = b"orders".ljust(16)
NAME, COUNT = "orders", 3


async def known(client: Client) -> list[tuple[int, int]]:
    """Error code and number of partitions by name, by id, in the list of all (if it is there) and by API 75."""
    seen = []
    for topics in ([MetadataRequestTopic(name=NAME)], [MetadataRequestTopic(TOPIC_ID, None)], None):
        response = await client.ask(MetadataRequest(topics, False), MetadataResponse, 12)
        seen += [(t.error_code, len(t.partitions)) for t in response.topics if t.name in (NAME, None)]
    for named in ([TopicRequest(NAME)], []):
        described = await client.ask(DescribeTopicPartitionsRequest(named, 100), DescribeTopicPartitionsResponse, 0)
        seen += [(t.error_code, len(t.partitions)) for t in described.topics if t.name == NAME]
    return seen


def announce(broker: Broker, view: ClusterView, count: int) -> None:
    state = PartitionState(OTHER, 0, (ME, OTHER), 1, 0, (ME, OTHER))
    view.update(ME, view.live.values(), {(NAME, index): state for index in range(count)})


@pytest.mark.parametrize("is_announced", [False, True])
async def test_a_part_of_a_topic_is_no_topic(is_announced: bool) -> None:
    async with one_of_two() as (broker, client, _, _):
        broker.topics.announce(NAME, COUNT - 1, TOPIC_ID, {})
        if is_announced:
            announce(broker, broker.cluster, COUNT)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await known(client) == [(unknown, 0), (ErrorCode.UNKNOWN_TOPIC_ID, 0), (unknown, 0)]
        announce(broker, broker.cluster, COUNT)
        broker.topics.announce(NAME, COUNT, TOPIC_ID, {})
        assert await known(client) == [(ErrorCode.NONE, COUNT)] * 5
