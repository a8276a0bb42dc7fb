"""The differences that are known, each with its reason: one table for the group stories and for `everything`.

A row of `ROWS` recognises one part of one response: the api, the place in it, the values on both sides, and the versions of
Kafka. Whatever no row recognises is a failure; a row that recognises nothing in a full run is reported, so that it goes.
A row of `STORY_ROWS` is about group stories and recognises how a whole story's sides parted (`accepted` has how); such a
story ends there, unharmed. `sides.LEFT_OUT` is what group stories do not compare at all; `everything` compares it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from coterie_conformance.differences import recognisers, recognisers_of_groups
from coterie_conformance.differences.by_failure import FAILURES
from coterie_conformance.differences.of_versions import BEFORE_4, BEFORE_4_4, FOUR, OF_2_6, OF_4, THREE
from coterie_conformance.differences.recognisers import DifferingPart
from coterie_conformance.differences.row import KnownDifference, Version
from coterie_conformance.groups import accepted

if TYPE_CHECKING:
    from coterie_conformance.groups.accepted import DifferingStory

Parted = dict[str, Any]
# Settings that the judge gives to Kafka alone, or that tell where a broker runs, and one that a question alters.
OF_THE_PROCESS = (
    "node.id", "broker.id", "listeners", "advertised.listeners", "controller.listener.names", "controller.quorum.voters",
    "process.roles", "log.dirs", "offsets.topic.replication.factor", "transaction.state.log.min.isr",
    "transaction.state.log.num.partitions", "transaction.state.log.replication.factor", "max.connections",
    "group.coordinator.append.linger.ms", "share.coordinator.append.linger.ms",
    "log.cleaner.io.buffer.size", "broker.session.timeout.ms",
)  # fmt: skip

ROWS: tuple[KnownDifference, ...] = (
    KnownDifference(
        "settings of the process",
        "what the judge sets on one side alone, Kafka's controller, and bounds of coterie's own",
        "DescribeConfigs",
        r"results\[\]\.configs\[\].*",
        recognisers.setting_of_a_broker(*OF_THE_PROCESS),
    ),
    KnownDifference(
        "settings of every version",
        "coterie's broker has the settings of Kafka 3.9 and of 4.4",
        "DescribeConfigs",
        r"results\[\]\.configs\[\]",
        recognisers.other_setting_of_a_broker,
    ),
    KnownDifference(
        "order",
        "Kafka keeps these in hash maps, whose order it does not define, and answers some of what it refuses first",
        "ApiVersions|Metadata|Produce|ListOffsets|DescribeConfigs|(Create|Delete)Topics|CreatePartitions|DeleteRecords|OffsetFetch|"
        "JoinGroup|(List|Describe|Delete)Groups|OffsetDelete|DescribeLogDirs|AlterReplicaLogDirs|(Alter|Describe)UserScramCredentials|"
        "DescribeProducers|(List|Describe)Transactions|AddPartitionsToTxn|WriteTxnMarkers|ListConfigResources|(Alter|Describe)ClientQuotas|"
        "(Consumer|Share|Streams)Group(Describe|Heartbeat)|(Describe|Delete)Acls|(Describe|Alter|Delete)ShareGroupOffsets|"
        "ShareFetch|ShareAcknowledge|(Initialize|Read|Write|Delete)ShareGroupState(Summary)?",
        r"(.*\.)?(resources|acls|matching_acls|topics|partitions|configs|results|active_producers|groups|transaction_states|config_resources|finalized_features|"
        r"entries|entity|values|members|topic_partitions|credential_infos|responses|partition_responses|topic_results|"
        r"results_by_(topic|transaction|partition)|subscribed_topic_names|(active|standby|warmup)_tasks|client_tags|source_topics|"
        r"repartition_sink_topics|repartition_source_topics|state_changelog_topics|topic_configs|task_(end_)?offsets|"
        r"partitions_by_user_endpoint|active_partitions|standby_partitions)\.order",
    ),
    KnownDifference(
        "not served",
        "see recognisers.NOT_SERVED: for each api, why",
        "ApiVersions",
        r"api_keys\[\]",
        recognisers.not_served,
    ),
    KnownDifference(
        "more versions",
        "coterie serves the newest versions and the oldest, whatever Kafka it stands beside",
        "ApiVersions",
        r"api_keys\[\].*",
        recognisers.newer_or_older,
    ),
    KnownDifference(
        "fewer versions",
        "see recognisers.NOT_IN_THIS_VERSION: for each api, why",
        "ApiVersions",
        r"api_keys\[\].max_version",
        recognisers.version_gap,
        since=THREE,
    ),
    KnownDifference(
        "features",
        "the features of a Kafka of another version",
        "ApiVersions",
        r"(supported|finalized)_features\[\].*",
        recognisers.feature_of_another_version,
    ),
    KnownDifference(
        "epoch of features",
        "the end of KRaft's metadata log, which coterie does not have",
        "ApiVersions",
        "finalized_features_epoch",
        lambda c: c.part.ours == 0,
    ),
    KnownDifference(
        "named twice",
        "Kafka keeps what a request names in maps: the same thing twice is answered once",
        ".*",
        r"(?!.*\.(synonyms|aborted_transactions|records)$).*",
        recognisers.named_twice,
    ),
    KnownDifference(
        "nothing inside",
        "for the same reason a topic of which no partition is named leaves no trace",
        ".*",
        ".*",
        recognisers.nothing_inside,
    ),
    *FAILURES,
    # -- what clients never send -----------------------------------------------------------------------------------------
    KnownDifference(
        "followers",
        "one broker has no followers: a replica id is a consumer's here",
        "Fetch",
        r"responses\[\].partitions\[\].*|node_endpoints\[\]",
        recognisers.follower,
        since=THREE,
    ),
    KnownDifference(
        "acl parse",
        "Kafka cannot read an ACL of an unknown or any kind and closes the connection; coterie returns SECURITY_DISABLED",
        "(Create|Delete|Describe)Acls",
        "",
        recognisers.theirs_is("connection closed"),
    ),
    KnownDifference(
        "memory",
        "a broker in memory has no disk to measure",
        "DescribeLogDirs",
        r".*_bytes",
        recognisers.pair(-1, "some"),
        since=THREE,
    ),
    KnownDifference(
        "defaults of version 0",
        "Kafka left is_default behind with version 1",
        "DescribeConfigs",
        r".*\.is_default",
        recognisers.pair(True, False),
        before=FOUR,
        since=THREE,
    ),
    KnownDifference(
        "cursor overflow",
        "Kafka adds one to the largest partition and overflows",
        "DescribeTopicPartitions",
        r"next_cursor.*|topics\[\]",
        lambda c: "-214748" in repr(c.theirs),
        since=THREE,
    ),
    KnownDifference(
        "page of every topic",
        "a page of all topics ends among those of other stories",
        "DescribeTopicPartitions",
        r"next_cursor(\..*)?|topics\[\]",
        recognisers.ends_in_another_story,
        since=THREE,
    ),
    KnownDifference(
        "feature gone",
        "lowering a feature that does not exist is fine in Kafka, refused here",
        "UpdateFeatures",
        ".*",
        lambda c: "INVALID_UPDATE_VERSION" in repr(c.ours),
        since=THREE,
        before=FOUR,
    ),
    KnownDifference(
        "no words",
        "a refusal without words in Kafka has some here",
        "UnregisterBroker|UpdateFeatures",
        "error_message",
        lambda c: not c.part.theirs or not c.part.ours,
        since=THREE,
        before=FOUR,
    ),
    KnownDifference(
        "markers",
        "WriteTxnMarkers of producers that cannot be; only brokers send it",
        "WriteTxnMarkers",
        r"markers.*",
        lambda c: "UNKNOWN_SERVER_ERROR" in repr(c.ours) or "COORDINATOR_FENCED" in repr(c.theirs),
    ),
    KnownDifference(
        "marker versions",
        "Kafka fails on a marker of a transaction version that there is not; only brokers send it",
        "WriteTxnMarkers",
        r"markers.*",
        lambda c: "UNKNOWN_SERVER_ERROR" in repr(c.theirs) and recognisers.names_unknown_transaction_version(c),
        since=FOUR,
    ),
    # -- of older versions of Kafka ----------------------------------------------------------------------------------------
    KnownDifference(
        "ZooKeeper's offsets",
        "version 0 was about offsets in ZooKeeper, here it is about the group's",
        "OffsetCommit|OffsetFetch",
        r"topics.*",
        lambda c: c.question.version == 0,
        before=FOUR,
    ),
    KnownDifference(
        "time in a segment",
        "Kafka's look-up by time ends in the first segment whose largest timestamp reaches the time: where its records have"
        " none, that is when its file last changed, and a record of a later segment is not met (searchOffsetInLocalLog)",
        "ListOffsets",
        r"topics\[\]\.partitions\[\]\.(offset|timestamp|leader_epoch)",
        recognisers.finds_none_of_a_time,
    ),
    KnownDifference(
        "aborted ahead",
        "Kafka lists what was aborted up to the next entry of its index, not to the end of what a short Fetch returns",
        "Fetch",
        r"responses\[\]\.partitions\[\]\.aborted_transactions(\[\])?",
        recognisers.aborted_beyond,
    ),
    KnownDifference(
        "verified together",
        "Kafka verifies the transactions of several requests at once, and all get the error of the first one's version",
        "TxnOffsetCommit|Produce",
        r".*\.error_(code|message)",
        recognisers.verified_together,
        since=THREE,
    ),
    KnownDifference(
        "settings later",
        "Kafka's log learns its settings after AlterConfigs is answered: a record without a key still comes in, and is deleted",
        "Produce|DeleteRecords",
        "((responses|topics).*)?",
        recognisers.settings_later,
    ),
    KnownDifference(
        "never joined",
        "a first join or commit that is refused, or is aborted, makes no group here; Kafka keeps an Empty one",
        "ListGroups|DescribeGroups|DeleteGroups|OffsetCommit|OffsetDelete",
        r"groups\[\](\.(group_state|error_code|error_message))?|results\[\]\.error_code|topics.*|error_code",
        recognisers_of_groups.empty_in_kafka,
    ),
    KnownDifference(
        "forgotten",
        "Kafka forgets a consumer group that all have left where a classic join is refused, until it reads its log again",
        "ConsumerGroupDescribe|ListGroups|OffsetCommit",
        r"groups\[\](\..*)?|topics\[\]\.partitions\[\]\.error_code",
        recognisers_of_groups.forgotten,
        since=FOUR,
        lasting=True,
    ),
    KnownDifference(
        "ids",
        "which of a group's members gets a partition depends on the order of their ids, of which each broker makes some",
        "ConsumerGroupDescribe|DescribeGroups|ConsumerGroupHeartbeat",
        r"(groups\[\]\.members\[\]\.)?((target_)?assignment\.topic_partitions\[\](\.partitions(\[\])?)?|member_assignment)",
        recognisers_of_groups.ordered_by_made_ids,
        since=FOUR,
        lasting=True,
    ),
    KnownDifference(
        "without topics",
        "Kafka takes all topics from a group whose members name the same ones when a member that names none joins it while its"
        " target assignment is out of date: TargetAssignmentBuilder has the subscription type from before",
        "ConsumerGroupDescribe",
        r"groups\[\]\.members\[\]\.target_assignment\.topic_partitions\[\]",
        recognisers_of_groups.beside_one_without_topics,
        since=FOUR,
        lasting=True,
    ),
    *OF_2_6,
    *BEFORE_4,
    *BEFORE_4_4,
    *OF_4,
)


def row_of(case: DifferingPart, version: Version, rows: Iterable[KnownDifference] = ROWS) -> KnownDifference | None:
    """The first row that explains this part."""
    return next((row for row in rows if row.explains(case, version)), None)


# (name, reason, what recognises it)
STORY_ROWS: tuple[tuple[str, str, Callable[[DifferingStory, Parted, Parted], bool]], ...] = (
    (
        "leader",
        "who leads after the leader has gone: the first in join order here, hash order in Kafka",
        accepted.other_leader,
    ),
    ("tied vote", "a tie goes to the protocol voted for first here, to hash order in Kafka", accepted.tied_vote),
    (
        "refused join",
        "a first join that is refused makes no group here; Kafka keeps an Empty one",
        accepted.made_by_a_refused_join,
    ),
    ("refused commit", "the same for a first commit that is refused", accepted.delete_of_a_refused_group),
    (
        "full group",
        "those who waited for an id that found no room are answered at once here",
        accepted.full_group_waits,
    ),
    (
        "removed sync",
        "a removed member's waiting SyncGroup is answered here, never by Kafka",
        accepted.removed_while_syncing,
    ),
    (
        "unknown group",
        "before 4 a commit to an unknown group had another error",
        accepted.commit_to_unknown,
    ),
    ("emptied", "before 4 an Empty group went with its last offset", accepted.emptied),
    (
        "unknown instance",
        "2.6 (LeaveGroup before 4) overlooks an instance id that the group does not know",
        accepted.unknown_instance,
    ),
    ("pending leave", "2.6 fails on a pending id that leaves", accepted.pending_leave_fails),
    ("batch leave", "before 4 the members of a batch left one by one", accepted.leave_one_by_one),
    (
        "transactional member",
        "2.6 checks the member of a transactional commit otherwise",
        accepted.transactional_member,
    ),
    ("stable fetch", "2.6 can take a plain commit for a pending one", accepted.plain_commit_unstable),
    (
        "refused for room",
        "2.6 mixes up static and pending ids that it refused for want of room",
        accepted.refused_for_room,
    ),
    ("state filter", "2.6 takes the case of a state filter as it is", accepted.case_of_states),
)


def story_row(story: DifferingStory) -> str:
    """The name of the row that recognises how this story's sides parted; "" for none."""
    if story.parted is None:
        return ""
    _, ours, theirs = story.parted
    return next((name for name, _, recognises in STORY_ROWS if recognises(story, ours, theirs)), "")
