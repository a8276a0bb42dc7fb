"""The values of a field: the right one, and the wrong ones by class. By the field's name, else by its kind.

A key of `DOMAINS` is the end of a field's path, its api in front where that matters: "Produce.topic_data.name" before
"topic_data.name" before "name". A list of scalars has its elements' domain under its own name.
"""

from __future__ import annotations

from typing import Any

from coterie.certify.question import Value
from coterie.wire.fields import FieldType
from coterie_conformance.everything.generated.domain import LONG_TEXT, NO_UUID, UNKNOWN_UUID, Domain, always
from coterie_conformance.everything.generated.domains_of_groups import GROUP_DOMAINS

INT_RANGE = {"int8": 2**7, "int16": 2**15, "int32": 2**31, "int64": 2**63, "uint16": 0, "uint32": 0}


def batch(**parts: Any) -> Value:
    """A records form with one batch of one record."""
    return {"@": "records", "batches": [{"records": [["k", "v", -1000]]} | parts]}


def _records() -> dict[str, Value]:
    three = [["a", "1", -1000], [None, "2", -2000], ["c", None, -500, [["h", "x"], ["h", ""]]]]
    made: dict[str, Value] = {"null": None, "empty": "", "junk": {"@": "hex", "of": "ff" * 80}}
    for codec in range(6):
        made[f"codec {codec}"] = batch(codec=codec, records=three)
    for damage in (
        "crc",
        "count",
        "last offset delta",
        "length",
        "magic",
        "negative magic",
        "base offset",
        "cut short",
    ):
        made[damage] = batch(damage=damage)
    made["damaged body"] = batch(damage="body", codec=1)
    made["negative time"] = batch(at=-1)
    made["time of long ago"] = batch(at=1)
    made["time to come"] = batch(records=[["k", "v", 8_000_000]])
    made["very negative time"] = batch(at=-5)
    made["two batches"] = {"@": "records", "batches": [{"records": [["k", "v"]]}] * 2}
    made["control"] = batch(control=True)
    made["transactional"] = batch(transactional=True)
    made["append time"] = batch(attributes=8)
    made["unknown attribute"] = batch(attributes=0x100)
    made["producer without sequence"] = batch(producer=7, epoch=0)
    made["sequence without producer"] = batch(sequence=3)
    made["sequence not from 0"] = batch(producer=4711, epoch=0, sequence=5)
    made["null key"] = batch(records=[[None, "v"]])
    made["large"] = batch(records=[["k", "x" * 2000]])
    for magic in (0, 1):
        for codec in (0, 1, 2, 3):
            made[f"format {magic} codec {codec}"] = batch(magic=magic, codec=codec, records=three[:2])
        made[f"format {magic} negative time"] = batch(magic=magic, at=-1)
    return made


_TOPIC_WRONG: dict[str, Value] = {
    "unknown": "$nowhere",
    "empty": "",
    "bad": "$bad/name",
    "dots": "..",
    "too long": LONG_TEXT,
    "internal": "__consumer_offsets",
}
_TOPIC = Domain(lambda n: n.topic, _TOPIC_WRONG)
_PARTITION = always(0, other=1, unknown=99, negative=-1, huge=2**31 - 1)
_GROUP = Domain(lambda n: n.group, {"unknown": "$nogroup", "empty": "", "topic": "$t", "long": LONG_TEXT})
_MEMBER = Domain(lambda n: {"@": "id", "of": f"member@{n.member}"}, {"unknown": "nobody", "empty": ""})
_EPOCHS = {"none": -1, "next": 1, "minus two": -2, "huge": 2**31 - 1}
_TXN = Domain(lambda n: n.txn, {"unknown": "$notxn", "empty": "", "group": "$g", "long": LONG_TEXT})
_LIMIT = always(1_000_000, none=0, negative=-1, small=10, huge=2**31 - 1)
_TIMEOUT = always(10_000, none=0, negative=-1)
_COMMITTED = {"past the end": 1000, "huge": 2**63 - 1, "negative": -1, "minus two": -2}
_BROKERS = always(1, unknown=9, negative=-1)
THIS_CLUSTER: Value = {"@": "id", "of": "cluster@the cluster"}
_CONFIG_WRONG: dict[str, Value] = {"unknown": "no.such.setting", "empty": "", "broker's": "log.retention.ms"}
_VALUES: dict[str, Value] = {
    "null": None,
    "empty": "",
    "text": "abc",
    "zero": "0",
    "minus one": "-1",
    "minus two": "-2",
}
_OPERATIONS = {"delete": 1, "append": 2, "subtract": 3, "unknown": 4, "negative": -1}

DOMAINS: dict[str, Domain] = {
    "name": _TOPIC,
    "topic": _TOPIC,
    "topic_name": _TOPIC,
    "topic_names": _TOPIC,
    "topic_id": Domain(lambda n: {"@": "topic id", "of": n.topic}, {"unknown": UNKNOWN_UUID}),
    "CreateTopics.topics.name": Domain(lambda n: n.new_topic, _TOPIC_WRONG | {"existing": "$t", "dot": "$a.b_c"}),
    "CreateTopics.num_partitions": always(1, default=-1, none=0, several=3, negative=-2),
    "CreateTopics.replication_factor": always(1, default=-1, none=0, too_many=2, negative=-2),
    "CreateTopics.assignments.partition_index": always(0, other=1, negative=-1),
    "CreatePartitions.count": always(3, same=2, fewer=1, none=0, negative=-1),
    "CreateTopics.topics.assignments": Domain(lambda _: [], {"one": [{"partition_index": 0, "broker_ids": [1]}]}),
    "CreatePartitions.topics.assignments": always(None, one=[{"broker_ids": [1]}], two=[{"broker_ids": [1]}] * 2),
    "forgotten_topics_data": Domain(lambda _: [], {}),
    "Metadata.topics.topic_id": always(NO_UUID, known={"@": "topic id", "of": "$t"}, unknown=UNKNOWN_UUID),
    "DeleteTopics.topics.topic_id": always(NO_UUID, unknown=UNKNOWN_UUID),
    "broker_ids": _BROKERS,
    "replicas": _BROKERS,
    "configs.name": always("retention.ms", **_CONFIG_WRONG),
    "configs.value": always("3600000", **_VALUES),
    "configs.config_operation": always(0, **_OPERATIONS),
    "configuration_keys": always("retention.ms", unknown="no.such.setting", empty=""),
    "resource_type": always(2, broker=4, unknown=0, any=1, logger=8, metrics=16, group=32, negative=-1, huge=127),
    "resource_name": Domain(lambda n: n.topic, {**_TOPIC_WRONG, "broker": "1", "other broker": "2", "group": "$g"}),
    "partition_index": _PARTITION,
    "partition": _PARTITION,
    "index": _PARTITION,
    "partitions": _PARTITION,
    "partition_indexes": _PARTITION,
    "group_id": _GROUP,
    "groups": _GROUP,
    "groups_names": _GROUP,
    "FindCoordinator.key": _GROUP,
    "coordinator_keys": _GROUP,
    "key_type": always(0, transaction=1, share=2, unknown=3, negative=-1),
    "member_id": _MEMBER,
    "generation_id": always(1, **_EPOCHS),
    "generation_id_or_member_epoch": always(1, none=-1, other=2, zero=0, huge=2**31 - 1),
    "group_instance_id": always(None, some="$i", empty="", long=LONG_TEXT),
    "protocol_type": always("consumer", other="connect", empty=""),
    "protocol_name": always("range", other="sticky", empty=""),
    "protocols.name": always("range", other="sticky", empty=""),
    "protocols.metadata": Domain(
        lambda n: {"@": "subscription", "topics": [n.topic], "version": 1},
        {
            "empty": "",
            "junk": {"@": "hex", "of": "ffff"},
            "calls itself v1 and ends": {"@": "hex", "of": "0001" + "0" * 16},
        },
    ),
    "assignment": Domain(
        lambda n: {"@": "assignment", "topics": {n.topic: [0]}}, {"empty": "", "junk": {"@": "hex", "of": "01"}}
    ),
    "session_timeout_ms": always(30_000, low=1, negative=-1, none=0, high=2**31 - 1),
    "rebalance_timeout_ms": always(6_000),  # also the time for a SyncGroup, on a machine with too much to do
    "reason": always(None, text="because", empty="", long=LONG_TEXT),
    "committed_offset": always(2, **_COMMITTED),
    "committed_leader_epoch": always(0, **_EPOCHS),
    "committed_metadata": always("meta", null=None, empty="", long={"@": "text", "of": "m", "times": 5000}),
    "commit_timestamp": always(-1, now={"@": "now", "ms": 0}, one=1),
    "retention_time_ms": always(-1, long=10**10),
    "require_stable": always(False, yes=True),
    "transactional_id": _TXN,
    "transactional_ids": _TXN,
    "Produce.transactional_id": always(None, some="$x", unknown="$notxn", empty=""),
    "producer_id": Domain(
        lambda n: {"@": "id", "of": f"producer@{n.producer}", "or": -1},
        {"unknown": 4_000_000_000, "none": -1, "minus two": -2, "huge": 2**63 - 1},
    ),
    "InitProducerId.producer_id": always(
        -1, unknown=4_000_000_000, zero=0, minus_two=-2, known={"@": "id", "of": "producer@init"}
    ),
    "InitProducerId.producer_epoch": always(-1, zero=0, one=1, minus_two=-2, huge=2**15 - 1),
    "producer_epoch": always(0, none=-1, next=1, huge=2**15 - 1, minus_two=-2),
    "transaction_timeout_ms": always(60_000, none=0, negative=-1, high=2**31 - 1, small=30_000),
    "committed": always(True),
    "transaction_result": always(True),
    "coordinator_epoch": always(0, other=5, negative=-1),
    "acks": always(-1, leader=1, none=0, two=2, minus_two=-2),
    "timeout_ms": _TIMEOUT,
    "Produce.timeout_ms": always(1_000, none=0, negative=-1),
    "records": Domain(lambda _: batch(), _records()),
    "max_wait_ms": always(10, none=0, negative=-1),
    "min_bytes": always(0, one=1, negative=-1, huge=2**31 - 1),
    "max_bytes": _LIMIT,
    "partition_max_bytes": _LIMIT,
    "fetch_offset": always(0, end=3, past=1000, negative=-1, minus_two=-2, huge=2**63 - 1),
    "log_start_offset": always(-1, zero=0, high=100),
    "current_leader_epoch": always(-1, current=0, next=1, huge=2**31 - 1, minus_two=-2),
    "last_fetched_epoch": always(-1, zero=0, next=1, huge=2**31 - 1),
    "leader_epoch": always(0, none=-1, next=1, huge=2**31 - 1),
    "session_id": always(0, unknown=4711, negative=-1),
    "session_epoch": always(-1, zero=0, one=1, huge=2**31 - 1, minus_two=-2),
    "isolation_level": always(0, committed=1, unknown=2, negative=-1),
    "replica_id": always(-1, consumer=-2, other=5, debug=-3),
    "OffsetForLeaderEpoch.replica_id": always(-2, none=-1, other=5),
    "replica_state": Domain(lambda _: {}, {"other": {"replica_id": 5, "replica_epoch": 1}}),
    "replica_directory_id": always(NO_UUID, unknown=UNKNOWN_UUID),
    "ListOffsets.timestamp": always(
        -1,
        earliest=-2,
        largest=-3,
        local=-4,
        tiered=-5,
        unknown=-7,
        time={"@": "now", "ms": -1500},
        zero=0,
        huge=2**63 - 1,
    ),
    "DeleteRecords.offset": always(1, high_watermark=-1, past=1000, zero=0, minus_two=-2),
    "states_filter": always("Stable", lower="stable", unknown="NoSuchState", empty=""),
    "types_filter": always("classic", upper="CLASSIC", consumer="consumer", unknown="nosuch"),
    "endpoint_type": always(1, controllers=2, unknown=3, zero=0),
    "cluster_id": always(None, other="other"),
    "ApiVersions.cluster_id": always(None, this=THIS_CLUSTER, other="other", empty=""),
    "ApiVersions.node_id": always(-1, this=1, other=2, negative=-2),
    "client_software_name": always("coterie", empty="", bad="a b!", long=LONG_TEXT),
    "client_software_version": always("1.0", empty="", bad="a b!", long=LONG_TEXT),
    "resource_pattern_type": always(3, unknown=0, any=1, match=2, prefixed=4),
    "resource_pattern_type_filter": always(3, unknown=0, any=1, match=2, prefixed=4),
    "pattern_type_filter": always(3, unknown=0, any=1, match=2, prefixed=4),
    "resource_type_filter": always(2, unknown=0, any=1, group=3),
    "principal": always("User:a", bad="a"),
    "host": always("*", other="127.0.0.1"),
    "operation": always(3, unknown=0, any=1),
    "permission_type": always(3, unknown=0, any=1),
    "UnregisterBroker.broker_id": always(9, negative=-1),
    "UnregisterController.controller_id": always(9, active=1, negative=-1),
    "state_filters": always("Ongoing", lower="ongoing", unknown="NoSuchState", empty=""),
    "producer_id_filters": Domain(
        lambda n: {"@": "id", "of": f"producer@{n.producer}", "or": -1}, {"unknown": 4_000_000_000, "none": -1}
    ),
    "duration_filter": always(-1, zero=0, hours=10**8),
    "transactional_id_pattern": always(None, own="$x.*", part="$", broken="(", empty=""),
    "resource_types": always(16, topics=2, brokers=4, loggers=8, groups=32, unknown=0, any=1),
    "response_partition_limit": always(2000, one=1, none=0, negative=-1),
    "AlterReplicaLogDirs.path": Domain(
        lambda _: {"@": "id", "of": "folder@folders"}, {"unknown": "/nowhere", "relative": "nowhere"}
    ),
    "election_type": always(0, unclean=1, unknown=2),
    # -- quotas and credentials, of users of the story's own
    "entity_type": always("user", client="client-id", address="ip", unknown="nosuch", upper="USER"),
    "entity_name": always("$q", address="10.1.2.3"),
    "ops.key": always(
        "producer_byte_rate",
        consumer="consumer_byte_rate",
        requests="request_percentage",
        mutations="controller_mutation_rate",
        connections="connection_creation_rate",
        unknown="no_such_quota",
    ),
    "ops.value": always(1024.0, fraction=1024.5, small=0.5, almost=1023.9999999, huge=1e19, highest=2.0**53),
    "components.entity_type": always("user", client="client-id", address="ip", unknown="nosuch"),
    "components.match_type": always(0, default=1, any=2, unknown=3),
    "components.match": always("$q", unknown="$nobody"),
    "AlterUserScramCredentials.deletions": Domain(lambda _: [], {}),
    "AlterUserScramCredentials.deletions.name": always("$v", unknown="$nobody", long=LONG_TEXT, upserted="$s"),
    "AlterUserScramCredentials.upsertions.name": always("$s", long=LONG_TEXT),
    "DescribeUserScramCredentials.name": always("$v", unknown="$nobody"),
    "AlterUserScramCredentials.mechanism": always(1, other=2, unknown=3),
    "iterations": always(4096, few=4095, many=16384, too_many=16385),
    "salt": always({"@": "hex", "of": "0011223344556677"}),
    "salted_password": always({"@": "hex", "of": "ab" * 32}),
    # -- features: the levels of a new cluster, which stay
    "feature": always("transaction.version", group="group.version", metadata="metadata.version"),
    "max_version_level": always(2, three=3, huge=2**15 - 1),
    # -- the consumer protocol
    "group_ids": _GROUP,
    "ConsumerGroupHeartbeat.member_id": Domain(lambda _: "$m", {"unknown": "$nobody"}),
    "ConsumerGroupHeartbeat.instance_id": always(None, some="$i"),
    "ConsumerGroupHeartbeat.rack_id": always(None, some="r1"),
    "member_epoch": always(2, leave=-1, leave_for_a_while=-2, next=3),
    "OffsetFetch.member_epoch": always(-1, current=2, next=3),
    "subscribed_topic_names": always("$t", unknown="$nowhere", two="$u"),
    "subscribed_topic_regex": always(None, own="$t.*", broken="("),
    "server_assignor": always(None, range="range", unknown="nosuch"),
    "ConsumerGroupHeartbeat.topic_partitions": Domain(lambda _: None, {"none": []}),
    "rack_id": always("", some="r1"),
    **GROUP_DOMAINS,
}


def domain_of(api: str, path: str) -> Domain | None:
    """By the longest end of the path that the table has, the api's own entries first."""
    parts = path.split(".")
    for start in range(len(parts)):
        end = ".".join(parts[start:])
        for key in (f"{api}.{end}", end):
            if key in DOMAINS:
                return DOMAINS[key]
    return None


def values_of_kind(kind: FieldType, nullable: bool) -> dict[str, Value]:
    """The classes that any field of that kind has."""
    made: dict[str, Value] = {"null": None} if nullable else {}
    if kind.name == "boolean":
        return made | {"true": True, "false": False}
    if kind.name in INT_RANGE:
        edge = INT_RANGE[kind.name] or 2 ** (8 * (2 if kind.name == "uint16" else 4))
        low = -edge if INT_RANGE[kind.name] else 0
        return made | {"lowest": low, "minus one": max(low, -1), "zero": 0, "one": 1, "highest": edge - 1}
    if kind.name == "string":
        return made | {"empty": "", "other": "$other"}
    if kind.name == "bytes":
        return made | {"empty": "", "junk": {"@": "hex", "of": "ff00"}}
    if kind.name == "uuid":
        return made | {"zero": NO_UUID, "unknown": UNKNOWN_UUID}
    if kind.name == "float64":
        return made | {"zero": 0.0, "one": 1.0, "minus one": -1.0}
    return made


# Classes of one api that are not asked: of any field, or, with the field's path in front, of that field. Other stories would
# change the response, or be changed by it.
SHARED = {
    ("Fetch", "internal"): "other stories' groups write there",
    ("ListOffsets", "internal"): "the same",
    ("OffsetForLeaderEpoch", "internal"): "the same",
    ("DescribeProducers", "internal"): "the same",
    ("DeleteTopics", "internal"): "deletes the group coordinator's own topic",
    ("DeleteRecords", "internal"): "empties it",
    ("CreatePartitions", "internal"): "moves groups to other coordinators' partitions",
    ("WriteTxnMarkers", "internal"): "ends other stories' transactions",
    ("IncrementalAlterConfigs", "internal"): "changes that topic for all",
    ("AlterConfigs", "internal"): "the same",
    ("AlterClientQuotas", "null"): "a quota for every client, the judge included",
    ("AlterClientQuotas", "entries.entity.entity_name: default"): "the same",
    ("DescribeClientQuotas", "components: no element"): "the quotas of all stories",
    ("DescribeClientQuotas", "components: default"): "the same",
    ("UnregisterBroker", "one"): "the broker itself",
    ("OffsetCommit", "group_id: empty"): "the group without a name is every story's",
    ("OffsetCommit", "group_id: default"): "the same",
    ("TxnOffsetCommit", "group_id: empty"): "the same",
    ("TxnOffsetCommit", "group_id: default"): "the same",
    ("OffsetFetch", "group_id: empty"): "the same",
    ("OffsetFetch", "groups.group_id: empty"): "the same",
    ("DeleteGroups", "groups_names: empty"): "the same",
    ("DescribeGroups", "groups: empty"): "the same",
    ("OffsetFetch", "default"): "Kafka never answers an OffsetFetch of no group",
    ("OffsetFetch", "no element"): "Kafka never answers an OffsetFetch of no group",
    ("AddPartitionsToTxn", "transactions: no element"): "Kafka never answers an AddPartitionsToTxn of no transaction",
    ("AddPartitionsToTxn", "transactions: default"): "the same",
    **{
        (
            "DescribeShareGroupOffsets",
            f"groups.topics.partitions: {name}",
        ): "Kafka's persister repeats it for a minute, and what other stories ask it waits"
        for name in ("highest", "huge", "unknown")
    },
    ("AlterConfigs", "twice"): "Kafka never answers what names a resource twice",
    ("WriteTxnMarkers", "twice"): "Kafka never answers markers for one partition twice",
    ("Produce", "null"): "Kafka never answers a Produce without records",
    ("Produce", "default"): "the same",
    ("Produce", "twice"): "which of two batches of one partition Kafka keeps is a matter of its maps",
    (
        "JoinGroup",
        "twice",
    ): "Kafka never answers a member that lists a protocol twice; test_join_twice_the_same_protocol",
}
# Fields that are not asked in every class: (api or "", field) -> why. "" in front means every api.
BOUNDED = {
    ("", "max_wait_ms"): "a Fetch that waits for hours; the domain's own values are short",
    ("", "timeout_ms"): "the same for every other wait",
    ("", "transaction_timeout_ms"): "a transaction that ends by itself, on each side at another question",
    ("", "rebalance_timeout_ms"): "a group that waits for a member that never comes",
    ("CreateTopics", "num_partitions"): "a broker full of partitions",
    ("CreatePartitions", "count"): "the same",
    ("ListTransactions", "producer_id_filters"): "the producers of other stories",
    ("StreamsGroupHeartbeat", "partitions"): "a broker full of an internal topic's partitions",
    ("", "min_bytes"): "its own values are enough, and each one waits",
}
