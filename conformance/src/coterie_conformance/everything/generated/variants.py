"""Right requests beside an API's first one, that every field is changed in as well: `VARIANTS`, by API and label.

A variant is what differs from the first right request, by path; it is left out in versions that do not carry its fields.
"""

from __future__ import annotations

from coterie.certify.question import Value
from coterie_conformance.everything.generated.domains import THIS_CLUSTER

Variant = dict[str, Value]
TYPES = {"a broker": 4, "metrics": 16, "a group": 32}
# Of each type of resource a name, a setting and a value. The broker's is one that no other story looks at.
RESOURCES: dict[str, tuple[str, str, str]] = {
    "a broker": ("1", "log.cleaner.io.buffer.size", "524289"),
    "metrics": ("$m", "interval.ms", "1000"),
    "a group": ("$g", "consumer.session.timeout.ms", "50000"),
}


def _altered() -> dict[str, Variant]:
    made = dict[str, Variant]()
    for kind, (name, setting, value) in RESOURCES.items():
        made[f"of {kind}"] = {
            "resources.resource_type": TYPES[kind],
            "resources.resource_name": name,
            "resources.configs.name": setting,
            "resources.configs.value": value,
            "validate_only": True,  # wrong names are those of all stories
        }
    return made


def _described() -> dict[str, Variant]:
    made: dict[str, Variant] = {"of topics, all": {"resources.configuration_keys": None}}
    for kind, (name, setting, _) in RESOURCES.items():
        made[f"of {kind}"] = {
            "resources.resource_type": TYPES[kind],
            "resources.resource_name": name,
            "resources.configuration_keys": [setting],
        }
    return made


VARIANTS: dict[str, dict[str, Variant]] = {
    "ApiVersions": {"of the intended broker": {"cluster_id": THIS_CLUSTER, "node_id": 1}},
    "InitProducerId": {"idempotent": {"transactional_id": None}},
    "FindCoordinator": {"of a transaction": {"key_type": 1}},
    "OffsetCommit": {"alone": {"generation_id_or_member_epoch": -1, "member_id": ""}},
    "DescribeConfigs": _described(),
    "AlterConfigs": _altered(),
    "IncrementalAlterConfigs": _altered(),
    "Fetch": {"read committed": {"isolation_level": 1}, "new session": {"session_epoch": 0}},
    "ListOffsets": {"read committed": {"isolation_level": 1}},
    "JoinGroup": {"static": {"group_instance_id": "$i", "member_id": ""}, "first": {"member_id": ""}},
    "TxnOffsetCommit": {"alone": {"generation_id_or_member_epoch": -1, "member_id": ""}},
    "CreateTopics": {
        "only checked": {"validate_only": True},
        "assigned": {
            "topics.num_partitions": -1,
            "topics.replication_factor": -1,
            "topics.assignments": [{"partition_index": n, "broker_ids": [1]} for n in (0, 1)],
        },
    },
    "Metadata": {"by id": {"topics.name": None, "topics.topic_id": {"@": "topic id", "of": "$t"}}},
    "DeleteTopics": {"by id": {"topics.name": None, "topics.topic_id": {"@": "topic id", "of": "$d{n}"}}},
    "DescribeTopicPartitions": {"from the start": {"cursor": None}},
    "ListTransactions": {"all": {"state_filters": [], "producer_id_filters": []}},
    "AlterClientQuotas": {
        "of a client": {"entries.entity.entity_type": "client-id"},
        "of an address, only checked": {
            "entries.entity.entity_type": "ip",
            "entries.entity.entity_name": "10.1.2.3",
            "entries.ops.key": "connection_creation_rate",
            "entries.ops.value": 10.0,
            "validate_only": True,
        },
    },
    "DescribeClientQuotas": {"strict": {"strict": True}},
    "UpdateFeatures": {"only checked": {"validate_only": True, "feature_updates.upgrade_type": 2}},
    "ConsumerGroupHeartbeat": {"first": {"member_id": "$k", "member_epoch": 0, "topic_partitions": []}},
}
