"""The one list of APIs that the broker serves (`APIS`; `CLUSTER_APIS` in a cluster): key, name, advertised versions.

A version is advertised only when it is implemented right. Oldest: the first that was published of every API that
clients of Kafka 0.8 to 1.1 need (Apache Kafka 4 has dropped them); of the others the minimum of Apache Kafka 4. Newest:
the newest that exists, except where a version promises what this broker does not have.

The messages of an API are imported when they are first used: of those here, a broker uses few.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module

from coterie.wire.declaration import Message
from coterie.wire.fields import Versions
from coterie.wire.messages.api_versions import ApiVersion
from coterie.wire.topic_names import LAST_WITHOUT_IDS


@dataclass(frozen=True, slots=True)
class Api:
    """One API as this broker serves it."""

    key: int
    name: str
    advertised: Versions
    hidden: bool = False  # served, but not told in ApiVersions: coterie's own

    @property
    def request(self) -> type[Message]:
        return _message(self.name, "Request")

    @property
    def response(self) -> type[Message]:
        return _message(self.name, "Response")


@cache
def _message(api: str, kind: str) -> type[Message]:
    """The class of an API's message, from the module in `messages` that is named after the API."""
    words = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in api)
    module = import_module(f"coterie.wire.messages.{words.removeprefix('_')}")
    message: type[Message] = getattr(module, f"{api}{kind}")
    return message


def _api(key: int, name: str, advertised: str, *, hidden: bool = False) -> Api:
    return Api(key, name, Versions.parse(advertised), hidden)


APIS: dict[int, Api] = {
    api.key: api
    for api in (
        _api(0, "Produce", "0-13"),
        _api(1, "Fetch", "0-18"),
        _api(2, "ListOffsets", "0-10"),
        _api(3, "Metadata", "0-13"),
        _api(8, "OffsetCommit", "0-10"),
        _api(9, "OffsetFetch", "0-10"),
        _api(10, "FindCoordinator", "0-6"),
        _api(11, "JoinGroup", "0-9"),
        _api(12, "Heartbeat", "0-4"),
        _api(13, "LeaveGroup", "0-5"),
        _api(14, "SyncGroup", "0-5"),
        _api(15, "DescribeGroups", "0-6"),
        _api(16, "ListGroups", "0-5"),
        _api(18, "ApiVersions", "0-5"),
        _api(19, "CreateTopics", "0-7"),
        _api(20, "DeleteTopics", "0-6"),
        _api(21, "DeleteRecords", "0-2"),
        _api(22, "InitProducerId", "0-5"),
        _api(23, "OffsetForLeaderEpoch", "0-4"),
        _api(24, "AddPartitionsToTxn", "0-5"),
        _api(25, "AddOffsetsToTxn", "0-4"),
        _api(26, "EndTxn", "0-5"),
        _api(27, "WriteTxnMarkers", "0-2"),
        _api(28, "TxnOffsetCommit", "0-6"),
        _api(32, "DescribeConfigs", "0-4"),
        _api(44, "IncrementalAlterConfigs", "0-1"),
        _api(33, "AlterConfigs", "0-2"),
        _api(74, "ListConfigResources", "0-1"),
        _api(37, "CreatePartitions", "0-3"),
        _api(42, "DeleteGroups", "0-3"),
        _api(47, "OffsetDelete", "0"),
        _api(60, "DescribeCluster", "0-2"),
        _api(29, "DescribeAcls", "0-3"),
        _api(30, "CreateAcls", "0-3"),
        _api(31, "DeleteAcls", "0-3"),
        _api(34, "AlterReplicaLogDirs", "0-2"),
        _api(35, "DescribeLogDirs", "0-5"),
        _api(38, "CreateDelegationToken", "0-3"),
        _api(39, "RenewDelegationToken", "0-2"),
        _api(40, "ExpireDelegationToken", "0-2"),
        _api(41, "DescribeDelegationToken", "0-3"),
        _api(43, "ElectLeaders", "0-2"),
        _api(45, "AlterPartitionReassignments", "0-1"),
        _api(46, "ListPartitionReassignments", "0"),
        _api(48, "DescribeClientQuotas", "0-1"),
        _api(49, "AlterClientQuotas", "0-1"),
        _api(50, "DescribeUserScramCredentials", "0"),
        _api(51, "AlterUserScramCredentials", "0"),
        _api(57, "UpdateFeatures", "0-2"),
        _api(64, "UnregisterBroker", "0"),
        _api(75, "DescribeTopicPartitions", "0"),
        _api(61, "DescribeProducers", "0"),
        _api(65, "DescribeTransactions", "0"),
        _api(66, "ListTransactions", "0-2"),
        _api(17, "SaslHandshake", "0-1"),
        _api(36, "SaslAuthenticate", "0-2"),
        _api(68, "ConsumerGroupHeartbeat", "0-1"),
        _api(69, "ConsumerGroupDescribe", "0-1"),
        _api(71, "GetTelemetrySubscriptions", "0"),
        _api(72, "PushTelemetry", "0"),
        _api(30000, "ExplainGroup", "0", hidden=True),
        _api(30001, "ListClients", "0", hidden=True),
    )
}


# Between the brokers of a cluster and their controller, beside all of APIS.
CLUSTER_APIS: dict[int, Api] = {
    api.key: api
    for api in (
        _api(4, "LeaderAndIsr", "0-4"),
        _api(5, "StopReplica", "0-3"),
        _api(6, "UpdateMetadata", "0-6"),
        _api(7, "ControlledShutdown", "1-3"),
    )
}


# GetTelemetrySubscriptions and PushTelemetry: a client that sees them asks for a subscription, and again at each interval.
_TELEMETRY = frozenset({71, 72})


def advertised_versions(
    *, in_cluster: bool = False, topic_ids: bool = True, telemetry: bool = False
) -> list[ApiVersion]:
    """As ApiVersions lists them: by key, without the hidden APIs. ``in_cluster``: for a broker that is not alone; without
    ``topic_ids`` only versions in which topics go by name; ``telemetry``: with the APIs of client metrics (KIP-714)."""
    served = {**APIS, **CLUSTER_APIS} if in_cluster else APIS
    if not telemetry:
        served = {key: api for key, api in served.items() if key not in _TELEMETRY}
    rows = []
    for api in sorted(served.values(), key=lambda api: api.key):
        last = api.advertised.last if topic_ids else LAST_WITHOUT_IDS.get(api.key, api.advertised.last)
        if last is not None and not api.hidden:
            rows.append(ApiVersion(api.key, api.advertised.first, min(last, api.advertised.last)))
    return rows
