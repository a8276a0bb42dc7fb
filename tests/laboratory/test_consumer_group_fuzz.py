"""Seeds of groups of the consumer protocol: every one that has failed, and a few fresh ones."""

from __future__ import annotations

import pytest

from coterie.coordinator.consumer import steps
from coterie.coordinator.consumer.commits import any_partition
from coterie.coordinator.consumer.reconcile import Reconciliation, reconcile
from coterie.coordinator.consumer.state import CurrentAssignment
from coterie.coordinator.offsets import commit
from coterie_conformance.group_stories.consumer_groups import run_consumer_seed
from coterie_conformance.group_stories.seed import FuzzFailure

# A member's removal that could not be stored was never tried again; a checker forbade what Kafka takes of classic members; a
# commit of before a fence was made in the next epoch, for a partition that another member had by then; a report left out
# what the member was about to read; a checker took an empty group that changes its protocol for one that goes on; a checker
# held a member to an assignment that the disk had forgotten.
ONCE_FAILED = (26, 97, 5116, 5, 37, 172, 9204)


@pytest.mark.parametrize("seed", ONCE_FAILED)
def test_a_seed_that_once_failed(seed: int) -> None:
    run_consumer_seed(seed, minutes=2)


def test_fresh_seeds() -> None:
    reports = [run_consumer_seed(seed, minutes=2) for seed in range(2000, 2014)]
    assert sum(r.broker_crashes for r in reports) > 10, "the seeds crash the broker too seldom to say anything"
    assert sum(r.epochs for r in reports) > 100, "the seeds rebalance too seldom to say anything"
    assert sum(r.conversions for r in reports) > 2, "the seeds convert too few groups to say anything"
    assert sum(r.fenced for r in reports) > 5, "the seeds fence too few members to say anything"


def test_the_same_seed_is_the_same_story() -> None:
    assert run_consumer_seed(7, minutes=1) == run_consumer_seed(7, minutes=1)


def test_partitions_that_are_not_free_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The defect that everything here is about: a partition assigned before its owner has released it."""

    def eager(current: CurrentAssignment, given: Reconciliation) -> CurrentAssignment:
        nobody = Reconciliation(
            given.target_epoch, given.target, given.subscribed, {}, given.owned, given.subscription_changed
        )
        return reconcile(current, nobody)

    monkeypatch.setattr(steps, "reconcile", eager)
    with pytest.raises(FuzzFailure, match=r"still belongs to|belongs to two members"):
        _several(*range(5))


def test_commits_of_stale_members_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "check_commit", lambda *arguments: any_partition)
    with pytest.raises(FuzzFailure, match="committed"):
        _several(20, *range(20))  # 20 is the first that sees it; a change of the code may change the stories


def _several(*seeds: int) -> None:
    for seed in seeds:
        run_consumer_seed(seed, minutes=2)
