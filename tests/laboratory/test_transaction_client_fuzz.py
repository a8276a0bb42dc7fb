"""Seeds of clusters whose transactional producers and readers have the client's own machines: fresh ones, and each rule that
they and the brokers keep, switched off, which seeds must see."""

from __future__ import annotations

import pytest

from conformance.tests.stories.cluster_switches import (
    a_consumer_delivers_aborted_records,
    a_producer_commits_what_has_failed,
    partitions_are_not_added_to_the_transaction,
    readers_get_open_transactions,
)
from coterie.laboratory.cluster.report import ClusterReport
from coterie.laboratory.cluster.seeds import WITH_WHOLE_CLIENTS_FROM, run_seed_of_clusters
from coterie.laboratory.cluster.transaction_client_story import run_transaction_client_seed
from tests.laboratory.known_seeds import SEEDS_FOR_A_DEFECT, Defect, KnownSeeds

pytestmark = pytest.mark.slow

Patch = pytest.MonkeyPatch


def run(number: int) -> ClusterReport:
    """The seed of that number among those with such a story."""
    return run_transaction_client_seed(WITH_WHOLE_CLIENTS_FROM + 2 + 4 * number, minutes=1)


def test_fresh_seeds() -> None:
    reports = [run(number) for number in range(1_000, 1_006)]
    assert sum(r.commits for r in reports) > 12, "too little is committed to say anything"
    assert sum(r.aborts for r in reports) > 12, "too little is aborted to say anything"
    assert sum(r.elections for r in reports) > 80, "leaders change too seldom to say anything"


def test_seeds_of_clusters_have_these_stories() -> None:
    seed = WITH_WHOLE_CLIENTS_FROM + 2
    assert run_seed_of_clusters(seed, minutes=0.1) == run_transaction_client_seed(seed, minutes=0.1)


# Each rule that is off, and a seed that sees it (the module known_seeds finds one).
RULES = KnownSeeds(
    {
        readers_get_open_transactions: 0,
        a_consumer_delivers_aborted_records: 0,
        a_producer_commits_what_has_failed: 4,
        partitions_are_not_added_to_the_transaction: 0,
    },
    run,
    range(SEEDS_FOR_A_DEFECT),
)


@RULES.each()
def test_seeds_see_whether_a_rule_is_off(defect: Defect | None, monkeypatch: Patch) -> None:
    RULES.check(defect, monkeypatch)
