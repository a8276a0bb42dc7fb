"""Seeds of clusters with transactions: fresh ones, and each rule that keeps a transaction whole, switched off, which seeds must
see."""

from __future__ import annotations

from functools import partial

import pytest

from conformance.tests.stories.cluster_switches import (
    a_decided_transaction_is_not_completed_after_a_load,
    a_transaction_is_complete_after_its_first_marker,
    a_transaction_is_complete_before_all_its_markers,
    an_abort_keeps_the_pending_offsets,
    markers_are_not_repeated_after_the_leader_has_moved,
    the_producer_is_answered_before_the_decision_is_replicated,
)
from coterie.laboratory.cluster.ledger_broker import LedgerBroker
from coterie.laboratory.cluster.transaction_story import run_transaction_cluster_seed
from coterie.laboratory.fuzz import FuzzFailure
from coterie.wire.errors import ErrorCode
from tests.laboratory.known_seeds import SEEDS_FOR_A_DEFECT, Defect, KnownSeeds

pytestmark = pytest.mark.slow

Patch = pytest.MonkeyPatch


def test_fresh_seeds() -> None:
    reports = [run_transaction_cluster_seed(seed, minutes=1) for seed in range(500, 506)]
    assert sum(r.commits for r in reports) > 40, "too few transactions commit to say anything"
    assert sum(r.aborts for r in reports) > 25, "too few transactions abort to say anything"
    assert sum(r.broker_crashes for r in reports) > 5, "brokers crash too seldom to say anything"


def test_the_same_seed_is_the_same_story() -> None:
    assert run_transaction_cluster_seed(3, minutes=0.3) == run_transaction_cluster_seed(3, minutes=0.3)


def nothing_is_verified(patch: Patch) -> None:
    """As in Apache Kafka before 3.6: with version 2 nothing adds the partition either."""
    patch.setattr(LedgerBroker, "_verified", lambda self, name, claim, partition, adds, done: done(ErrorCode.NONE))


# Not seen by eighty seeds, and so tested by themselves: the check of the coordinator's epoch, which the epochs of version 2
# make nearly redundant; a new coordinator's wait for the high watermark; the look-up of an unknown partition.
# Each rule that is off, and a seed that sees it (the module known_seeds finds one).
RULES = KnownSeeds(
    {
        markers_are_not_repeated_after_the_leader_has_moved: 1,
        a_transaction_is_complete_before_all_its_markers: 7,
        a_transaction_is_complete_after_its_first_marker: 12,
        an_abort_keeps_the_pending_offsets: 2,
        the_producer_is_answered_before_the_decision_is_replicated: 0,
        nothing_is_verified: 0,
        a_decided_transaction_is_not_completed_after_a_load: 0,
    },
    partial(run_transaction_cluster_seed, minutes=1, transaction_version=2),
    range(SEEDS_FOR_A_DEFECT),
    failures=(FuzzFailure, AssertionError, KeyError),
)


@RULES.each()
def test_seeds_see_whether_a_rule_is_off(defect: Defect | None, monkeypatch: Patch) -> None:
    RULES.check(defect, monkeypatch)
