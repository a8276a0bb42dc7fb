"""The oldest Apache Kafka that serves each API, by API key. APIs that Kafka 0.11, the oldest version this client works with,
already had under their present meaning are left out (source: the KIPs, and ``ApiKeys`` of each release of kafka-clients)."""

from __future__ import annotations

FIRST_KAFKA: dict[int, str] = {
    34: "1.0",  # AlterReplicaLogDirs, KIP-113
    35: "1.0",  # DescribeLogDirs, KIP-113
    36: "1.0",  # SaslAuthenticate, KIP-152
    37: "1.0",  # CreatePartitions, KIP-195
    38: "1.1",  # CreateDelegationToken, KIP-48
    39: "1.1",  # RenewDelegationToken
    40: "1.1",  # ExpireDelegationToken
    41: "1.1",  # DescribeDelegationToken
    42: "1.1",  # DeleteGroups, KIP-229
    43: "2.2",  # ElectLeaders, KIP-183: of preferred leaders
    44: "2.3",  # IncrementalAlterConfigs, KIP-339
    45: "2.4",  # AlterPartitionReassignments, KIP-455
    46: "2.4",  # ListPartitionReassignments
    47: "2.4",  # OffsetDelete, KIP-496
    48: "2.6",  # DescribeClientQuotas, KIP-546
    49: "2.6",  # AlterClientQuotas
    50: "2.7",  # DescribeUserScramCredentials, KIP-554
    51: "2.7",  # AlterUserScramCredentials
    57: "2.7",  # UpdateFeatures, KIP-584
    60: "2.8",  # DescribeCluster, KIP-700
    61: "2.8",  # DescribeProducers, KIP-664
    64: "2.8",  # UnregisterBroker, KIP-500
    65: "3.0",  # DescribeTransactions, KIP-664
    66: "3.0",  # ListTransactions
    68: "4.0",  # ConsumerGroupHeartbeat, KIP-848; in 3.7 to 3.9 where it is switched on
    69: "4.0",  # ConsumerGroupDescribe
    71: "3.7",  # GetTelemetrySubscriptions, KIP-714
    72: "3.7",  # PushTelemetry
    74: "4.1",  # ListConfigResources, KIP-1142; before it of client metrics alone
    75: "3.8",  # DescribeTopicPartitions, KIP-966
    76: "4.1",  # ShareGroupHeartbeat, KIP-932; here and of the next ones the version that is no early access
    77: "4.1",  # ShareGroupDescribe
    78: "4.1",  # ShareFetch
    79: "4.1",  # ShareAcknowledge
    83: "4.1",  # InitializeShareGroupState
    84: "4.1",  # ReadShareGroupState
    85: "4.1",  # WriteShareGroupState
    86: "4.1",  # DeleteShareGroupState
    87: "4.1",  # ReadShareGroupStateSummary
    88: "4.1",  # StreamsGroupHeartbeat, KIP-1071
    89: "4.1",  # StreamsGroupDescribe
    90: "4.1",  # DescribeShareGroupOffsets
    91: "4.1",  # AlterShareGroupOffsets
    92: "4.1",  # DeleteShareGroupOffsets
    93: "4.4",  # StreamsGroupTopologyDescriptionUpdate, KIP-1331
    94: "4.4",  # UnregisterController
}
