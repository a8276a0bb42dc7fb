"""The laboratory's seeds: those that failed once stay for ever, and a few fresh ones beside them."""

from __future__ import annotations

import pytest

from coterie.laboratory.fuzz import FuzzFailure, naming_seed, run_seed

# Each found a bug of the core, the member machine or the laboratory; see the commit that added it.
ONCE_FAILED = (4, 10, 15, 17, 25, 35, 65, 91, 809, 24787, 27751)


@pytest.mark.parametrize("seed", ONCE_FAILED)
def test_a_seed_that_once_failed(seed: int) -> None:
    run_seed(seed)


def test_fresh_seeds() -> None:
    reports = [run_seed(seed, minutes=3) for seed in range(1000, 1040)]
    assert sum(r.broker_crashes for r in reports) > 20, "the seeds crash the broker too seldom to say anything"
    assert sum(r.rebalances for r in reports) > 200, "the seeds rebalance too seldom to say anything"


def test_the_same_seed_is_the_same_story() -> None:
    assert run_seed(7, minutes=2) == run_seed(7, minutes=2)


def test_an_error_of_the_code_under_test_is_the_seeds_failure() -> None:
    with pytest.raises(FuzzFailure, match="seed 5: ZeroDivisionError: a bug"), naming_seed(5):
        raise ZeroDivisionError("a bug")
