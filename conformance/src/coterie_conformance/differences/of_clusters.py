"""The rows about several brokers of ours beside one of Apache Kafka's (`--brokers`): what a cluster answers otherwise than a
lone broker of either kind."""

from __future__ import annotations

from coterie_conformance.differences.of_versions import THREE
from coterie_conformance.differences.recognisers import DifferingPart, about
from coterie_conformance.differences.row import KnownDifference

NO_TIME_MS = 1  # of timeout_ms: a request that lets nothing be waited for
REPLICA_STATE_FROM = 15
BETWEEN_BROKERS = frozenset(range(4, 8))


def _has_no_time(case: DifferingPart) -> bool:
    """Ours has timed out, as the request allows."""
    return "REQUEST_TIMED_OUT" in repr(case.ours) and int(case.question.body.get("timeout_ms", 0)) <= NO_TIME_MS


def _of_a_replica(case: DifferingPart) -> bool:
    """A Fetch with the id of a broker."""
    body = case.question.body
    if case.question.version >= REPLICA_STATE_FROM:
        return int(body.get("replica_state", {}).get("replica_id", -1)) >= 0
    return int(body.get("replica_id", 0)) >= 0


def _between_brokers(case: DifferingPart) -> bool:
    """An api of brokers, or the first version of one."""
    return any(case.part.path.startswith(f"api_keys[{key}]") for key in BETWEEN_BROKERS)


OF_CLUSTERS = (
    KnownDifference(
        "cluster, no time",
        "a change that followers or the controller have to follow is not waited for where the request gives no time",
        "Produce|(Create|Delete)Topics|CreatePartitions|DeleteRecords",
        ".*",
        _has_no_time,
    ),
    KnownDifference(
        "cluster, high watermark",
        "records that no follower has fetched yet are above the high watermark, and none above it is deleted",
        "DeleteRecords",
        r"topics\[\]\.partitions\[\]\.low_watermark",
        lambda case: case.part.ours < case.part.theirs,
        lasting=True,
    ),
    KnownDifference(
        "cluster, between brokers",
        "a cluster on ZooKeeper offers the requests of its controller, as Kafka's did",
        "ApiVersions",
        r"api_keys\[\].*",
        _between_brokers,
    ),
    KnownDifference(
        "cluster, followers",
        "a fetch with the id of a broker is a follower's, which needs a replica there and gets no session",
        "Fetch",
        ".*",
        _of_a_replica,
        lasting=True,
    ),
    KnownDifference(
        "cluster, replicas",
        "each partition has as many replicas as there are brokers of ours",
        "CreateTopics",
        r"topics\[\]\.replication_factor",
        lambda case: case.part.theirs == 1,
    ),
    KnownDifference(
        "cluster, assignments",
        "for the same reason an assignment to one broker does not fit",
        "CreatePartitions",
        r"results\[\]\.error_(code|message)",
        about("topics.assignments.*"),
        lasting=True,
    ),
    KnownDifference(
        "cluster, replication factor",
        "for the same reason a reassignment to one broker changes it, which the request may not allow (KIP-860)",
        "AlterPartitionReassignments",
        r"responses\[\]\.partitions\[\]\.error_(code|message)",
        lambda case: "INVALID_REPLICATION_FACTOR" in repr(case.ours),
        lasting=True,
    ),
    KnownDifference(
        "cluster, settings",
        "a follower of ours that met a partition before its leader did fetches again soon (`leading_broker`)",
        "DescribeConfigs",
        r"results\[\]\.configs\[\].*",
        lambda case: "[replica.fetch.backoff.ms]" in case.part.path,
    ),
    KnownDifference(
        "cluster, leader epochs",
        "where another story moves replicas of it, __consumer_offsets has another epoch",
        "Metadata",
        r"topics\[\]\.partitions\[\]\.leader_epoch",
        lambda case: "[__consumer_offsets]" in case.part.path and case.part.theirs == 0,
    ),
    KnownDifference(
        "cluster, elections",
        "results are grouped by topic and partition, as by Kafka's controllers on ZooKeeper",
        "ElectLeaders",
        r"replica_election_results.*",
        since=THREE,
    ),
    KnownDifference(
        "cluster, reassignments",
        "the same, with the texts of those controllers",
        "AlterPartitionReassignments",
        r"error_message|responses(?!.*error_code).*",
        since=THREE,
    ),
)
