"""The rows about one version of Apache Kafka; those about every version stand in `differences`."""

from __future__ import annotations

from coterie_conformance.differences import recognisers, recognisers_of_2_6, recognisers_of_groups
from coterie_conformance.differences.recognisers import about, fails_about, names_setting, pair, setting_of_a_broker
from coterie_conformance.differences.row import KnownDifference, Version

THREE: Version = (3,)
FOUR: Version = (4,)
FOUR_FOUR: Version = (4, 4)
_CONFIGS = "(Incremental)?AlterConfigs|CreateTopics|DescribeConfigs"


def _of_2_6(
    name: str, reason: str, apis: str, path: str, recognises: recognisers.Recognise, *, lasting: bool = False
) -> KnownDifference:
    return KnownDifference(f"2.6 {name}", reason, apis, path, recognises, before=THREE, lasting=lasting)


def _of_4(name: str, reason: str, apis: str, path: str, recognises: recognisers.Recognise) -> KnownDifference:
    return KnownDifference(f"4 {name}", reason, apis, path, recognises, since=FOUR)


_SINCE_2_6 = names_setting(
    "compression.gzip.level", "compression.lz4.level", "compression.zstd.level", "local.retention.bytes",
    "local.retention.ms", "message.timestamp.after.max.ms", "message.timestamp.before.max.ms",
    "remote.log.copy.disable", "remote.log.delete.on.disable", "remote.storage.enable",
)  # fmt: skip
SETTINGS_GONE_IN_4 = ("message.downconversion.enable", "message.format.version", "message.timestamp.difference.max.ms")
_GONE_IN_4 = names_setting(*SETTINGS_GONE_IN_4)
_LISTS = names_setting(
    "cleanup.policy", "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
)

_SINCE_4_4 = names_setting(
    "errors.deadletterqueue.group.enable", "errors.deadletterqueue.copy.record.enable", "errors.deadletterqueue.topic.name",
    "errors.deadletterqueue.auto.create.topics.enable", "errors.deadletterqueue.topic.name.prefix", "group.streams.assignors",
    "group.streams.rack.aware.assignment.tags", "log.remote.copy.lag.bytes", "log.remote.copy.lag.ms",
    "max.decompressed.message.bytes", "remote.copy.lag.bytes", "remote.copy.lag.ms", "streams.assignor.name",
    "streams.rack.aware.assignment.tags",
)  # fmt: skip
# Whose type, default or whether they can be altered is another in Kafka 4.3 than in 3.9, which coterie follows.
_NEW_IN_4 = setting_of_a_broker(
    "early.start.listeners", "group.coordinator.rebalance.protocols", "group.coordinator.threads", "group.share.max.size",
    "group.share.partition.max.record.locks", "log.dir", "log.message.timestamp.after.max.ms", "metric.reporters",
    "min.insync.replicas", "num.recovery.threads.per.data.dir", "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size", "remote.log.manager.thread.pool.size", "remote.log.reader.threads",
    "sasl.oauthbearer.expected.audience",
)  # fmt: skip
_IN_3_9 = setting_of_a_broker(
    "group.consumer.assignors", "zookeeper.connection.timeout.ms", "zookeeper.session.timeout.ms"
)

OF_2_6 = (
    _of_2_6("settings of a broker", "2.6 had other settings, types and defaults", "DescribeConfigs|IncrementalAlterConfigs",
        r"results\[\]\.configs.*|responses\[\]\.error_(code|message)", setting_of_a_broker()),
    _of_2_6("aborted without records", "2.6 lists an aborted transaction of which the partition has the marker alone", "Fetch",
        r"responses\[\]\.partitions\[\]\.aborted_transactions(\[\])?", recognisers_of_2_6.aborted_without_records),
    _of_2_6("has no such setting", "the setting came after 2.6", _CONFIGS, ".*", _SINCE_2_6),
    _of_2_6("settings", "2.6 had another error for a value", _CONFIGS, r".*\.error_code",
            pair("INVALID_CONFIG", "INVALID_REQUEST")),
    _of_2_6("small values", "2.6 took an index of no bytes, and a flush after no message", _CONFIGS, ".*",
            names_setting("segment.index.bytes", "flush.messages")),
    _of_2_6("lists", "2.6 appends and subtracts without looking for doubles", "DescribeConfigs", r".*\.value", _LISTS),
    _of_2_6("elements", "2.6 checks what is appended to a list otherwise", "IncrementalAlterConfigs",
            r"responses\[\]\.error_(code|message)",
            lambda c: _LISTS(c) and {"NONE", "INVALID_REQUEST", "INVALID_CONFIG"} >= recognisers.codes_of(c)),
    _of_2_6("values", "2.6 described a new topic's settings as they were read, not as they were written",
            "CreateTopics", r".*\.value", recognisers_of_2_6.same_when_read),
    _of_2_6("keys", "2.6 describes nothing where no key is listed", "DescribeConfigs", r"results\[\]\.configs\[\]",
            about(r"resources\.configuration_keys", "no element|default|twice")),
    _of_2_6("resources", "2.6 does not know this kind of resource, and answers it as kind 0", "DescribeConfigs",
            "results.*", about(r"resources\.resource_type")),
    _of_2_6("resource names", "2.6 looks at a topic's name at another point", "(Incremental)?AlterConfigs",
            "responses.*", about(r"resources\.resource_name")),
    _of_2_6("words", "2.6 gave an error other words or none", "Describe.*|CreatePartitions|.*PartitionReassignments",
            r"(.*\.)?error_message", lambda c: not c.part.ours),
    _of_2_6("closes", "2.6 closes the connection on an isolation level that it does not know", "Fetch|ListOffsets", "",
            about("isolation_level", "highest|lowest|minus one|negative|unknown")),
    _of_2_6("append time", "2.6 refuses a batch that calls its time the broker's", "Produce", "(responses.*)?",
            recognisers_of_2_6.called_the_brokers_time, lasting=True),
    _of_2_6("closes on records", "2.6 closes the connection on records that it cannot read", "Produce", "",
            about(r"topic_data\.partition_data\.records", "cut short|empty|junk|length|magic|negative magic"), lasting=True),
    _of_2_6("replicas", "2.6 wants as many replicas in sync as min.insync.replicas says of partitions with fewer"
            " (KIP-966)", "Produce", r"responses\[\]\.partition_responses\[\]\..*", recognisers_of_2_6.too_few_replicas),
    _of_2_6("formats", "its own version as the message format", "CreateTopics|DescribeConfigs", r".*\.value",
            pair("3.0-IV1", "2.6-IV0")),
    _of_2_6("names", "2.6 looked an illegal name up", "Metadata", r".*\.error_code",
            pair("INVALID_TOPIC_EXCEPTION", "UNKNOWN_TOPIC_OR_PARTITION")),
    _of_2_6("twice", "2.6 answers what is named twice as often as it is named", "(Create|Delete)Topics",
            "topics|responses", recognisers_of_2_6.responded_twice),
    _of_2_6("names of new topics", "2.6 looks at a new topic's name after its numbers and settings", "CreateTopics",
            r"topics\[\]\.error_code", recognisers_of_2_6.named_behind),
    _of_2_6("orders", "2.6 keeps what these answer in hash maps too",
            "AlterConfigs|AlterPartitionReassignments|ElectLeaders|OffsetForLeaderEpoch",
            r"(responses|topics|replica_election_results)(\[\]\.(partitions|partition_result))?\.order", lambda _: True),
    _of_2_6("order of a session", "2.6 puts every partition that a session's answer has behind the others, not those with"
            " records alone", "Fetch", r"responses(\[\]\.partitions)?\.order", recognisers_of_2_6.in_a_session),
    _of_2_6("instances", "2.6 overlooks an instance id that the group does not know",
            "Heartbeat|SyncGroup|LeaveGroup|(Txn)?OffsetCommit", ".*", recognisers_of_2_6.instance_overlooked),
    _of_2_6("transactional member", "2.6 checks the member of a transactional commit otherwise", "TxnOffsetCommit",
            r".*\.error_code", about("generation_id_or_member_epoch|member_id")),
    _of_2_6("verifies nothing", "2.6 does not verify that a partition or group was added to the transaction (KIP-890, part 1)",
            "Produce|TxnOffsetCommit", ".*", recognisers_of_2_6.not_verified),
    _of_2_6("texts of denials", "2.6 gives no text to what ACLs deny", "DescribeConfigs|ElectLeaders", r".*\.error_message",
            pair("a text", None)),
    _of_2_6("deletion by the cluster's right", "2.6 deletes topics by the right on each alone", "DeleteTopics",
            r"responses\[\]\.error_code", recognisers_of_2_6.denied_beside("DELETE CLUSTER")),
    _of_2_6("deletion without a right", "2.6 denies before it looks whether the topic exists",
            "DeleteTopics", r"responses\[\]\.error_code", recognisers_of_2_6.denied_unseen("DESCRIBE TOPIC", "DELETE TOPIC")),
    _of_2_6("texts of denied changes", "2.6 gives no text to changes that ACLs deny",
            "AlterConfigs|IncrementalAlterConfigs|AlterClientQuotas", r".*\.error_message",
            recognisers_of_2_6.denied_without_text),
    _of_2_6("idempotence by a topic", "2.6 wants IDEMPOTENT_WRITE of the cluster (KIP-679 is of 2.8)", "InitProducerId", ".*",
            recognisers_of_2_6.asks_about("WRITE TOPIC")),
    _of_2_6("markers by ALTER", "2.6 wants CLUSTER_ACTION of the cluster (ALTER is enough since KIP-1037)", "WriteTxnMarkers",
            r"markers\[\]\.topics\[\]\.partitions\[\]\.error_code", recognisers_of_2_6.marks_by_alter),
    _of_2_6("settings of what is refused", "2.6 has this error for topics that were not created too", "CreateTopics",
            r"topics\[\]\.topic_config_error_code", pair("NONE", "TOPIC_AUTHORIZATION_FAILED")),
    _of_2_6("leader epochs", "2.6 raises the leader epoch of __consumer_offsets in the course of a run",
            "Metadata",
            r".*\.leader_epoch", lambda c: "[__consumer_offsets]" in c.part.path and c.part.ours == 0),
    _of_2_6("pending leave", "2.6 fails on a pending id that leaves with an instance id, or fences it", "LeaveGroup", ".*",
            recognisers_of_2_6.leaves_with_an_instance),
    _of_2_6("instances in old versions", "2.6 fails to answer a member with an instance id in a version without it",
            "JoinGroup", ".*", recognisers_of_2_6.instance_not_told_of),
    _of_2_6("protocol names", "2.6 keeps the name of a protocol without one", "JoinGroup", "protocol_name",
            pair(None, "")),
    _of_2_6("state filters", "2.6 takes the case of a state filter as it is", "ListGroups", r"groups\[\]",
            about("states_filter", "lower")),
    _of_2_6("log dirs", "2.6 names topics of which it describes no partition", "DescribeLogDirs", r"results\[\]\.topics\[\]",
            recognisers_of_2_6.nothing_inside_theirs),
    _of_2_6("followers", "a follower's read-committed or old Fetch reads nothing in 2.6", "Fetch", "responses.*",
            lambda c: c.question.body.get("replica_id", -1) >= 0),
    _of_2_6("aborted", "2.6 has null for no aborted transactions beside an error", "Fetch", ".*aborted_transactions",
            pair([], None)),
    _of_2_6("records", "2.6 has no records beside what it cannot convert, Kafka since has null", "Fetch",
            r"responses\[\]\.partitions\[\]\.records", recognisers_of_2_6.no_records),
    _of_2_6("epochs", "2.6 refused leader epochs below none in a Fetch", "Fetch", r"responses\[\].*",
            lambda c: "FENCED_LEADER_EPOCH" in repr(c.theirs)),
    _of_2_6("times", "2.6 looked up any negative time", "ListOffsets", "topics.*",
            recognisers_of_2_6.unsupported_time),
    _of_2_6("fails to alter", "2.6 fails on a resource of no topic or broker", "(Incremental)?AlterConfigs",
            r"responses\[\]\.error_(code|message)",
            lambda c: "UNKNOWN_SERVER_ERROR" in repr(c.theirs) and "NONE" not in repr(c.ours)),
    _of_2_6("refuses all", "2.6 refuses all for the sake of a resource of a type that cannot be altered",
            "(Incremental)?AlterConfigs", r"responses\[\]\.error_(code|message)", recognisers_of_2_6.refused_together),
    _of_2_6("fails on names", "2.6 fails on an illegal name", "CreatePartitions", ".*",
            fails_about(r"topics\.name", "default|dots|empty")),
    _of_2_6("quotas", "2.6 on ZooKeeper checks quotas otherwise, has fewer kinds, and may fail to describe them",
            "(Alter|Describe)ClientQuotas", ".*", about(r"(entries|components).*")),
    _of_2_6("quotas of addresses", "2.6 has none", "AlterClientQuotas", r"entries\[\]\.error_(code|message)",
            recognisers_of_2_6.of_addresses),
    _of_2_6("assignments", "2.6 fails on assignments of other partitions, and counts one partition's once", "CreateTopics",
            "topics.*", about(r"topics\.assignments.*")),
    _of_2_6("settings of groups and metrics", "2.6 has none", "(Incremental)?AlterConfigs|DescribeConfigs",
            "(results|responses).*", lambda c: any(r.get("resource_type") in (16, 32) for r in c.question.body["resources"])),
    _of_2_6("elections", "2.6 fails on a kind of election that it does not know", "ElectLeaders", ".*",
            fails_about("election_type", "highest|lowest|minus one|unknown")),
    _of_2_6("coordinators", "2.6 fails on a kind of coordinator that it does not know", "FindCoordinator", ".*",
            fails_about("key_type", "highest|lowest|minus one|negative|share|unknown")),
)  # fmt: skip
BEFORE_4 = (
    KnownDifference("client metrics", "before 4 a subscription to metrics has only the settings that it was given, without"
        " their types", "DescribeConfigs", r"results\[\]\.configs\[\].*",
        lambda c: any(resource.get("resource_type") == 16 for resource in c.question.body["resources"]),
        since=THREE, before=FOUR),
    KnownDifference("no pattern", "before 4 the pattern of clients whose metrics are collected may not be empty",
        "IncrementalAlterConfigs", r"responses\[\]\.error_(code|message)",
        lambda c: names_setting("match")(c) and recognisers.codes_of(c) == {"NONE", "INVALID_CONFIG"},
        since=THREE, before=FOUR),
    KnownDifference("fails on settings", "before 4 a setting of client metrics that is no number is an exception, and what is"
        " appended to an unknown setting", "(Incremental)?AlterConfigs", r"responses\[\]\.error_(code|message)",
        fails_about(r"resources\.configs.*"), since=THREE, before=FOUR),
    KnownDifference("settings after 3.9", "the setting came after 3.9", "IncrementalAlterConfigs",
        r"responses\[\]\.error_(code|message)", names_setting("follower.fetch.last.tiered.offset.enable"), since=THREE,
        before=FOUR),
    KnownDifference("transactions of version 2", "3.9 has the feature's levels for tests only", "UpdateFeatures", ".*",
        lambda c: "transaction.version" in repr(c.question.body), since=THREE, before=FOUR),
    KnownDifference("assignors and ZooKeeper", "3.9 names assignors by their classes; a session with ZooKeeper is shorter here",
        "DescribeConfigs", r"results\[\]\.configs\[\].*", _IN_3_9, since=THREE, before=FOUR),
    KnownDifference("group operations", "Kafka 4 counts a group's settings among its operations", "DescribeGroups",
        r"groups\[\].authorized_operations", pair(3400, 328), before=FOUR),
    KnownDifference("emptied", "before 4 an Empty group went with its last offset, or without any when somebody's topic was"
        " deleted; an id that a member had not yet joined with went with it", "DeleteGroups|OffsetDelete|DescribeGroups|"
        "ListGroups|JoinGroup|LeaveGroup", ".*", recognisers_of_groups.gone_in_kafka, before=FOUR, lasting=True),
    KnownDifference("start of the last", "before 4 InitProducerId left the start of the last transaction in the coordinator's"
        " memory", "DescribeTransactions", r"transaction_states\[\]\.transaction_start_time_ms",
        recognisers.start_of_the_last, since=THREE, before=FOUR),
    KnownDifference("times below none", "before 4 a record with a time below -1 cannot be converted to an old message",
        "Fetch", ".*", recognisers.unconvertible, before=FOUR),
    KnownDifference("converted together", "before 4 the first batch of a Fetch of old messages is converted, then all others"
        " at once: none where one is zstd", "Fetch",
        r"responses\[\]\.partitions\[\]\.records", recognisers.prefix_of_converted, before=FOUR),
    KnownDifference("converted twice", "before 4 a Fetch of old messages from a control batch on has the first messages twice",
        "Fetch", r"responses\[\]\.partitions\[\]\.records", recognisers.repeated_beginning, before=FOUR),
    KnownDifference("order of commits", "before 4 the coordinator keeps the partitions of a commit in hash maps",
        "OffsetCommit|TxnOffsetCommit", r"topics(\[\]\.partitions)?\.order", before=FOUR),
    KnownDifference("described assignments", "before 4 only a Stable group's assignments are described", "DescribeGroups",
        r"groups\[\]\.members\[\]\.member_assignment", recognisers_of_groups.is_not_stable, before=FOUR),
    KnownDifference("converted sizes", "what fits into the size before conversion depends on the compressor", "Fetch",
        r"responses\[\]\.partitions\[\]\.records", recognisers.other_size, before=FOUR),
    KnownDifference("fenced by itself", "before 4 an InitProducerId that ends a transaction bumps the epoch; when it is"
        " repeated, as its CONCURRENT_TRANSACTIONS demands, its own epoch is an old one", "InitProducerId", ".*",
        recognisers.fenced_by_itself, before=FOUR),
    KnownDifference("records of any epoch", "before 4 the coordinator verifies records only where the log has no transaction of"
        " their producer open, of whatever epoch", "Produce",
        r"responses\[\]\.partition_responses\[\]\.(error_code|base_offset|log_start_offset)",
        recognisers.produced_unverified, since=THREE, before=FOUR),
    KnownDifference("offsets of any epoch", "the same for offsets", "TxnOffsetCommit", r".*\.error_code",
        recognisers.committed_unverified, since=THREE, before=FOUR),
    KnownDifference("epoch in the log, later", "before 4 the log's epoch is looked at once the coordinator has verified the id",
        "Produce|TxnOffsetCommit", r".*\.error_code", pair("INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING"),
        since=THREE, before=FOUR),
    KnownDifference("unknown group", "before 4 a commit to an unknown group had another error", "OffsetCommit",
        r".*\.error_code", lambda c: c.part.theirs == "ILLEGAL_GENERATION"
        and c.part.ours in ("GROUP_ID_NOT_FOUND", "UNKNOWN_MEMBER_ID"),
        before=FOUR),
    KnownDifference("unknown group, transaction", "the same for a transaction's", "TxnOffsetCommit", r".*\.error_code",
        pair("ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID"), before=FOUR),
    KnownDifference("zstd for old clients", "before 4 a Fetch of versions 4 to 9 is refused where the topic's"
        " compression.type is zstd (KIP-110)", "Fetch", r"responses\[\]\.partitions\[\]\..*", recognisers.zstd_refused,
        before=FOUR),
    KnownDifference("settings of groups", "before 4 groups had no settings, unless asked for", ".*Configs",
        r"(results|responses)\[\].*", lambda c: "resource_type': 32" in repr(c.question.body), since=THREE, before=FOUR),
)  # fmt: skip
BEFORE_4_4 = (
    KnownDifference("settings after 4.3", "the setting came with 4.4", _CONFIGS, ".*", _SINCE_4_4, before=FOUR_FOUR),
    KnownDifference("emptied target", "before 4.4 the target of a group that its last member left kept its epoch",
        "ConsumerGroupDescribe", r"groups\[\]\.assignment_epoch",
        lambda c: "'group_state': 'Empty'" in repr(c.theirs), since=FOUR, before=FOUR_FOUR),
)  # fmt: skip
OF_4 = (
    _of_4("settings of a broker", "Kafka 4 has another type or default than 3.9, which coterie follows", "DescribeConfigs",
          r"results\[\]\.configs\[\].*", _NEW_IN_4),
    _of_4("has no such setting", "the setting went with Kafka 4; it has its effect here, for those who still set it", _CONFIGS,
          ".*", _GONE_IN_4),
    _of_4("small segments", "Kafka 4 refuses segments below a megabyte (KIP-1030)", _CONFIGS,
          r"topics\[\].*|responses\[\]\.error_(code|message)|results\[\]\.configs\[\].*",
          names_setting("segment.bytes", "log.segment.bytes")),
    _of_4("lists", "Kafka 4.2 counts what a list names twice once (KIP-1161)", "DescribeConfigs|CreateTopics", r".*\.value",
          lambda c: "," in str(c.part.ours) and c.part.theirs == ",".join(dict.fromkeys(str(c.part.ours).split(",")))),
    KnownDifference("4.4 lists of a broker", "Kafka 4.4 refuses a list of a running broker that names a value twice, or two"
        " empty ones; of a topic it counts the value once, as coterie does in both", "(Incremental)?AlterConfigs",
        r"responses\[\]\.error_(code|message)",
        lambda c: names_setting("log.cleanup.policy")(c) and recognisers.codes_of(c) == {"NONE", "INVALID_REQUEST"},
        since=FOUR_FOUR),
    _of_4("replicas", "Kafka 4 keeps min.insync.replicas as a setting of the whole cluster (KIP-966)",
          "CreateTopics|DescribeConfigs", r".*(config_source|source|synonyms.*)",
          lambda c: "min.insync.replicas" in c.part.path or "min.insync.replicas" in repr(c.part.theirs)),
    _of_4("replicas replaced", "Kafka 4 refuses to take that setting away from the cluster, as AlterConfigs of others does",
          "AlterConfigs", r"responses\[\].error_(code|message)", lambda c: recognisers.codes_of(c) == {"NONE", "INVALID_CONFIG"}
          and any((r["resource_type"], r.get("resource_name", "")) == (4, "") for r in c.question.body["resources"])),
    _of_4("replicas of a broker", "Kafka 4 keeps that setting for the whole cluster, never for one broker",
          "IncrementalAlterConfigs", r"responses\[\].error_(code|message)",
          lambda c: recognisers.codes_of(c) == {"NONE", "INVALID_CONFIG"} and names_setting("min.insync.replicas")(c)),
    _of_4("share locks", "Kafka 4.3 has another default for share groups", "DescribeConfigs", r".*\.value",
          pair("200", "2000")),
    _of_4("times to come", "Kafka 4 takes records an hour ahead by default, Kafka 3 any; both brokers are set to an hour",
          "DescribeConfigs", r".*synonyms\[\]\.value", pair("9223372036854775807", "3600000")),
    KnownDifference("released in a fetch", "Kafka begins to acquire before the release in the same request is written, and"
        " passes over those records where others follow; coterie delivers them again at once", "ShareFetch",
        r"responses\[\]\.partitions\[\]\.(records|acquired_records)(\[\])?",
        recognisers_of_groups.released_in_the_request, since=FOUR, lasting=True),
    KnownDifference("state read late", "Kafka responds to a share fetch whose wait has ended without the partitions whose"
        " state has not been read yet: it may take longer than the wait to learn that there is none", "ShareFetch",
        r"responses\[\](\.partitions\[\])?", recognisers_of_groups.read_too_late, since=FOUR),
    KnownDifference("shared partitions", "which member of a share group gets which of as many partitions depends on the order"
        " of a hash map of Kafka's, and with it on the topic's id, of which each broker makes its own",
        "ShareGroup(Heartbeat|Describe)", r"(groups\[\]\.members\[\]\.)?assignment\.topic_partitions\[\]\.partitions(\[\])?",
        recognisers_of_groups.assigns_as_many, since=FOUR, lasting=True),
    _of_4("Produce before 3", "Kafka 4 lists versions 0 to 2 for librdkafka's sake and closes on them; old clients may use "
          "them here", "Produce", "", lambda c: c.question.version < 3 and c.part.theirs == "connection closed"),
)  # fmt: skip
