"""Seeds of clusters with a group of the consumer protocol (KIP-848): fresh ones, and each rule that keeps it one group while
its coordinator moves, switched off, which seeds must see."""

from __future__ import annotations

from functools import partial

import pytest

from conformance.tests.stories.cluster_switches import (
    a_coordinator_begins_without_a_load,
    a_coordinator_that_resigns_goes_on,
    a_target_assignment_of_the_future_is_waited_for,
    assignments_are_sent_before_they_are_replicated,
    commits_of_any_epoch_are_accepted,
    decisions_are_answered_before_they_are_replicated,
    partitions_are_assigned_before_their_owners_release_them,
)
from coterie.laboratory.cluster.consumer_group_story import run_consumer_group_cluster_seed
from coterie.laboratory.cluster.seeds import WITH_CONSUMER_GROUPS_FROM, run_seed_of_clusters
from coterie.laboratory.fuzz import FuzzFailure
from tests.laboratory.known_seeds import SEEDS_FOR_A_DEFECT, Defect, KnownSeeds

pytestmark = pytest.mark.slow

Patch = pytest.MonkeyPatch
FIRST = WITH_CONSUMER_GROUPS_FROM


def test_fresh_seeds() -> None:
    reports = [run_seed_of_clusters(seed, minutes=1) for seed in (FIRST + 700, FIRST + 701, FIRST + 704, FIRST + 705)]
    assert sum(r.coordinator_loads for r in reports) > 40, "coordinators move too seldom to say anything"
    assert sum(r.consumer_epochs for r in reports) > 30, "members receive too few assignments to say anything"
    assert sum(r.group_commits for r in reports) > 600, "too little is committed to say anything"


def test_the_same_seed_is_the_same_story() -> None:
    assert run_consumer_group_cluster_seed(FIRST, minutes=0.3) == run_consumer_group_cluster_seed(FIRST, minutes=0.3)


# Each rule that is off, and a seed that sees it (the module known_seeds finds one).
RULES = KnownSeeds(
    {
        assignments_are_sent_before_they_are_replicated: FIRST + 2,
        decisions_are_answered_before_they_are_replicated: FIRST,
        a_coordinator_that_resigns_goes_on: FIRST,
        a_coordinator_begins_without_a_load: FIRST,
        partitions_are_assigned_before_their_owners_release_them: FIRST,
        commits_of_any_epoch_are_accepted: FIRST + 1,
        a_target_assignment_of_the_future_is_waited_for: FIRST,
    },
    partial(run_consumer_group_cluster_seed, minutes=1),
    range(FIRST, FIRST + SEEDS_FOR_A_DEFECT),
    failures=(FuzzFailure, AssertionError),
)


@RULES.each()
def test_seeds_see_whether_a_rule_is_off(defect: Defect | None, monkeypatch: Patch) -> None:
    RULES.check(defect, monkeypatch)
