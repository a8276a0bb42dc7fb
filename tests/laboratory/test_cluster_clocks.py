"""Clocks of the laboratory's clusters: each machine has its own, which jumps; fresh seeds, and what a clock can break, with its
rule switched off."""

from __future__ import annotations

from functools import partial

import pytest

from conformance.tests.stories.cluster_switches import (
    notifications_are_deleted_by_the_clock_of_zookeeper,
)
from coterie.laboratory.cluster.machine_clocks import OWN_CLOCKS_FROM
from coterie.laboratory.cluster.seeds import run_seed_of_clusters
from tests.laboratory.known_seeds import SEEDS_FOR_A_DEFECT, Defect, KnownSeeds

pytestmark = pytest.mark.slow

Patch = pytest.MonkeyPatch
FIRST = OWN_CLOCKS_FROM


def test_fresh_seeds_of_each_story() -> None:
    reports = [run_seed_of_clusters(seed, minutes=0.5) for seed in range(FIRST + 500, FIRST + 504)]
    assert min(r.clock_jumps for r in reports) >= 5, "clocks jump too seldom to say anything"


# Not seen by twelve stories with transactions, and so tested by itself: `steps.restart_timeouts`.
# Each rule that is off, and a seed that sees it (the module known_seeds finds one).
RULES = KnownSeeds(
    {
        notifications_are_deleted_by_the_clock_of_zookeeper: FIRST + 1,
    },
    partial(run_seed_of_clusters, minutes=1),
    range(FIRST, FIRST + SEEDS_FOR_A_DEFECT),
)


@RULES.each()
def test_seeds_see_whether_a_rule_is_off(defect: Defect | None, monkeypatch: Patch) -> None:
    RULES.check(defect, monkeypatch)
