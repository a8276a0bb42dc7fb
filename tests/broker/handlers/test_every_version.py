"""Every API in every advertised version answers a plain request with what that version promises, and no error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coterie.wire.apis import APIS
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.brokers.describe_cluster import DescribeClusterRequest
from coterie.wire.messages.clients.list_clients import ListClientsRequest
from coterie.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.wire.messages.groups.delete_groups import DeleteGroupsRequest
from coterie.wire.messages.groups.describe_groups import DescribeGroupsRequest
from coterie.wire.messages.groups.explain_group import ExplainGroupRequest
from coterie.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from coterie.wire.messages.groups.leave_group import LeaveGroupRequest, MemberIdentity
from coterie.wire.messages.groups.list_groups import ListGroupsRequest
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from coterie.wire.messages.groups.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from coterie.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from coterie.wire.messages.logs.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from coterie.wire.messages.logs.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from coterie.wire.messages.logs.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from coterie.wire.messages.logs.produce import ProduceResponse
from coterie.wire.messages.settings.alter_configs import AlterConfigsRequest, ReplacedResource, ReplacingConfig
from coterie.wire.messages.settings.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from coterie.wire.messages.settings.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from coterie.wire.messages.settings.list_config_resources import ListConfigResourcesRequest
from coterie.wire.messages.topics.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from coterie.wire.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from coterie.wire.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState
from coterie.wire.messages.topics.metadata import MetadataRequest, MetadataResponse
from coterie.wire.messages.transactions.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from coterie.wire.messages.transactions.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from coterie.wire.messages.transactions.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersTopicRequest,
)
from coterie.wire.messages.transactions.describe_transactions import DescribeTransactionsRequest
from coterie.wire.messages.transactions.end_txn import EndTxnRequest
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from coterie.wire.messages.transactions.list_transactions import ListTransactionsRequest
from coterie.wire.messages.transactions.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from coterie.wire.messages.transactions.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.broker.connections.test_server import Client, broker, make_topic, produce

Made = dict[str, Any]
TOPIC, BROKER = 2, 4

# api key -> a request, given what was made before: the topic's id, a member of the group "live"
REQUESTS: dict[int, Callable[[Made], Message]] = {
    2: lambda m: ListOffsetsRequest(topics=[ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=-1)])]),
    10: lambda m: FindCoordinatorRequest("g", 0, ["g"]),
    13: lambda m: LeaveGroupRequest("live", m["member"], [MemberIdentity(m["member"])]),
    14: lambda m: SyncGroupRequest(
        "live", 1, m["member"], None, "consumer", "range", [SyncGroupRequestAssignment(m["member"], b"x")]
    ),
    15: lambda m: DescribeGroupsRequest(["live", "simple"]),
    16: lambda m: ListGroupsRequest(),
    19: lambda m: CreateTopicsRequest([CreatableTopic("new", 2, 1)]),
    20: lambda m: DeleteTopicsRequest([DeleteTopicState(None, m["topic_id"])], ["t"], 1000),
    21: lambda m: DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 1)])], 1000),
    22: lambda m: InitProducerIdRequest(None, 0),
    23: lambda m: OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic("t", [OffsetForLeaderPartition(0, leader_epoch=0)])]
    ),
    27: lambda m: WriteTxnMarkersRequest(
        [WritableTxnMarker(7, 0, True, [WritableTxnMarkerTopic("__consumer_offsets", [0])])]
    ),
    28: lambda m: TxnOffsetCommitRequest(
        "x",
        "in-transaction",
        m["producer"],
        0,
        topics=[TxnOffsetCommitRequestTopic("t", m["topic_id"], [TxnOffsetCommitRequestPartition(0, 1)])],
    ),
    32: lambda m: DescribeConfigsRequest(
        [DescribeConfigsResource(TOPIC, "t", None), DescribeConfigsResource(BROKER, "1", None)], True, True
    ),
    24: lambda m: AddPartitionsToTxnRequest("x", m["producer"], 0, [AddPartitionsToTxnTopic("t", [1])]),
    25: lambda m: AddOffsetsToTxnRequest("x", m["producer"], 0, "g"),
    26: lambda m: EndTxnRequest("x", m["producer"], 0, True),
    37: lambda m: CreatePartitionsRequest([CreatePartitionsTopic("t", 4)], 1000),
    42: lambda m: DeleteGroupsRequest(["simple"]),
    33: lambda m: AlterConfigsRequest([ReplacedResource(TOPIC, "t", [ReplacingConfig("retention.ms", "5")])]),
    44: lambda m: IncrementalAlterConfigsRequest(
        [AlterConfigsResource(TOPIC, "t", [AlterableConfig("retention.ms", 0, "5"), AlterableConfig("segment.ms", 1)])]
    ),
    47: lambda m: OffsetDeleteRequest("simple", [OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(0)])]),
    60: lambda m: DescribeClusterRequest(),
    74: lambda m: ListConfigResourcesRequest(),
    61: lambda m: DescribeProducersRequest([DescribeProducersTopicRequest("t", [0])]),
    65: lambda m: DescribeTransactionsRequest(["x"]),
    66: lambda m: ListTransactionsRequest(),
    68: lambda m: ConsumerGroupHeartbeatRequest(
        "new", "m", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], topic_partitions=[]
    ),
    30000: lambda m: ExplainGroupRequest("live"),
    30001: lambda m: ListClientsRequest(),
}
ELSEWHERE = {0, 1, 3, 8, 9, 11, 12, 18}  # in test_server.py, version by version
# In a file by subject: features, log dirs, quotas, replicas, SCRAM credentials, security, share groups, telemetry, topic
# partitions.
ELSEWHERE |= {17, 29, 30, 31, 34, 35, 36, 38, 39, 40, 41, 43, 45, 46, 48, 49, 50, 51, 57, 64, 69, 71, 72, 75}
ELSEWHERE |= {76, 77, 78, 79, 83, 84, 85, 86, 87, 88, 89, 90, 91, 92, 93, 94}


def error_codes(value: Any) -> list[int]:
    """Every error code in a response, however deep."""
    if isinstance(value, list):
        return [code for item in value for code in error_codes(item)]
    if not hasattr(value, "fields"):
        return []
    codes = []
    for spec in value.fields:
        part = getattr(value, spec.name)
        codes += [part] if spec.name == "error_code" else error_codes(part)
    return codes


async def prepare(client: Client) -> Made:
    await make_topic(client, "t", 2)
    created = await client.ask(CreateTopicsRequest([CreatableTopic("u", 1, 1)]), CreateTopicsResponse, 7)
    assert created.topics[0].error_code == ErrorCode.NONE
    described = await client.ask(MetadataRequest(None), MetadataResponse, 12)
    await client.ask(produce(), ProduceResponse, 9)
    partitions = [OffsetCommitRequestPartition(0, 5, -1, committed_metadata="")]
    commit = OffsetCommitRequest("simple", topics=[OffsetCommitRequestTopic("t", partitions=partitions)])
    assert not any(error_codes(await client.ask(commit, OffsetCommitResponse, 8)))
    protocols = [JoinGroupRequestProtocol("range", b"m")]
    join = JoinGroupRequest("live", 10_000, 10_000, "", None, "consumer", protocols)
    joined = await client.ask(join, JoinGroupResponse, 3)
    producer = await client.ask(InitProducerIdRequest("x", 60_000), InitProducerIdResponse, 4)
    added = AddPartitionsToTxnRequest("x", producer.producer_id, 0, [AddPartitionsToTxnTopic("t", [0])])
    await client.ask(added, AddPartitionsToTxnResponse, 3)
    grouped = AddOffsetsToTxnRequest("x", producer.producer_id, 0, "in-transaction")
    await client.ask(grouped, AddOffsetsToTxnResponse, 3)
    topic_id = next(t.topic_id for t in described.topics if t.name == "t")
    return {"topic_id": topic_id, "member": joined.member_id, "producer": producer.producer_id}


CASES = [(k, v) for k in REQUESTS for v in range(APIS[k].advertised.first, APIS[k].advertised.last + 1)]


@pytest.mark.parametrize(("key", "version"), CASES, ids=lambda x: str(x))
async def test_a_plain_request_is_answered_without_error(key: int, version: int) -> None:
    async with broker() as connect:
        client = await connect()
        made = await prepare(client)
        response = await client.ask(REQUESTS[key](made), APIS[key].response, version)
        assert not any(error_codes(response)), response
        CHECKS.get(key, lambda a, v: None)(response, version)


def _described(response: Any, version: int) -> None:
    live, simple = response.groups
    assert (live.group_state, live.protocol_type, len(live.members)) == ("CompletingRebalance", "consumer", 1)
    assert (simple.group_state, simple.members) == ("Empty", [])


def _listed(response: Any, version: int) -> None:
    assert {g.group_id for g in response.groups} == {"live", "simple"}
    if version >= 5:
        assert {g.group_type for g in response.groups} == {"classic"}


def _configs(response: Any, version: int) -> None:
    topic, node = response.results
    assert {c.name: c.value for c in topic.configs}["retention.ms"] == "604800000"
    assert {c.name: c.value for c in node.configs}["num.partitions"] == "1"


def _ended(response: Any, version: int) -> None:
    assert response.topics[0].partitions[0].end_offset == 1


def _offset(response: Any, version: int) -> None:
    partition = response.topics[0].partitions[0]
    assert (partition.old_style_offsets == [1]) if version == 0 else (partition.offset == 1)


CHECKS: dict[int, Callable[[Any, int], None]] = {2: _offset, 15: _described, 16: _listed, 23: _ended, 32: _configs}


def test_no_api_is_left_out() -> None:
    assert set(REQUESTS) | ELSEWHERE == set(APIS)
