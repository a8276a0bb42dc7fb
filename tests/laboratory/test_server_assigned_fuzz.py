"""Seeds of whole clients in groups of the consumer protocol: fresh ones, and rules of a client, of its actor or of the broker,
each switched off, which seeds must see."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import pytest

from conformance.tests.stories.switches_of_consumers import (
    a_former_epoch_may_commit,
    a_partition_is_given_before_it_is_released,
    a_validation_has_no_result,
    an_epoch_ends_before_its_last_records,
    an_upgrade_forgets_who_owns_what,
    commits_name_no_leader_epoch,
    no_report_acknowledges_a_revocation,
)
from coterie.consuming.owned_offsets import OwnedOffsets
from coterie.laboratory.actor_commits import ActorCommits
from coterie.laboratory.node import starting_offsets
from coterie.laboratory.node.consumer import ConsumerActor
from coterie.laboratory.node.group_consumers import ServerAssignedConsumer
from coterie.laboratory.node.seeds import SERVER_ASSIGNED_FROM, run_clients_seed
from tests.laboratory.known_seeds import Defect, KnownSeeds
from tests.laboratory.test_clients_fuzz import Committed, reading_begins_behind_the_committed_offset

pytestmark = pytest.mark.slow

Patch = pytest.MonkeyPatch
Partition = tuple[str, int]
Partitions = tuple[Partition, ...]


def run_server_assigned_seed(seed: int, minutes: float) -> object:
    return run_clients_seed(SERVER_ASSIGNED_FROM + seed, minutes)


def test_fresh_seeds() -> None:
    reports = [
        run_clients_seed(seed, minutes=1) for seed in range(SERVER_ASSIGNED_FROM + 500, SERVER_ASSIGNED_FROM + 512)
    ]
    assert sum(r.broker_crashes for r in reports) > 10, "the seeds crash the broker too seldom to say anything"
    assert sum(r.delivered for r in reports) > 3_000, "too little is delivered to say anything"
    assert sum(r.generation for r in reports) > 20, "the group rebalances too seldom to say anything"
    assert sum(r.with_consumer for r in reports) > 5, "too few groups of the consumer protocol to say anything"
    assert sum(r.with_mixed for r in reports) > 1, "too few groups of both protocols to say anything"


def test_the_same_seed_is_the_same_story() -> None:
    assert run_server_assigned_seed(2, minutes=0.5) == run_server_assigned_seed(2, minutes=0.5)


def a_revoked_partition_is_read_on(patch: Patch) -> None:
    give_up = ConsumerActor._give_up

    def read_on(consumer: ConsumerActor, partitions: Partitions, lost: bool) -> None:
        read = dict(consumer.fetching.positions)
        give_up(consumer, partitions, lost)
        consumer.fetching.positions = read

    patch.setattr(ConsumerActor, "_give_up", read_on)


def lost_partitions_are_read_on(patch: Patch) -> None:
    """Of a member that is fenced, or has left because it did not poll."""
    give_up = ServerAssignedConsumer._give_up

    def keep(consumer: ServerAssignedConsumer, partitions: Partitions, lost: bool) -> None:
        if lost:
            consumer.machine.revoked()
        else:
            give_up(consumer, partitions, lost)

    patch.setattr(ServerAssignedConsumer, "_give_up", keep)


def a_revocation_is_acknowledged_before_its_commit(patch: Patch) -> None:
    commit_first = ActorCommits.commit_before_revocation

    def at_once(commits: ActorCommits, follow: Callable[[], None]) -> None:
        commit_first(commits, lambda: None)
        follow()

    patch.setattr(ActorCommits, "commit_before_revocation", at_once)


def positions_outlast_a_revocation(patch: Patch) -> None:
    def keep(offsets: OwnedOffsets, partitions: Iterable[Partition]) -> None:
        """Neither position nor committed offset goes."""

    patch.setattr(OwnedOffsets, "_drop", keep)


def the_epoch_of_a_committed_offset_is_forgotten(patch: Patch) -> None:
    looked_up = OwnedOffsets.looked_up

    def without(owned: OwnedOffsets, committed: Mapping[Any, Committed], starting: Mapping[Partition, int]) -> None:
        looked_up(owned, {tp: (at[0], -1, at[2]) for tp, at in committed.items()}, starting)

    patch.setattr(OwnedOffsets, "looked_up", without)


def a_reset_begins_at_the_end(patch: Patch) -> None:
    """Without any complaint of the consumer: auto.offset.reset=latest."""
    patch.setattr(starting_offsets, "EARLIEST_TIMESTAMP", -1)


RULES = KnownSeeds(
    {
        a_former_epoch_may_commit: 14,
        a_revoked_partition_is_read_on: 4,
        lost_partitions_are_read_on: 5,
        a_revocation_is_acknowledged_before_its_commit: 0,
        positions_outlast_a_revocation: 0,
        reading_begins_behind_the_committed_offset: 0,
        a_partition_is_given_before_it_is_released: 0,
        no_report_acknowledges_a_revocation: 8,
        an_upgrade_forgets_who_owns_what: 18,
        an_epoch_ends_before_its_last_records: 1,
        a_validation_has_no_result: 0,
        a_reset_begins_at_the_end: 0,
        commits_name_no_leader_epoch: 0,
        the_epoch_of_a_committed_offset_is_forgotten: 4,
    },
    partial(run_server_assigned_seed, minutes=1),
    range(4),
)


@RULES.each()
def test_seeds_see_whether_a_rule_is_off(defect: Defect | None, monkeypatch: Patch) -> None:
    RULES.check(defect, monkeypatch)
