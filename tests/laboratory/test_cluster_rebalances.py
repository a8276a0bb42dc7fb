"""Leaders of the laboratory's clusters that move back every five seconds: fresh seeds, and the rule without which the first
replica of a partition cannot lead again, switched off."""

from __future__ import annotations

from functools import partial

import pytest

from conformance.tests.stories.cluster_switches import (
    leaders_do_not_learn_of_departures,
)
from coterie.laboratory.cluster.seeds import run_seed_of_clusters
from coterie.laboratory.cluster.story import REBALANCED_LEADERS_FROM
from tests.laboratory.known_seeds import SEEDS_FOR_A_DEFECT, Defect, KnownSeeds

pytestmark = pytest.mark.slow

FIRST = REBALANCED_LEADERS_FROM
Patch = pytest.MonkeyPatch


def test_fresh_seeds_of_each_story() -> None:
    reports = [run_seed_of_clusters(seed, minutes=0.5) for seed in range(FIRST + 500, FIRST + 504)]
    assert all(r.acknowledged > 100 for r in reports), "too little is acknowledged to say anything"
    assert sum(r.elections for r in reports) > 40, "leaders change too seldom to say anything"


# Without the notification too little is seen here, because other changes of the ISR inform the leader: it is shown by
# tests/spec/cluster/lost_power and tests/broker/cluster/test_drivers.
# Each rule that is off, and a seed that sees it (the module known_seeds finds one).
RULES = KnownSeeds(
    {
        leaders_do_not_learn_of_departures: FIRST + 3,
    },
    partial(run_seed_of_clusters, minutes=0.5),
    range(FIRST, FIRST + SEEDS_FOR_A_DEFECT),
    match="is not led by broker",
)


@RULES.each()
def test_seeds_see_whether_a_rule_is_off(defect: Defect | None, monkeypatch: Patch) -> None:
    RULES.check(defect, monkeypatch)
