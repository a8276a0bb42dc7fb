"""Seeds of clusters with groups: fresh ones, and each rule that keeps a group one group while its coordinator moves, switched
off, which seeds must see."""

from __future__ import annotations

from functools import partial

import pytest

from conformance.tests.stories.cluster_switches import (
    a_coordinator_begins_without_a_load,
    a_coordinator_that_resigns_goes_on,
    assignments_are_sent_before_they_are_replicated,
    decisions_are_answered_before_they_are_replicated,
)
from coterie.laboratory.cluster.group_story import run_group_cluster_seed
from coterie.laboratory.fuzz import FuzzFailure
from tests.laboratory.known_seeds import SEEDS_FOR_A_DEFECT, Defect, KnownSeeds

pytestmark = pytest.mark.slow

Patch = pytest.MonkeyPatch
FIRST = 100_000


def test_fresh_seeds() -> None:
    reports = [run_group_cluster_seed(seed, minutes=1) for seed in range(FIRST + 300, FIRST + 306)]
    assert sum(r.coordinator_loads for r in reports) > 40, "coordinators move too seldom to say anything"
    assert sum(r.group_generations for r in reports) > 30, "too few generations to say anything"
    assert sum(r.group_commits for r in reports) > 1_000, "too little is committed to say anything"
    assert sum(r.broker_crashes for r in reports) > 10, "brokers crash too seldom to say anything"


def test_the_same_seed_is_the_same_story() -> None:
    assert run_group_cluster_seed(FIRST, minutes=0.3) == run_group_cluster_seed(FIRST, minutes=0.3)


def test_an_assignment_that_only_one_broker_had() -> None:
    """Its member repeated a SyncGroup whose record was not replicated, and received it; the next coordinator assigned the same
    partitions in the same generation to others."""
    run_group_cluster_seed(100_003, minutes=1)


# Not seen by twenty seeds: sessions that do not begin with a load (the next rebalance removes their members), and commits of
# any generation (a member sends its commits before its JoinGroup, on one connection; tests/spec/offsets.txt has the rule).
# Each rule that is off, and a seed that sees it (the module known_seeds finds one).
RULES = KnownSeeds(
    {
        assignments_are_sent_before_they_are_replicated: 11,
        decisions_are_answered_before_they_are_replicated: 100_000,
        a_coordinator_that_resigns_goes_on: 0,
        a_coordinator_begins_without_a_load: 100_000,
    },
    partial(run_group_cluster_seed, minutes=1),
    range(FIRST, FIRST + SEEDS_FOR_A_DEFECT),
    failures=(FuzzFailure, AssertionError),
)


@RULES.each()
def test_seeds_see_whether_a_rule_is_off(defect: Defect | None, monkeypatch: Patch) -> None:
    RULES.check(defect, monkeypatch)
