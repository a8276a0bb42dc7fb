"""The oldest Apache Kafka that serves each API which this client asks for, by API key. APIs that Kafka 0.11, the oldest
version this client works with, already had under their present meaning are left out (source: the KIPs)."""

from __future__ import annotations

FIRST_KAFKA: dict[int, str] = {
    37: "1.0",  # CreatePartitions, KIP-195
    42: "1.1",  # DeleteGroups, KIP-229
    44: "2.3",  # IncrementalAlterConfigs, KIP-339
    47: "2.4",  # OffsetDelete, KIP-496
    60: "2.8",  # DescribeCluster, KIP-700
}
