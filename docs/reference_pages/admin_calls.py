"""The calls of Kafka's Admin (org.apache.kafka.clients.admin.Admin of 4.4.0; 4.3.0 has all but unregisterController), and
which of coterie's does the same, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass

from reference_pages.markdown import code, sentence, table, text


@dataclass(frozen=True, slots=True)
class AdminCall:
    """``ours``: methods of `coterie.client.Admin`; ``each.NAME`` takes many and returns a future for each, as Kafka's.
    ``note``: what is other than in Kafka; where there is no method, why."""

    ours: tuple[str, ...] = ()
    note: str = ""


_KRAFT = "of a KRaft cluster, which coterie is not"
_TELEMETRY = "coterie's clients push no metrics (KIP-714)"
_OF_ONE = "`each` takes many"
_ERRORS = "`errors` receives the error of each that is refused"
_KINDS = "groups of every kind by one call, whose result names the kind"

CALLS: dict[str, AdminCall] = {
    "create": AdminCall(("__init__",), "a constructor"),
    "close": AdminCall(("close",), "at once"),
    "createTopics": AdminCall(("create_topic", "each.create_topics"), _OF_ONE),
    "deleteTopics": AdminCall(("delete_topic", "each.delete_topics"), f"{_OF_ONE}; by name"),
    "listTopics": AdminCall(("describe_topics",), "without names; one response has both"),
    "describeTopics": AdminCall(
        ("describe_topics", "partitions"), "by name; `partitions` returns the partitions alone"
    ),
    "describeCluster": AdminCall(("describe_cluster",)),
    "describeAcls": AdminCall(("describe_acls",)),
    "createAcls": AdminCall(("create_acls",), _ERRORS),
    "deleteAcls": AdminCall(("delete_acls",), _ERRORS),
    "describeConfigs": AdminCall(("describe_configs", "each.describe_configs"), f"a text is a topic's name; {_OF_ONE}"),
    "incrementalAlterConfigs": AdminCall(
        ("incremental_alter_configs", "each.incremental_alter_configs"),
        f"SET and DELETE; a list is written whole, without APPEND and SUBTRACT; {_OF_ONE}",
    ),
    "alterReplicaLogDirs": AdminCall(note="a broker of coterie has one log directory, where every replica stays"),
    "describeLogDirs": AdminCall(("describe_log_dirs",), _ERRORS),
    "describeReplicaLogDirs": AdminCall(("describe_log_dirs",), "by directory; `is_future` marks a replica that moves"),
    "createPartitions": AdminCall(("create_partitions", "each.create_partitions"), _OF_ONE),
    "deleteRecords": AdminCall(("delete_records", "each.delete_records"), _ERRORS),
    "createDelegationToken": AdminCall(("create_delegation_token",)),
    "renewDelegationToken": AdminCall(("renew_delegation_token",)),
    "expireDelegationToken": AdminCall(("expire_delegation_token",)),
    "describeDelegationToken": AdminCall(("describe_delegation_token",)),
    "describeConsumerGroups": AdminCall(("describe_consumer_group", "each.describe_consumer_groups"), _KINDS),
    "describeClassicGroups": AdminCall(("describe_consumer_group", "each.describe_consumer_groups"), _KINDS),
    "describeShareGroups": AdminCall(("describe_consumer_group", "each.describe_consumer_groups"), _KINDS),
    "describeStreamsGroups": AdminCall(("describe_consumer_group", "each.describe_consumer_groups"), _KINDS),
    "listGroups": AdminCall(("list_groups",), "by state"),
    "listConsumerGroups": AdminCall(("list_groups",), "deprecated since Kafka 4.1 in favour of listGroups"),
    "listConsumerGroupOffsets": AdminCall(
        ("list_consumer_group_offsets", "list_consumer_group_offsets_metadata", "each.list_consumer_group_offsets"),
        "the offsets alone, or with leader epoch and text",
    ),
    "listStreamsGroupOffsets": AdminCall(("list_consumer_group_offsets", "each.list_consumer_group_offsets"), _KINDS),
    "deleteConsumerGroups": AdminCall(("delete_consumer_group", "each.delete_consumer_groups"), _KINDS),
    "deleteShareGroups": AdminCall(("delete_consumer_group", "each.delete_consumer_groups"), _KINDS),
    "deleteStreamsGroups": AdminCall(("delete_consumer_group", "each.delete_consumer_groups"), _KINDS),
    "alterConsumerGroupOffsets": AdminCall(
        ("alter_consumer_group_offsets", "each.alter_consumer_group_offsets"), _ERRORS
    ),
    "alterStreamsGroupOffsets": AdminCall(
        ("alter_consumer_group_offsets", "each.alter_consumer_group_offsets"), _KINDS
    ),
    "deleteConsumerGroupOffsets": AdminCall(
        ("delete_consumer_group_offsets", "each.delete_consumer_group_offsets"), _ERRORS
    ),
    "deleteStreamsGroupOffsets": AdminCall(
        ("delete_consumer_group_offsets", "each.delete_consumer_group_offsets"), _KINDS
    ),
    "removeMembersFromConsumerGroup": AdminCall(
        ("remove_members_from_consumer_group", "each.remove_members_from_consumer_group"),
        "named by group.instance.id or by member id",
    ),
    "electLeaders": AdminCall(("elect_leaders",)),
    "alterPartitionReassignments": AdminCall(
        ("alter_partition_reassignments", "each.alter_partition_reassignments"), _ERRORS
    ),
    "listPartitionReassignments": AdminCall(("list_partition_reassignments",)),
    "listOffsets": AdminCall(("list_offsets", "each.list_offsets"), "offsets alone; -1 is the end, -2 the start"),
    "describeClientQuotas": AdminCall(("describe_client_quotas",)),
    "alterClientQuotas": AdminCall(("alter_client_quotas",), _ERRORS),
    "describeUserScramCredentials": AdminCall(("describe_user_scram_credentials",), _ERRORS),
    "alterUserScramCredentials": AdminCall(("alter_user_scram_credentials",), _ERRORS),
    "describeFeatures": AdminCall(("describe_features",)),
    "updateFeatures": AdminCall(("update_features",)),
    "describeMetadataQuorum": AdminCall(note=_KRAFT),
    "addRaftVoter": AdminCall(note=_KRAFT),
    "removeRaftVoter": AdminCall(note=_KRAFT),
    "unregisterBroker": AdminCall(note=_KRAFT),
    "unregisterController": AdminCall(note=_KRAFT),
    "describeProducers": AdminCall(("describe_producers",), _ERRORS),
    "describeTransactions": AdminCall(("describe_transactions",), _ERRORS),
    "abortTransaction": AdminCall(("abort_transaction",)),
    "listTransactions": AdminCall(("list_transactions",)),
    "fenceProducers": AdminCall(("fence_producers",), _ERRORS),
    "forceTerminateTransaction": AdminCall(("fence_producers",), "of one id; Kafka sends the same request"),
    "listConfigResources": AdminCall(("list_config_resources",)),
    "listClientMetricsResources": AdminCall(
        ("list_config_resources",), "deprecated since Kafka 4.1; with the type CLIENT_METRICS"
    ),
    "listShareGroupOffsets": AdminCall(("list_share_group_offsets",), _ERRORS),
    "alterShareGroupOffsets": AdminCall(("alter_share_group_offsets",), _ERRORS),
    "deleteShareGroupOffsets": AdminCall(("delete_share_group_offsets",), _ERRORS),
    "clientInstanceId": AdminCall(note=_TELEMETRY),
    "registerMetricForSubscription": AdminCall(note=_TELEMETRY),
    "unregisterMetricFromSubscription": AdminCall(note=_TELEMETRY),
    "metrics": AdminCall(note="the client keeps no metrics of its own"),
}
OWN = {
    "explain_group": "whom a group waits for, and what happens then",
    "lag": "how far a group is behind",
    "lint_group": "what hurts a group, and which protocol it may take now",
    "record_times": "when the record at an offset was written",
    "telemetry_clients": "the clients that push metrics",
}  # of Admin, without a name of Kafka's


def admin_calls() -> str:
    rows = [
        (
            code(name),
            ", ".join(code(method.replace("__init__", "Admin()")) for method in call.ours) or "none",
            _note(call),
        )
        for name, call in CALLS.items()
    ]
    return table(("Kafka's Admin", "`coterie.client.Admin`", "note"), rows)


def own_admin_calls() -> str:
    return table(("method", "for"), ((code(name), sentence(text(use))) for name, use in OWN.items()))


def _note(call: AdminCall) -> str:
    return sentence(text(call.note))
