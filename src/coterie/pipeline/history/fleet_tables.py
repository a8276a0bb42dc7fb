"""The schemas of the tables of a whole cluster's groups, as `coterie.pipeline.history.tables` has those of the history."""

from __future__ import annotations

from coterie.pipeline.history.tables import HistoryTable

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
