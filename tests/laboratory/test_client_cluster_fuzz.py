"""Seeds of clusters whose producers and consumers have the client's own machines: fresh ones, and each rule that they and the
brokers keep, switched off, which seeds must see."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.tests.stories.cluster_switches import (
    a_log_that_is_cut_keeps_its_producers,
    a_repeated_batch_is_appended_again,
    no_batch_waits_for_one_before_it,
    positions_are_not_validated,
    readers_get_what_is_not_replicated,
    what_is_sent_again_has_another_number,
)
from coterie.laboratory.cluster.client_story import run_client_cluster_seed
from coterie.laboratory.cluster.produced_log import ProducedReplicaLog
from coterie.laboratory.cluster.report import ClusterReport
from coterie.laboratory.cluster.seeds import WITH_WHOLE_CLIENTS_FROM, run_seed_of_clusters
from coterie.laboratory.cluster.transaction_client_story import run_transaction_client_seed
from coterie.producing.machine import ProducerMachine
from tests.laboratory.known_seeds import SEEDS_FOR_A_DEFECT, Defect, KnownSeeds
from tests.laboratory.test_produce_fuzz import lost_is_good

pytestmark = pytest.mark.slow

Patch = pytest.MonkeyPatch


def run(number: int) -> ClusterReport:
    """The seed of that number among those with such a story."""
    return run_client_cluster_seed(WITH_WHOLE_CLIENTS_FROM + 3 + 4 * number, minutes=2)


def test_fresh_seeds() -> None:
    reports = [run(number) for number in range(1_000, 1_006)]
    assert sum(r.acknowledged for r in reports) > 4_000, "too little is acknowledged to say anything"
    assert sum(r.delivered for r in reports) > 8_000, "too little is delivered to say anything"
    assert sum(r.elections for r in reports) > 80, "leaders change too seldom to say anything"
    assert sum(r.validations for r in reports) > 100, "positions are validated too seldom to say anything"


def test_seeds_of_clusters_have_these_stories() -> None:
    seed = WITH_WHOLE_CLIENTS_FROM + 3
    assert run_seed_of_clusters(seed, minutes=0.2) == run_client_cluster_seed(seed, minutes=0.2)


def test_brokers_on_a_failing_disk_write_nothing_to_the_terminal(caplog: pytest.LogCaptureFixture) -> None:
    """`lab fuzz` prints reports; what the brokers of a story log is part of it."""
    seed = 195_002
    run_transaction_client_seed(seed, minutes=0.5)
    assert any("cannot be written" in line for line in caplog.messages), "a seed whose disks fail is wanted"
    caplog.clear()
    run_seed_of_clusters(seed, minutes=0.5)
    assert not caplog.messages


def followers_know_no_producers(patch: Patch) -> None:
    """A new leader takes whatever comes."""
    append = ProducedReplicaLog.append_as_follower

    def forgetful(log: ProducedReplicaLog, batches: Any) -> None:
        append(log, batches)
        log.log.producers.by_id.clear()

    patch.setattr(ProducedReplicaLog, "append_as_follower", forgetful)


def a_lost_response_is_an_acknowledgement(patch: Patch) -> None:
    patch.setattr(ProducerMachine, "request_failed", lost_is_good)


# Each rule that is off, and a seed that sees it (the module known_seeds finds one).
RULES = KnownSeeds(
    {
        a_repeated_batch_is_appended_again: 0,
        followers_know_no_producers: 2,
        a_log_that_is_cut_keeps_its_producers: 0,
        readers_get_what_is_not_replicated: 0,
        a_lost_response_is_an_acknowledgement: 0,
        what_is_sent_again_has_another_number: 0,
        no_batch_waits_for_one_before_it: 3,
        positions_are_not_validated: 3,
    },
    run,
    range(SEEDS_FOR_A_DEFECT),
)


@RULES.each()
def test_seeds_see_whether_a_rule_is_off(defect: Defect | None, monkeypatch: Patch) -> None:
    RULES.check(defect, monkeypatch)
