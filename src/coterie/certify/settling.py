"""A request whose effect comes after its response: the judge waits for the effect before it goes on.

Kafka responds to EndTxn when the transaction's end is decided, and writes its markers then; it responds to DeleteTopics when
its controller has deleted the topics, which its brokers learn a little later. Its group coordinator learns of a topic when the
brokers already know it, and resolves a regular expression once it has responded to the heartbeat that brings it. It has the
share partitions of a group initialized, and creates the internal topics of a streams group, once it has responded.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable

from coterie.client.connection.connection import Connection
from coterie.client.security import PLAINTEXT, Security
from coterie.wire.declaration import Message, Struct
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from coterie.wire.messages.groups.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from coterie.wire.messages.groups.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from coterie.wire.messages.groups.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from coterie.wire.messages.share.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
)
from coterie.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from coterie.wire.messages.streams.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from coterie.wire.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from coterie.wire.messages.topics.delete_topics import DeleteTopicsResponse
from coterie.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from coterie.wire.messages.transactions.end_txn import EndTxnRequest, EndTxnResponse

SETTLED_WITHIN_S = 4.0
KNOWN_WITHIN_S = 20.0  # topics, to the coordinator: they come, on a machine with too much to do later
COORDINATOR_LOADS_S = 90.0
_LOADING = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
AGAIN_EVERY_S = 0.005
METADATA_VERSION = 4  # the first that creates nothing
HEARTBEAT_VERSION = 0
DESCRIBE_VERSION = 0  # of ConsumerGroupDescribe and DescribeShareGroupOffsets
MISSING_INTERNAL_TOPICS = 3  # a status of StreamsGroupHeartbeat
CREATE_VERSION = 4  # of CreateTopics, which goes to the controller


async def settle(connection: Connection, request: Message, version: int, response: Struct) -> None:
    """Returns when the effect of this request is there after its response, at the latest after `SETTLED_WITHIN_S`. Raises
    KafkaError when the broker is gone."""
    if isinstance(request, EndTxnRequest) and isinstance(response, EndTxnResponse) and not response.error_code:
        await _until(lambda: _has_ended(connection, request, version))
    elif isinstance(response, DeleteTopicsResponse):
        names = [result.name for result in response.responses if result.name and not result.error_code]
        if names:
            await _until(lambda: _are_gone(connection, names))
    elif isinstance(response, ConsumerGroupHeartbeatResponse) and not response.error_code:
        assert isinstance(request, ConsumerGroupHeartbeatRequest)
        group_id, epoch = request.group_id, response.member_epoch
        if request.subscribed_topic_regex:
            await _until(lambda: _is_ahead(connection, group_id, epoch))
    elif isinstance(response, ShareGroupHeartbeatResponse) and not response.error_code:
        assert isinstance(request, ShareGroupHeartbeatRequest)
        subscribed, of_group = request.subscribed_topic_names, request.group_id
        if subscribed and response.member_epoch >= 0:
            await _until(lambda: _are_initialized(connection, of_group, subscribed), KNOWN_WITHIN_S)
    elif isinstance(response, StreamsGroupHeartbeatResponse) and not response.error_code:
        assert isinstance(request, StreamsGroupHeartbeatRequest)
        if any(status.status_code == MISSING_INTERNAL_TOPICS for status in response.status or ()):
            subtopologies = request.topology.subtopologies if request.topology is not None else []
            made = [(*sub.state_changelog_topics, *sub.repartition_source_topics) for sub in subtopologies]
            names = sorted({topic.name for topics in made for topic in topics})
            if names:
                await until_the_coordinator_knows(connection, names)


async def until_the_coordinator_knows(connection: Connection, names: list[str]) -> None:
    """Returns when a consumer of these topics, in a group of its own, is assigned all partitions that there are."""

    async def is_assigned() -> bool:
        topics = [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics, allow_auto_topic_creation=False)
        known = await connection.request_version(request, MetadataResponse, METADATA_VERSION, SETTLED_WITHIN_S)
        group, member = f"settling-{uuid.uuid4()}", str(uuid.uuid4())
        join = ConsumerGroupHeartbeatRequest(
            group, member, rebalance_timeout_ms=6_000, subscribed_topic_names=names, topic_partitions=[]
        )
        joined = await connection.request_version(
            join, ConsumerGroupHeartbeatResponse, HEARTBEAT_VERSION, SETTLED_WITHIN_S
        )
        assigned = [] if joined.assignment is None else joined.assignment.topic_partitions
        there = sum(len(topic.partitions) for topic in known.topics)
        return bool(joined.error_code) or there == sum(len(topic.partitions) for topic in assigned)

    await _until(is_assigned, KNOWN_WITHIN_S)


async def _until(reached: Callable[[], Awaitable[bool]], within_s: float = SETTLED_WITHIN_S) -> None:
    loop = asyncio.get_running_loop()
    until_s = loop.time() + within_s
    while not await reached() and loop.time() < until_s:
        await asyncio.sleep(AGAIN_EVERY_S)


async def _has_ended(connection: Connection, request: EndTxnRequest, version: int) -> bool:
    """An EndTxn that is repeated has no effect, and is refused as long as markers are missing."""
    response = await connection.request_version(request, EndTxnResponse, version, SETTLED_WITHIN_S)
    return response.error_code != ErrorCode.CONCURRENT_TRANSACTIONS


async def _is_ahead(connection: Connection, group_id: str, epoch: int) -> bool:
    """Whether the group's epoch is beyond the member's: it rises with the topics that an expression resolves to."""
    request = ConsumerGroupDescribeRequest([group_id])
    described = await connection.request_version(
        request, ConsumerGroupDescribeResponse, DESCRIBE_VERSION, SETTLED_WITHIN_S
    )
    return all(group.error_code or group.group_epoch > epoch for group in described.groups)


async def _are_initialized(connection: Connection, group_id: str, names: list[str]) -> bool:
    """Whether the share group has a state for each partition of those topics that there are.

    Kafka's persister, which reads the states, is slow on a busy machine."""
    topics = [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics, allow_auto_topic_creation=False)
    known = await connection.request_version(request, MetadataResponse, METADATA_VERSION, KNOWN_WITHIN_S)
    described = await connection.request_version(
        DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(group_id, None)]),
        DescribeShareGroupOffsetsResponse,
        DESCRIBE_VERSION,
        KNOWN_WITHIN_S,
    )
    initialized = {topic.topic_name: len(topic.partitions) for group in described.groups for topic in group.topics}
    return all(initialized.get(str(topic.name), 0) >= len(topic.partitions) for topic in known.topics)


async def _are_gone(connection: Connection, names: list[str]) -> bool:
    topics = [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics, allow_auto_topic_creation=False)
    known = await connection.request_version(request, MetadataResponse, METADATA_VERSION, SETTLED_WITHIN_S)
    if any(topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for topic in known.topics):
        return False
    creation = CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in names], validate_only=True)
    created = await connection.request_version(creation, CreateTopicsResponse, CREATE_VERSION, SETTLED_WITHIN_S)
    return all(topic.error_code != ErrorCode.TOPIC_ALREADY_EXISTS for topic in created.topics)


async def until_the_coordinator_has_loaded(address: tuple[str, int], security: Security = PLAINTEXT) -> None:
    """The first look-up makes `__consumer_offsets`; then its partition has to be loaded. Raises KafkaError where it cannot
    be asked."""
    connection = await Connection.connect(*address, "settling", SETTLED_WITHIN_S, security)
    loop = asyncio.get_running_loop()
    until_s = loop.time() + COORDINATOR_LOADS_S
    try:
        while loop.time() < until_s:
            # The second makes Kafka's __transaction_state.
            for look_up in (FindCoordinatorRequest(key="g"), FindCoordinatorRequest(key="t", key_type=1)):
                await connection.request(look_up, FindCoordinatorResponse, COORDINATOR_LOADS_S, highest=3)
            describe = DescribeGroupsRequest(["g"])
            described = await connection.request(describe, DescribeGroupsResponse, COORDINATOR_LOADS_S, highest=5)
            if not any(group.error_code in _LOADING for group in described.groups):
                break
            await asyncio.sleep(0.1)
    finally:
        connection.close()


def wait_for_coordinator(address: tuple[str, int], security: Security = PLAINTEXT) -> None:
    """`until_the_coordinator_has_loaded`, for callers without a loop."""
    asyncio.run(until_the_coordinator_has_loaded(address, security))
