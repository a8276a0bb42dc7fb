"""Traces do not depend on the order of hashes, and a set that is iterated over is noticed. Seeds of the real program: one
broker or three, and their clients."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from coterie_conformance.cli import main
from coterie_conformance.stories.checkers import check_ledger
from coterie_conformance.stories.history import History, TransactionOutcome
from coterie_conformance.stories.story import run_story_seed

A_SET_DECIDES = """
from dataclasses import replace

from coterie_conformance.stories import story

draw_plan = story.draw_plan
first = next(iter({"one", "two", "three", "four"}))
story.draw_plan = lambda *given, **more: replace(draw_plan(*given, **more), readers=len(first) - 2)
"""
HASHES = ["stories", "--hashes", "2", "--seeds", "3", "--minutes", "0.02"]


def test_the_same_seed_has_the_same_trace_in_every_process() -> None:
    result = CliRunner().invoke(main, HASHES)
    assert result.exit_code == 0, result.output
    assert "3 seeds have the same traces in 2 processes" in result.output


def test_a_set_that_is_iterated_over_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text(A_SET_DECIDES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    result = CliRunner().invoke(main, HASHES)
    assert result.exit_code == 1
    assert "seed 0 has another trace" in result.output


run = partial(run_story_seed, brokers=1)


def test_fresh_seeds() -> None:
    reports = [run(seed) for seed in range(1_000, 1_012)]
    assert sum(r.acknowledged for r in reports) > 1_500, "too little is written to say anything"
    assert sum(r.delivered for r in reports) > 1_500, "too little is delivered to say anything"
    assert sum(r.transactions for r in reports) > 300, "too few transactions to say anything"
    assert sum(r.faults for r in reports) > 100, "too few faults to say anything"


def test_fresh_seeds_of_clusters() -> None:
    reports = [run_story_seed(seed, minutes=0.5, brokers=3) for seed in range(1_000, 1_003)]
    assert sum(r.acknowledged for r in reports) > 200, "too little is written to say anything"
    assert sum(r.broker_crashes for r in reports) > 3, "too few brokers crash to say anything"


@pytest.mark.parametrize("seed", [0, 4])
def test_what_was_copied_is_not_deleted(seed: int) -> None:
    """A plan with copiers of its own kept the deleter that the seed had drawn without any: deleted records counted as copied
    once too often."""
    run_story_seed(seed, minutes=0.25, brokers=3, copiers=1, transactional_producers=2, read_committed=True)


def test_a_deletion_waits_for_a_reassignment_whose_controller_was_replaced() -> None:
    """The new controller sent the topic as deleted: brokers removed its logs, and the reassignment never ended."""
    run_story_seed(8, minutes=0.25, brokers=4)


def test_a_late_end_of_a_transaction_may_end_the_next_one_before_kip_890() -> None:
    """A request that was carried out 12 s late committed the next transaction of its producer, which has the same epoch."""
    run(802908, minutes=0.5)


def test_a_late_commit_of_offsets_may_be_the_last_of_its_transaction() -> None:
    """A TxnOffsetCommit whose connection was lost was sent again, then the next one; the first was carried out behind both. It
    has no sequence, and its epoch is theirs."""
    run_story_seed(3_000_222, minutes=0.3)


def test_an_offset_of_another_transaction_is_not_taken_for_a_late_one() -> None:
    partition = ("t", 0)
    history = History()
    history.transactions["one"] = TransactionOutcome(offsets={partition: 3}, superseded=[2], committed=True)
    history.transactions["two"] = TransactionOutcome(offsets={partition: 6}, superseded=[5], committed=True)
    for committed in (6, 5):
        check_ledger(history, {partition: committed})
    for committed in (3, 2, 0):
        with pytest.raises(AssertionError, match="expected"):
            check_ledger(history, {partition: committed})


def test_a_new_leader_waits_for_its_followers_before_there_is_rest() -> None:
    """Its followers had not fetched from it, for 4 s, when the story took the cluster to be at rest, and left the ISR then."""
    run_story_seed(801936, minutes=0.5, brokers=3)


def test_the_same_seed_is_the_same_story() -> None:
    one, again, other = (run(seed, minutes=0.5) for seed in (1_000, 1_000, 1_001))
    assert one == again
    assert one.trace != other.trace
