"""Seeds of records on a failing disk: fresh ones, and each rule of the broker turned off once, which a seed must find."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from conformance.tests.stories.switches_of_logs import (
    a_failed_sync_counts_as_done,
    a_full_segment_that_cannot_be_synced_is_no_fault,
    a_repeated_batch_is_appended,
    aborted_transactions_are_not_listed,
    an_offset_is_left_out,
    deleted_records_come_back,
    no_response_waits_for_a_sync,
    readers_do_not_wait_for_a_sync,
    transactions_are_not_synced,
)
from coterie.laboratory.fuzz import FuzzFailure
from coterie.laboratory.node.story import run_records_seed

Patch = pytest.MonkeyPatch
SEEDS_FOR_A_DEFECT = 30


def test_fresh_seeds() -> None:
    reports = [run_records_seed(seed, minutes=2) for seed in range(100, 112)]
    assert sum(r.broker_crashes for r in reports) > 20, "the seeds crash the broker too seldom to say anything"
    assert sum(r.disk_failures for r in reports) > 500, "the disk fails too seldom to say anything"
    assert sum(r.acknowledged for r in reports) > 3_000, "too little is written to say anything"
    assert sum(r.refused for r in reports) > 20, "too little is refused to say anything"
    assert sum(r.transactions for r in reports) > 100, "too few transactions to say anything"


def test_the_same_seed_is_the_same_story() -> None:
    assert run_records_seed(7, minutes=1) == run_records_seed(7, minutes=1)


def run_seeds(count: int) -> None:
    for seed in range(count):
        run_records_seed(seed, minutes=2)


@pytest.mark.parametrize(
    ("defect", "complaint"),
    [
        (no_response_waits_for_a_sync, "was acknowledged at"),
        (a_failed_sync_counts_as_done, "follows|was acknowledged at|was read at"),
        (readers_do_not_wait_for_a_sync, "was read at"),
        (a_full_segment_that_cannot_be_synced_is_no_fault, "follows|was acknowledged at|was read at"),
        (transactions_are_not_synced, "is visible|in part|open for ever|was read at"),
        (a_repeated_batch_is_appended, "is there twice"),
        (aborted_transactions_are_not_listed, "should not"),
        (deleted_records_come_back, "was deleted until"),
        (an_offset_is_left_out, "follows"),
    ],
)
@pytest.mark.slow
def test_a_defect_is_found(monkeypatch: Patch, defect: Callable[[Patch], None], complaint: str) -> None:
    defect(monkeypatch)
    with pytest.raises(FuzzFailure, match=complaint):
        run_seeds(SEEDS_FOR_A_DEFECT)
