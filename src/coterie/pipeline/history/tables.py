"""The schemas of the history's tables, each with its meaning. Times are in ms since 1970 (`_ms`), durations in ms.

`log_partition` and `log_offset`: the row's record in `__consumer_offsets` (or the journal).
"""

from __future__ import annotations

from dataclasses import dataclass

from coterie.coordinator.journal.patterns import INFERRED, OBSERVED, UNKNOWN

BROKER = "broker"
ORIGINS = {
    BROKER: "the broker's own journal states it",
    OBSERVED: "a record, a description, a request or a line of a broker's log states it",
    INFERRED: "a rule concludes it, or the members of two generations do",
    UNKNOWN: "it is known that something happened, and not why",
}
_OF_OFFSETS = {"member_joined": OBSERVED, "subscription_changed": OBSERVED, "member_gone": UNKNOWN}
# One row per committed offset, or its deletion (`deleted`; the offset is null then). `producer_id` is that of a commit within
# a transaction, which counts only with a commit marker (`group_log`); null for any other.
COMMITS = (
    "group string, topic string, partition int, offset bigint, leader_epoch int, metadata string, commit_ms bigint, "
    "expire_ms bigint, deleted boolean, producer_id bigint, log_partition int, log_offset bigint"
)
# The records that are not commits, as they stand: a classic group (`value` null for its tombstone), a record of a consumer
# group (KIP-848) with its `key`, or the end of a transaction; and what cannot be read, with its description as JSON.
GROUP_LOG = (
    "kind string, group string, key binary, value binary, producer_id bigint, committed boolean, time_ms bigint, "
    "log_partition int, log_offset bigint"
)
# One row per stored state of a group: a generation with its assignment, or, without members, the Empty state.
GENERATIONS = (
    "group string, generation int, protocol_type string, protocol string, leader string, members int, deleted boolean, "
    "time_ms bigint, log_partition int, log_offset bigint"
)
# The members of a generation, with their settings and subscribed topics.
MEMBERS = (
    "group string, generation int, member_id string, group_instance_id string, client_id string, client_host string, "
    "session_timeout_ms int, rebalance_timeout_ms int, topics array<string>, time_ms bigint, log_partition int, "
    "log_offset bigint"
)
# The assignment of a generation: member and partition.
ASSIGNMENTS = (
    "group string, generation int, member_id string, client_id string, topic string, partition int, time_ms bigint, "
    "log_partition int, log_offset bigint"
)
# A partition in one member's hands, over as many generations as it stayed there; until_ms null: it still is.
OWNERSHIP = (
    "group string, topic string, partition int, member_id string, client_id string, from_ms bigint, until_ms bigint, "
    "first_generation int, last_generation int"
)
# One row per rebalance. `source`: the broker's journal (exact), a broker's log, an observer's journal, or the offsets (who
# came and went); `origin`: one of coterie.pipeline.history.tables.ORIGINS. `why` in words; `cause` one of
# coterie.coordinator.journal.line.CAUSES; moved, unowned_ms and undetected_ms are as coordinator/journal/generations counts
# them, the times null where the phases or the assignment are missing.
REBALANCES = (
    "group string, generation int, source string, origin string, event string, time_ms bigint, members int, leader string, "
    "protocol string, cause string, why string, causes int, joined int, departed int, join_ms bigint, sync_ms bigint, "
    "moved int, unowned int, unowned_ms bigint, undetected_ms bigint, log_offset bigint"
)
# The same of a broker's log, with what it tells of the removals: whom, when, and who of them was silent.
LOG_EVENTS = f"{REBALANCES}, started_ms bigint, removed array<string>, removed_ms array<bigint>, silent array<string>"
# One row per group epoch of a consumer group (KIP-848). target_ms: when its target assignment was computed, null where a later
# epoch came first; reconciled_ms: when every member had it; moved: the partitions that the target gave to another member.
EPOCHS = (
    "group string, epoch int, metadata_hash bigint, members int, moved int, target_ms bigint, reconciled_ms bigint, "
    "time_ms bigint, log_partition int, log_offset bigint"
)
# One row per step of a member of a consumer group to its target: what it got and released by it, as TOPIC-PARTITION, and what
# it is still to revoke.
RECONCILIATIONS = (
    "group string, epoch int, member_id string, client_id string, member_epoch int, state string, owned int, "
    "assigned array<string>, released array<string>, revoking array<string>, time_ms bigint, log_partition int, "
    "log_offset bigint"
)
# Batches of the log that cannot be read: none of the tables has their records, which may be commits and states of any group
# of that log partition. last_offset null: nothing readable follows.
UNREADABLE = "log_partition int, log_offset bigint, last_offset bigint, path string, position bigint, why string"
# How regularly a group commits a partition; intervals between two commits.
CADENCE = (
    "group string, topic string, partition int, commits bigint, first_ms bigint, last_ms bigint, mean_interval_ms double, "
    "median_interval_ms double, p95_interval_ms double, longest_interval_ms bigint, first_offset bigint, "
    "last_offset bigint, records_per_s double"
)
# A pause in a partition's progress that is long for it: no commit, or commits that did not move on (`moved` 0).
STALLS = (
    "group string, topic string, partition int, from_ms bigint, until_ms bigint, pause_ms bigint, "
    "median_interval_ms double, offset bigint, moved bigint"
)
# How far behind a group was at the end of each stretch of time; end_offset and lag null where the topic no longer exists.
LAG = "group string, topic string, partition int, time_ms bigint, committed bigint, end_offset bigint, lag bigint"
# How long each member id lived; a client whose ids live shortly and often is flapping.
TENURES = (
    "group string, member_id string, group_instance_id string, client_id string, client_host string, from_ms bigint, "
    "until_ms bigint, generations int"
)
FLAPPING = (
    "group string, client_id string, client_host string, lives bigint, short_lives bigint, median_life_ms double, "
    "first_ms bigint, last_ms bigint"
)
# The groups as the newest record leaves them, by the broker's own replay.
GROUPS = (
    "group string, state string, generation int, protocol_type string, protocol string, leader string, members int, "
    "offsets int, pending_offsets int, log_offset bigint"
)
# What a column means in every table that has it; OWN_COLUMNS where a table differs.
COLUMNS = {
    "group": "the group's id",
    "topic": "the topic",
    "partition": "the partition",
    "offset": "the committed offset; null where `deleted`",
    "path": "the log file; null where a broker sent the batch",
    "position": "the byte of the file at which it begins; null where a broker sent the batch",
    "leader_epoch": "the leader epoch that the commit named; -1 for none",
    "metadata": "the text that was committed with the offset",
    "commit_ms": "when the offset was committed",
    "expire_ms": "when the offset expires; -1 without a time of its own",
    "deleted": "whether the record is a tombstone",
    "producer_id": "the transaction's producer; null outside of transactions",
    "log_partition": "the partition of `__consumer_offsets` (or of the journal) that holds the record",
    "log_offset": "the record's offset in that partition",
    "kind": "group, consumer_group (KIP-848), marker for the end of a transaction, or unreadable",
    "key": "the key of a consumer group's record as it stands in the log",
    "value": "the record's value as it stands in the log; null for a tombstone",
    "committed": "whether the transaction was committed; null for a group",
    "time_ms": "the time of the record",
    "generation": "the generation, or group epoch (KIP-848)",
    "epoch": "the group epoch",
    "metadata_hash": "the hash of the subscribed topics' metadata, as the record has it",
    "target_ms": "when the target assignment of the epoch was computed; null where a later epoch came first",
    "reconciled_ms": "when every member had its part of the target; null where a later epoch came first",
    "member_epoch": "the member's epoch after the step",
    "owned": "how many partitions the member may use after the step",
    "assigned": "the partitions that the step added, as TOPIC-PARTITION",
    "released": "the partitions that the step took away",
    "revoking": "the partitions that the member is still to revoke",
    "protocol_type": "consumer, or that of another kind of group",
    "protocol": "the assignor in force",
    "leader": "the member id of the leader",
    "members": "the number of members",
    "member_id": "the member's id",
    "group_instance_id": "the id of a static member; null for a dynamic one",
    "client_id": "the member's client.id",
    "client_host": "the address that the member came from",
    "session_timeout_ms": "the member's session timeout",
    "rebalance_timeout_ms": "the member's rebalance timeout (max.poll.interval.ms)",
    "topics": "the topics that the member subscribed to",
    "from_ms": "when it began",
    "until_ms": "when it ended; null where it has not",
    "first_generation": "the first generation of the stretch",
    "last_generation": "the last generation of the stretch",
    "source": "where the row comes from: journal (the broker's, exact), server_log, observer (a journal of `coterie observe` "
    "or `coterie proxy`), or offsets (from the members)",
    "origin": "how the first cause is known: " + "; ".join(f"{name}: {meaning}" for name, meaning in ORIGINS.items()),
    "event": "what the source calls it",
    "cause": "one of the journal's causes",
    "why": "the causes in words",
    "causes": "how many causes there were",
    "joined": "how many members joined",
    "departed": "how many members left or were removed",
    "join_ms": "how long PreparingRebalance took; null where the source does not have it",
    "sync_ms": "how long CompletingRebalance took; null where the source does not have it",
    "moved": "how many partitions moved: a member owns them that is another than the last that owned them",
    "unowned": "how many partitions had an owner before and have none after it",
    "unowned_ms": "how long partitions were unowned, summed over partitions that have one again: from the revocation, or the "
    "last heartbeat of an owner that died, while the group had live members; of a broker's log only with the offsets, which "
    "have the assignment; null where the phases or the assignment are not known",
    "undetected_ms": "the part of unowned_ms in which the coordinator had not noticed that the owner was dead",
    "commits": "how many commits there were",
    "first_ms": "when the first was",
    "last_ms": "when the last was",
    "mean_interval_ms": "the mean time between two commits",
    "median_interval_ms": "the median time between two commits",
    "p95_interval_ms": "the time between two commits that 95 % stay under",
    "longest_interval_ms": "the longest time between two commits",
    "first_offset": "the first committed offset",
    "last_offset": "the last committed offset",
    "records_per_s": "the records between the two, by second",
    "pause_ms": "how long the stall was",
    "end_offset": "the topic's end at that time; null where the topic is no longer known",
    "lag": "end_offset less the committed offset; null where the topic is no longer known",
    "generations": "how many generations it was in",
    "lives": "how many member ids the client had",
    "short_lives": "how many of them lived shortly",
    "median_life_ms": "the median life of a member id",
    "state": "the group's state",
    "offsets": "how many committed offsets the group has",
    "pending_offsets": "how many offsets of open transactions the group has",
}
OWN_COLUMNS = {
    ("unreadable", "log_offset"): "the first offset that is missing",
    ("unreadable", "last_offset"): "the last offset that is missing; null where nothing readable follows",
    ("unreadable", "why"): "why it cannot be read",
    ("stalls", "offset"): "the committed offset during the stall",
    ("stalls", "moved"): "by how many records the commit after the stall moved on",
    ("reconciliations", "state"): "STABLE, UNREVOKED_PARTITIONS, or UNRELEASED_PARTITIONS (others have not released)",
    ("lag", "committed"): "the committed offset at that time",
    ("lag", "time_ms"): "the end of the stretch of time",
}
FLEET_GROUPS = (
    "group string, rebalances int, unowned_ms bigint, undetected_ms bigint, moved bigint, members int, deploys int, "
    "deploy_unowned_ms bigint, cause string, cause_unowned_ms bigint, stated int, inferred int, unknown int, first_ms bigint, "
    "last_ms bigint"
)
FLEET_CAUSES = "group string, cause string, rebalances int, unowned_ms bigint, moved bigint"
FLEET_DEPLOYS = (
    "group string, from_ms bigint, until_ms bigint, restarted int, members int, rebalances int, unowned_ms bigint, "
    "moved bigint"
)
FLEET_COLUMNS = {
    "rebalances": "how many rebalances there were",
    "unowned_ms": "for how long partitions had no live owner, summed over partitions; null where no source "
    "knows it, as in offsets alone",
    "undetected_ms": "the part of unowned_ms in which the coordinator had not noticed that the owner was dead",
    "moved": "how many partitions moved, over all of them",
    "members": "the most members at once",
    "deploys": "how many deploys there were",
    "deploy_unowned_ms": "the part of unowned_ms in rebalances of deploys",
    "cause": "the first cause of the rebalances; in fleet_groups the one that cost the most",
    "cause_unowned_ms": "the part of unowned_ms in rebalances of that cause",
    "stated": "rebalances whose cause the broker's journal, a record or a log states",
    "inferred": "rebalances whose cause is inferred",
    "unknown": "rebalances whose cause is unknown",
    "first_ms": "when the first was",
    "last_ms": "when the last was",
    "from_ms": "when the first member went",
    "until_ms": "when the last one came",
    "restarted": "how many members went and came again",
}


@dataclass(frozen=True, slots=True)
class HistoryTable:
    """A table of the history: its schema in Spark's DDL, and what one row of it is."""

    schema: str
    meaning: str


# name of the folder -> table, in the order in which the job makes them
TABLES: dict[str, HistoryTable] = {
    "commits": HistoryTable(COMMITS, "One row per committed offset, or its deletion. A fact: kept by run."),
    "group_log": HistoryTable(
        GROUP_LOG,
        "The records that are not commits: a group's, its tombstones, or the end of a transaction. A fact: kept by run.",
    ),
    "generations": HistoryTable(
        GENERATIONS,
        "One row per stored state of a group: a generation, a group without members, or a group epoch (KIP-848).",
    ),
    "members": HistoryTable(MEMBERS, "The members of each generation, with their settings and subscriptions."),
    "assignments": HistoryTable(
        ASSIGNMENTS, "The partitions that each generation, or target assignment, has for each member."
    ),
    "ownership": HistoryTable(OWNERSHIP, "One row per stretch of time in which a member owned a partition."),
    "tenures": HistoryTable(TENURES, "One row per member id: how long it lived."),
    "flapping": HistoryTable(FLAPPING, "Clients whose member ids live shortly and often."),
    "rebalances": HistoryTable(REBALANCES, "One row per rebalance, with its cause, its phases and what moved."),
    "epochs": HistoryTable(
        EPOCHS, "One row per group epoch of a consumer group (KIP-848), with its target assignment."
    ),
    "reconciliations": HistoryTable(
        RECONCILIATIONS, "One row per step of a member of a consumer group to its target: revoked, released, assigned."
    ),
    "groups": HistoryTable(GROUPS, "The groups as their newest records leave them, by the broker's own replay."),
    "unreadable": HistoryTable(
        UNREADABLE, "One row per batch of the log that cannot be read, and is in no other table."
    ),
    "cadence": HistoryTable(CADENCE, "How regularly a group commits each partition."),
    "stalls": HistoryTable(STALLS, "Times without progress in a partition's commits that are long for that partition."),
    "lag": HistoryTable(LAG, "How far behind a group was at the end of each of up to 100 stretches of time."),
}


FLEET_TABLES: dict[str, HistoryTable] = {
    "fleet_groups": HistoryTable(
        FLEET_GROUPS, "One row per group: its rebalances over all of the history, and their cost."
    ),
    "fleet_causes": HistoryTable(
        FLEET_CAUSES, "One row per group and cause: a rebalance counts under its first cause."
    ),
    "fleet_deploys": HistoryTable(
        FLEET_DEPLOYS,
        "One row per deploy: two members and half of the group, or more, went and came again under their client ids, with no "
        "more than ten minutes in between.",
    ),
}


def origin_in_offsets(cause: str) -> str:
    """Of a cause by two generations alone: who came stands there, and of who is gone not why."""
    return _OF_OFFSETS.get(cause, INFERRED)
