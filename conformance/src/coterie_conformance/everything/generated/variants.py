"""Right requests beside an API's first one, that every field is changed in as well: `VARIANTS`, by API and label.

A variant is what differs from the first right request, by path; it is left out in versions that do not carry its fields.
"""

from __future__ import annotations

from coterie.certify.question import Value
from coterie_conformance.everything.generated.domains import THIS_CLUSTER
from coterie_conformance.everything.generated.domains_of_groups import batches, internal_topic, subtopology, topology

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


_ACKNOWLEDGED = "topics.partitions.acknowledgement_batches"
_RENEWED: Variant = {"is_renew_ack": True, _ACKNOWLEDGED: batches((0, 2, [4]))}
_STREAMS_FIRST: Variant = {
    "member_id": "$l",
    "member_epoch": 0,
    "topology": topology(subtopology("$t")),
    "active_tasks": [],
    "standby_tasks": [],
    "warmup_tasks": [],
    "process_id": "$q",
    "client_tags": [],
    "rebalance_timeout_ms": 6_000,
}
_INTERNAL: Variant = {
    "group_id": "$h{n}",
    "topology": topology(
        subtopology(
            "$t",
            state_changelog_topics=[internal_topic("$h{n}-changelog")],
            repartition_source_topics=[internal_topic("$h{n}-repartition", 2)],
            repartition_sink_topics=["$h{n}-repartition"],
            copartition_groups=[
                {"source_topics": [0], "source_topic_regex": [], "repartition_source_topics": [0]},
            ],
        )
    ),
}
SHARE_AND_STREAMS: dict[str, dict[str, Variant]] = {
    "ShareGroupHeartbeat": {
        "first": {"member_id": "$l", "member_epoch": 0, "subscribed_topic_names": ["$t"]},
        "leaving": {"member_epoch": -1},
    },
    "ShareFetch": {
        "acknowledging": {_ACKNOWLEDGED: batches((0, 2, [1]))},
        "first": {"member_id": "$l", "share_session_epoch": 0},
        "final": {"share_session_epoch": -1, _ACKNOWLEDGED: batches((0, 2, [2]))},
        "renewing": _RENEWED | dict.fromkeys(("max_wait_ms", "min_bytes", "max_bytes", "max_records"), 0),
    },
    "ShareAcknowledge": {
        "one by one": {_ACKNOWLEDGED: batches((0, 0, [1]), (1, 2, [2, 3]))},
        "final": {"share_session_epoch": -1},
        "renewing": _RENEWED,
    },
    "DescribeShareGroupOffsets": {"all": {"groups.topics": None}},
    "StreamsGroupHeartbeat": {
        "reporting": {"active_tasks": [{"subtopology_id": "0", "partitions": [0, 1]}]},
        "leaving": {"member_epoch": -1},
        "first": _STREAMS_FIRST,
        "with internal topics": _STREAMS_FIRST | _INTERNAL,
    },
}
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
    **SHARE_AND_STREAMS,
}
