"""The rows of `differences` where Kafka fails with an exception of its own (UNKNOWN_SERVER_ERROR) and coterie answers."""

from __future__ import annotations

from coterie_conformance.differences import recognisers
from coterie_conformance.differences.of_versions import FOUR, THREE
from coterie_conformance.differences.recognisers import fails_about
from coterie_conformance.differences.row import KnownDifference

FAILURES: tuple[KnownDifference, ...] = (
    KnownDifference(
        "fails on sizes",
        "Kafka fails to allocate a buffer of a negative size",
        "Fetch",
        ".*",
        fails_about(r"max_bytes|topics\.partitions\.partition_max_bytes", "lowest|minus one|negative"),
    ),
    KnownDifference(
        "fails on isolation levels",
        "Kafka has no such isolation level",
        "Fetch|ListOffsets",
        ".*",
        fails_about("isolation_level", "highest|lowest|minus one|negative|unknown"),
        since=THREE,
    ),
    KnownDifference(
        "fails on sessions",
        "Kafka fails to look for an id that no session can have",
        "Fetch",
        ".*",
        fails_about("session_id", "highest|lowest"),
        since=THREE,
    ),
    KnownDifference(
        "fails on owners",
        "Kafka cannot read a principal without a type",
        "CreateDelegationToken",
        ".*",
        fails_about("owner_principal_name", "other"),
        since=THREE,
    ),
    KnownDifference(
        "fails on operations",
        "Kafka cannot read an operation that there is not",
        "IncrementalAlterConfigs",
        ".*",
        fails_about(r"resources\.configs\.config_operation"),
    ),
    KnownDifference(
        "fails on no name",
        "Kafka fails on a topic that has neither name nor id, before 4 beside another one",
        "Metadata",
        ".*",
        fails_about(r"topics\.(name|topic_id)", "null|default|zero"),
        since=THREE,
    ),
    KnownDifference(
        "fails on an empty name",
        "Kafka fails on a topic without a name",
        "DescribeTopicPartitions",
        ".*",
        fails_about(r"topics\.name", "empty|default"),
        since=THREE,
    ),
    KnownDifference(
        "fails on passwords",
        "Kafka fails to make keys of no password",
        "AlterUserScramCredentials",
        ".*",
        fails_about(r"upsertions\.salted_password"),
        since=THREE,
    ),
    KnownDifference(
        "fails on codecs",
        "Kafka has no fifth codec",
        "Produce",
        ".*",
        fails_about(r"topic_data\.partition_data\.records", "codec 5"),
    ),
    KnownDifference(
        "fails on lengths",
        "Kafka reads beyond an old message set whose length is damaged",
        "Produce",
        ".*",
        fails_about(r"topic_data\.partition_data\.records", "length"),
        before=FOUR,
        since=THREE,
        lasting=True,
    ),
    KnownDifference(
        "fails on no id",
        "Kafka cannot keep a topic without an id in a new session, nor beside others in a response",
        "Fetch",
        ".*",
        recognisers.fails_on_no_id,
        since=THREE,
        before=FOUR,
    ),
    KnownDifference(
        "fails on no id twice",
        "Kafka compares the names of two partitions whose topic has no id, and there is no name",
        "Fetch",
        ".*",
        recognisers.fails_on_no_id_twice,
        since=THREE,
    ),
    KnownDifference(
        "fails on no member",
        "Kafka looks for a member without an id in a consumer group",
        "OffsetFetch",
        r"groups\[\]\.error_code",
        fails_about(r"groups\.member_id", "null|default"),
        since=FOUR,
    ),
    KnownDifference(
        "fails on no epoch",
        "Kafka fails on a transactional producer without an epoch",
        "TxnOffsetCommit",
        ".*",
        fails_about("producer_epoch", "minus one|none|minus_two|lowest"),
        before=FOUR,
    ),
    KnownDifference(
        "no time",
        "Kafka refuses to wait no time at all, and may have done it all the same",
        "CreateTopics|CreatePartitions|DeleteTopics|ElectLeaders|AlterPartitionReassignments",
        ".*",
        recognisers.no_time,
    ),
)
