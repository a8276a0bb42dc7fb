"""The one list of APIs that the broker serves (`APIS`; `CLUSTER_APIS` in a cluster): key, messages, advertised versions.

A version is advertised only when it is implemented right. Oldest: the first that was published of every API that
clients of Kafka 0.8 to 1.1 need (Apache Kafka 4 has dropped them); of the others the minimum of Apache Kafka 4. Newest:
the newest that exists, except where a version promises what this broker does not have.
"""

from __future__ import annotations

from dataclasses import dataclass

from coterie.wire.declaration import Message
from coterie.wire.fields import Versions
from coterie.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from coterie.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from coterie.wire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from coterie.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from coterie.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from coterie.wire.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from coterie.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from coterie.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from coterie.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from coterie.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from coterie.wire.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from coterie.wire.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from coterie.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from coterie.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from coterie.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from coterie.wire.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from coterie.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from coterie.wire.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from coterie.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from coterie.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from coterie.wire.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from coterie.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from coterie.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from coterie.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from coterie.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from coterie.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from coterie.wire.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from coterie.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from coterie.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from coterie.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from coterie.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from coterie.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from coterie.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from coterie.wire.messages.explain_group import ExplainGroupRequest, ExplainGroupResponse
from coterie.wire.messages.fetch import FetchRequest, FetchResponse
from coterie.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from coterie.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from coterie.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from coterie.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from coterie.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from coterie.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from coterie.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from coterie.wire.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from coterie.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from coterie.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from coterie.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from coterie.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from coterie.wire.messages.metadata import MetadataRequest, MetadataResponse
from coterie.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from coterie.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from coterie.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from coterie.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from coterie.wire.messages.produce import ProduceRequest, ProduceResponse
from coterie.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from coterie.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from coterie.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from coterie.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from coterie.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from coterie.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from coterie.wire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from coterie.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from coterie.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from coterie.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from coterie.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from coterie.wire.topic_names import LAST_WITHOUT_IDS


@dataclass(frozen=True, slots=True)
class Api:
    """One API as this broker serves it."""

    key: int
    name: str
    request: type[Message]
    response: type[Message]
    advertised: Versions
    hidden: bool = False  # served, but not told in ApiVersions: coterie's own


def _api(request: type[Message], response: type[Message], advertised: str = "", *, hidden: bool = False) -> Api:
    versions = Versions.parse(advertised) if advertised else request.versions
    return Api(request.api_key, request.__name__.removesuffix("Request"), request, response, versions, hidden)


APIS: dict[int, Api] = {
    api.key: api
    for api in (
        _api(ProduceRequest, ProduceResponse),
        _api(FetchRequest, FetchResponse),
        _api(ListOffsetsRequest, ListOffsetsResponse, "0-10"),
        _api(MetadataRequest, MetadataResponse),
        _api(OffsetCommitRequest, OffsetCommitResponse),
        _api(OffsetFetchRequest, OffsetFetchResponse),
        _api(FindCoordinatorRequest, FindCoordinatorResponse),
        _api(JoinGroupRequest, JoinGroupResponse),
        _api(HeartbeatRequest, HeartbeatResponse),
        _api(LeaveGroupRequest, LeaveGroupResponse),
        _api(SyncGroupRequest, SyncGroupResponse),
        _api(DescribeGroupsRequest, DescribeGroupsResponse),
        _api(ListGroupsRequest, ListGroupsResponse),
        _api(ApiVersionsRequest, ApiVersionsResponse),
        _api(CreateTopicsRequest, CreateTopicsResponse),
        _api(DeleteTopicsRequest, DeleteTopicsResponse),
        _api(DeleteRecordsRequest, DeleteRecordsResponse),
        _api(InitProducerIdRequest, InitProducerIdResponse, "0-5"),
        _api(OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse),
        _api(AddPartitionsToTxnRequest, AddPartitionsToTxnResponse),
        _api(AddOffsetsToTxnRequest, AddOffsetsToTxnResponse),
        _api(EndTxnRequest, EndTxnResponse),
        _api(WriteTxnMarkersRequest, WriteTxnMarkersResponse),
        _api(TxnOffsetCommitRequest, TxnOffsetCommitResponse),
        _api(DescribeConfigsRequest, DescribeConfigsResponse),
        _api(IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse),
        _api(AlterConfigsRequest, AlterConfigsResponse),
        _api(ListConfigResourcesRequest, ListConfigResourcesResponse),
        _api(CreatePartitionsRequest, CreatePartitionsResponse),
        _api(DeleteGroupsRequest, DeleteGroupsResponse),
        _api(OffsetDeleteRequest, OffsetDeleteResponse),
        _api(DescribeClusterRequest, DescribeClusterResponse),
        _api(DescribeAclsRequest, DescribeAclsResponse),
        _api(CreateAclsRequest, CreateAclsResponse),
        _api(DeleteAclsRequest, DeleteAclsResponse),
        _api(AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse),
        _api(DescribeLogDirsRequest, DescribeLogDirsResponse),
        _api(CreateDelegationTokenRequest, CreateDelegationTokenResponse),
        _api(RenewDelegationTokenRequest, RenewDelegationTokenResponse),
        _api(ExpireDelegationTokenRequest, ExpireDelegationTokenResponse),
        _api(DescribeDelegationTokenRequest, DescribeDelegationTokenResponse),
        _api(ElectLeadersRequest, ElectLeadersResponse),
        _api(AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse),
        _api(ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse),
        _api(DescribeClientQuotasRequest, DescribeClientQuotasResponse),
        _api(AlterClientQuotasRequest, AlterClientQuotasResponse),
        _api(DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse),
        _api(AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse),
        _api(UpdateFeaturesRequest, UpdateFeaturesResponse),
        _api(UnregisterBrokerRequest, UnregisterBrokerResponse),
        _api(DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse),
        _api(DescribeProducersRequest, DescribeProducersResponse),
        _api(DescribeTransactionsRequest, DescribeTransactionsResponse),
        _api(ListTransactionsRequest, ListTransactionsResponse),
        _api(SaslHandshakeRequest, SaslHandshakeResponse),
        _api(SaslAuthenticateRequest, SaslAuthenticateResponse),
        _api(ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse),
        _api(ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse),
        _api(GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse),
        _api(PushTelemetryRequest, PushTelemetryResponse),
        _api(ExplainGroupRequest, ExplainGroupResponse, hidden=True),
    )
}


# Between the brokers of a cluster and their controller, beside all of APIS.
CLUSTER_APIS: dict[int, Api] = {
    api.key: api
    for api in (
        _api(LeaderAndIsrRequest, LeaderAndIsrResponse),
        _api(StopReplicaRequest, StopReplicaResponse),
        _api(UpdateMetadataRequest, UpdateMetadataResponse),
        _api(ControlledShutdownRequest, ControlledShutdownResponse),
    )
}


def advertised_versions(*, in_cluster: bool = False, topic_ids: bool = True) -> list[ApiVersion]:
    """As ApiVersions lists them: by key, without the hidden APIs. ``in_cluster``: for a broker that is not alone; without
    ``topic_ids`` only versions in which topics go by name."""
    served = {**APIS, **CLUSTER_APIS} if in_cluster else APIS
    rows = []
    for api in sorted(served.values(), key=lambda api: api.key):
        last = api.advertised.last if topic_ids else LAST_WITHOUT_IDS.get(api.key, api.advertised.last)
        if last is not None and not api.hidden:
            rows.append(ApiVersion(api.key, api.advertised.first, min(last, api.advertised.last)))
    return rows
