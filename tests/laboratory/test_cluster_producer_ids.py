"""Producer ids of the laboratory's clusters: fresh seeds, and each rule by which no id is given twice, switched off, which
seeds must see."""

from __future__ import annotations

from functools import partial

import pytest

from conformance.tests.stories.cluster_switches import (
    a_block_that_another_broker_wrote_is_taken,
    a_write_without_a_response_counts_as_done,
    blocks_are_written_whatever_the_version,
)
from coterie.laboratory.cluster.seeds import run_seed_of_clusters
from coterie.laboratory.cluster.story import PRODUCER_IDS_FROM
from tests.laboratory.known_seeds import SEEDS_FOR_A_DEFECT, Defect, KnownSeeds

pytestmark = pytest.mark.slow

Patch = pytest.MonkeyPatch
FIRST = PRODUCER_IDS_FROM


def test_fresh_seeds_of_each_story() -> None:
    reports = [run_seed_of_clusters(seed, minutes=0.5) for seed in range(FIRST + 500, FIRST + 504)]
    assert min(r.producer_ids for r in reports) > 60, "too few ids are given to say anything"


# Each rule that is off, and a seed that sees it (the module known_seeds finds one).
RULES = KnownSeeds(
    {
        blocks_are_written_whatever_the_version: FIRST,
        a_block_that_another_broker_wrote_is_taken: FIRST,
        a_write_without_a_response_counts_as_done: FIRST + 2,
    },
    partial(run_seed_of_clusters, minutes=0.5),
    range(FIRST, FIRST + SEEDS_FOR_A_DEFECT),
    match="have given the producer id",
)


@RULES.each()
def test_seeds_see_whether_a_rule_is_off(defect: Defect | None, monkeypatch: Patch) -> None:
    RULES.check(defect, monkeypatch)
