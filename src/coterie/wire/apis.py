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
from coterie.wire.messages.clients.api_versions import ApiVersion
from coterie.wire.topic_names import LAST_WITHOUT_IDS


@dataclass(frozen=True, slots=True)
class Api:
    """One API as this broker serves it."""

    key: int
    name: str
    room: str  # of its messages, in `messages`
    advertised: Versions
    hidden: bool = False  # served, but not told in ApiVersions: coterie's own

    @property
    def request(self) -> type[Message]:
        return _message(self, "Request")

    @property
    def response(self) -> type[Message]:
        return _message(self, "Response")


@cache
def _message(api: Api, kind: str) -> type[Message]:
    """The class of an API's message, from the module of its room in `messages` that is named after the API."""
    words = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in api.name)
    module = import_module(f"coterie.wire.messages.{api.room}.{words.removeprefix('_')}")
    message: type[Message] = getattr(module, f"{api.name}{kind}")
    return message


def _api(key: int, name: str, room: str, advertised: str, *, hidden: bool = False) -> Api:
    return Api(key, name, room, Versions.parse(advertised), hidden)


APIS: dict[int, Api] = {
    api.key: api
    for api in (
        _api(0, "Produce", "logs", "0-13"),
        _api(1, "Fetch", "logs", "0-18"),
        _api(2, "ListOffsets", "logs", "0-10"),
        _api(3, "Metadata", "topics", "0-13"),
        _api(8, "OffsetCommit", "groups", "0-10"),
        _api(9, "OffsetFetch", "groups", "0-10"),
        _api(10, "FindCoordinator", "groups", "0-6"),
        _api(11, "JoinGroup", "groups", "0-9"),
        _api(12, "Heartbeat", "groups", "0-4"),
        _api(13, "LeaveGroup", "groups", "0-5"),
        _api(14, "SyncGroup", "groups", "0-5"),
        _api(15, "DescribeGroups", "groups", "0-6"),
        _api(16, "ListGroups", "groups", "0-5"),
        _api(18, "ApiVersions", "clients", "0-5"),
        _api(19, "CreateTopics", "topics", "0-7"),
        _api(20, "DeleteTopics", "topics", "0-6"),
        _api(21, "DeleteRecords", "logs", "0-2"),
        _api(22, "InitProducerId", "transactions", "0-5"),
        _api(23, "OffsetForLeaderEpoch", "logs", "0-4"),
        _api(24, "AddPartitionsToTxn", "transactions", "0-5"),
        _api(25, "AddOffsetsToTxn", "transactions", "0-4"),
        _api(26, "EndTxn", "transactions", "0-5"),
        _api(27, "WriteTxnMarkers", "transactions", "0-2"),
        _api(28, "TxnOffsetCommit", "transactions", "0-6"),
        _api(32, "DescribeConfigs", "settings", "0-4"),
        _api(44, "IncrementalAlterConfigs", "settings", "0-1"),
        _api(33, "AlterConfigs", "settings", "0-2"),
        _api(74, "ListConfigResources", "settings", "0-1"),
        _api(37, "CreatePartitions", "topics", "0-3"),
        _api(42, "DeleteGroups", "groups", "0-3"),
        _api(47, "OffsetDelete", "groups", "0"),
        _api(60, "DescribeCluster", "brokers", "0-2"),
        _api(29, "DescribeAcls", "security", "0-3"),
        _api(30, "CreateAcls", "security", "0-3"),
        _api(31, "DeleteAcls", "security", "0-3"),
        _api(34, "AlterReplicaLogDirs", "logs", "0-2"),
        _api(35, "DescribeLogDirs", "logs", "0-5"),
        _api(38, "CreateDelegationToken", "security", "0-3"),
        _api(39, "RenewDelegationToken", "security", "0-2"),
        _api(40, "ExpireDelegationToken", "security", "0-2"),
        _api(41, "DescribeDelegationToken", "security", "0-3"),
        _api(43, "ElectLeaders", "topics", "0-2"),
        _api(45, "AlterPartitionReassignments", "topics", "0-1"),
        _api(46, "ListPartitionReassignments", "topics", "0"),
        _api(48, "DescribeClientQuotas", "settings", "0-1"),
        _api(49, "AlterClientQuotas", "settings", "0-1"),
        _api(50, "DescribeUserScramCredentials", "security", "0"),
        _api(51, "AlterUserScramCredentials", "security", "0"),
        _api(57, "UpdateFeatures", "settings", "0-2"),
        _api(64, "UnregisterBroker", "brokers", "0"),
        _api(94, "UnregisterController", "brokers", "0"),
        _api(75, "DescribeTopicPartitions", "topics", "0"),
        _api(61, "DescribeProducers", "transactions", "0"),
        _api(65, "DescribeTransactions", "transactions", "0"),
        _api(66, "ListTransactions", "transactions", "0-2"),
        _api(17, "SaslHandshake", "security", "0-1"),
        _api(36, "SaslAuthenticate", "security", "0-2"),
        _api(68, "ConsumerGroupHeartbeat", "groups", "0-1"),
        _api(69, "ConsumerGroupDescribe", "groups", "0-1"),
        _api(78, "ShareFetch", "share", "1-2"),
        _api(79, "ShareAcknowledge", "share", "1-2"),
        _api(76, "ShareGroupHeartbeat", "share", "1"),
        _api(77, "ShareGroupDescribe", "share", "1"),
        _api(90, "DescribeShareGroupOffsets", "share", "0-1"),
        _api(91, "AlterShareGroupOffsets", "share", "0"),
        _api(92, "DeleteShareGroupOffsets", "share", "0"),
        _api(83, "InitializeShareGroupState", "share", "0"),
        _api(84, "ReadShareGroupState", "share", "0"),
        _api(85, "WriteShareGroupState", "share", "0-1"),
        _api(86, "DeleteShareGroupState", "share", "0"),
        _api(87, "ReadShareGroupStateSummary", "share", "0-1"),
        _api(88, "StreamsGroupHeartbeat", "streams", "0-1"),
        _api(89, "StreamsGroupDescribe", "streams", "0-1"),
        _api(93, "StreamsGroupTopologyDescriptionUpdate", "streams", "0"),
        _api(71, "GetTelemetrySubscriptions", "clients", "0"),
        _api(72, "PushTelemetry", "clients", "0"),
        _api(30000, "ExplainGroup", "groups", "0", hidden=True),
        _api(30001, "ListClients", "clients", "0", hidden=True),
    )
}


# Between the brokers of a cluster and their controller, beside all of APIS.
CLUSTER_APIS: dict[int, Api] = {
    api.key: api
    for api in (
        _api(4, "LeaderAndIsr", "brokers", "0-4"),
        _api(5, "StopReplica", "brokers", "0-3"),
        _api(6, "UpdateMetadata", "brokers", "0-6"),
        _api(7, "ControlledShutdown", "brokers", "1-3"),
    )
}


API_NAMES = {key: api.name for key, api in {**APIS, **CLUSTER_APIS}.items()}

# GetTelemetrySubscriptions and PushTelemetry: a client that sees them requests a subscription, and again at each interval.
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
