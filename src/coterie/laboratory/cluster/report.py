"""What one seed of a cluster did."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ClusterReport:
    """What one seed did. ``elections``: leader epochs in which something was appended; ``controllers``: the last one's
    epoch; ``crashes_of_all`` brokers at once, ``power_cuts_of_all`` machines; ``zookeeper_outages`` that come twice;
    ``full_disks``; ``topics`` created; ``deletions`` of topics that were requested; ``reassignments`` that were accepted;
    ``record_deletions``: DeleteRecords that were done; ``cut_reassignments``: power cuts while a partition of the broker moved;
    ``slow_disks``; ``alterations`` of topic settings, ``retentions``: of a log that began later by retention.bytes;
    ``unclean_losses``: acknowledged records of topics with unclean elections that are lost;
    ``commits``, ``aborts`` and ``torn`` of a story with transactions; of one with groups ``coordinator_loads`` of a
    partition of `__consumer_offsets`, ``group_generations`` in which members were assigned something, and
    ``group_commits``: offsets; with one of the consumer protocol ``consumer_epochs`` of members in which they were assigned
    something; ``producer_ids`` that brokers gave; ``clock_jumps`` of machines;
    ``failed_directories`` of brokers that lived; of one with whole clients the ``validations`` of consumers' positions."""

    seed: int
    events: int = 0
    acknowledged: int = 0
    delivered: int = 0
    elections: int = 0
    controllers: int = 0
    broker_crashes: int = 0
    power_cuts: int = 0
    topics: int = 0
    deletions: int = 0
    reassignments: int = 0
    record_deletions: int = 0
    crashes_of_all: int = 0
    power_cuts_of_all: int = 0
    zookeeper_outages: int = 0
    full_disks: int = 0
    slow_disks: int = 0
    cut_reassignments: int = 0
    alterations: int = 0
    retentions: int = 0
    unclean_losses: int = 0
    commits: int = 0
    aborts: int = 0
    torn: int = 0
    coordinator_loads: int = 0
    group_generations: int = 0
    group_commits: int = 0
    consumer_epochs: int = 0
    producer_ids: int = 0
    clock_jumps: int = 0
    failed_directories: int = 0
    validations: int = 0
