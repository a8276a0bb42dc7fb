"""The schemas of the history's tables, each with its meaning. Times are in ms since 1970 (`_ms`), durations in ms.

`log_partition` and `log_offset` say where in `__consumer_offsets` (or the journal) a row stands.
"""

from __future__ import annotations

# One row per committed offset, or its deletion (`deleted`; the offset is null then). `producer_id` is that of a commit within
# a transaction, which counts only once its marker says so (`group_log`); null for any other.
COMMITS = (
    "group string, topic string, partition int, offset bigint, leader_epoch int, metadata string, commit_ms bigint, "
    "expire_ms bigint, deleted boolean, producer_id bigint, log_partition int, log_offset bigint"
)

# The records that are not commits, as they stand: a group (`value` null for its tombstone), or the end of a transaction.
GROUP_LOG = (
    "kind string, group string, value binary, producer_id bigint, committed boolean, time_ms bigint, "
    "log_partition int, log_offset bigint"
)

# One row per stored state of a group: a generation whose assignment was handed out, or, with no members, that it is empty.
GENERATIONS = (
    "group string, generation int, protocol_type string, protocol string, leader string, members int, deleted boolean, "
    "time_ms bigint, log_partition int, log_offset bigint"
)

# Who was in it, with what settings, and what it subscribed to.
MEMBERS = (
    "group string, generation int, member_id string, group_instance_id string, client_id string, client_host string, "
    "session_timeout_ms int, rebalance_timeout_ms int, topics array<string>, time_ms bigint, log_partition int, "
    "log_offset bigint"
)

# Who was to read what in it.
ASSIGNMENTS = (
    "group string, generation int, member_id string, client_id string, topic string, partition int, time_ms bigint, "
    "log_partition int, log_offset bigint"
)

# A partition in one member's hands, over as many generations as it stayed there; until_ms null: it still is.
OWNERSHIP = (
    "group string, topic string, partition int, member_id string, client_id string, from_ms bigint, until_ms bigint, "
    "first_generation int, last_generation int"
)

# One row per rebalance. `source` says who told: the journal (exact), a broker's log, or the offsets (inferred from who came
# and went). `why` in words; `cause` one of coterie.journal.CAUSES; unowned_ms: summed over partitions, null if not known.
REBALANCES = (
    "group string, generation int, source string, event string, time_ms bigint, members int, leader string, "
    "protocol string, cause string, why string, causes int, joined int, departed int, join_ms bigint, sync_ms bigint, "
    "moved int, unowned_ms bigint, log_offset bigint"
)

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

# How far behind a group was at the end of each stretch of time; end_offset and lag null where nobody knows the topic any more.
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
