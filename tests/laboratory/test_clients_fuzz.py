"""Seeds of whole clients over the broker's own handlers: fresh ones, and defects of a client, which seeds must find."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from conformance.tests.stories.switches_of_consumers import (
    a_record_comes_twice,
    a_record_is_left_out,
    commits_are_ahead,
)
from coterie.consuming.owned_offsets import OwnedOffsets
from coterie.laboratory.fuzz import FuzzFailure
from coterie.laboratory.node.seeds import run_clients_seed
from coterie.log.producers.producers import Producers
from coterie.records.batch import BatchHeader

Patch = pytest.MonkeyPatch
Partition = tuple[str, int]
Committed = tuple[int, int, str]  # offset, leader epoch, metadata
SEEDS_FOR_A_DEFECT = 10


def test_fresh_seeds() -> None:
    reports = [run_clients_seed(seed, minutes=1.5) for seed in range(200, 206)]
    assert sum(r.broker_crashes for r in reports) > 10, "the seeds crash the broker too seldom to say anything"
    assert sum(r.disk_failures for r in reports) > 100, "the disk fails too seldom to say anything"
    assert sum(r.delivered for r in reports) > 3_000, "too little is delivered to say anything"
    assert sum(r.generation for r in reports) > 20, "the group rebalances too seldom to say anything"


def test_a_seed_that_once_failed() -> None:
    """A request went on in a process that had ended with its machine, and read what the power cut had left."""
    run_clients_seed(4204, minutes=0.5)


@pytest.mark.parametrize("seed", [203_869, 206_647])
def test_a_power_cut_leaves_no_gap(seed: int) -> None:
    """An fsync failed and the power was cut: batches behind the hole stayed in the log."""
    run_clients_seed(seed, minutes=0.5)


def test_a_group_is_at_rest_with_all_its_consumers() -> None:
    """A member whose process had ended was still one of the stable group, and the new one of that consumer was not yet."""
    run_clients_seed(301_837, minutes=0.5)


def test_a_process_that_ends_while_a_checker_looks() -> None:
    """The look at a group wrote what was decided: the laboratory ended with ProcessEnded."""
    run_clients_seed(203_711, minutes=0.5)


def test_the_same_seed_is_the_same_story() -> None:
    assert run_clients_seed(3, minutes=0.5) == run_clients_seed(3, minutes=0.5)


def reading_begins_behind_the_committed_offset(patch: Patch) -> None:
    looked_up = OwnedOffsets.looked_up

    def behind(owned: OwnedOffsets, committed: Mapping[Any, Committed], starting: Mapping[Partition, int]) -> None:
        moved = {tp: (at[0] + (at[0] > 0), at[1], at[2]) for tp, at in committed.items()}
        looked_up(owned, moved, starting)

    patch.setattr(OwnedOffsets, "looked_up", behind)


def a_repeated_batch_is_appended(patch: Patch) -> None:
    check = Producers.check

    def unseen(producers: Producers, header: BatchHeader, *, anew: bool = False) -> None:
        """A gap between sequences is refused all the same."""
        check(producers, header, anew=anew)

    patch.setattr(Producers, "check", unseen)


def run_seeds(seeds: range) -> None:
    for seed in seeds:
        run_clients_seed(seed, minutes=1)


@pytest.mark.parametrize(
    ("defect", "complaint"),
    [
        (a_record_is_left_out, "was acknowledged and not delivered"),
        (a_record_comes_twice, "polled offsets"),
        (commits_are_ahead, "is committed, delivered was|was acknowledged and not delivered"),
        (a_repeated_batch_is_appended, "is there twice|after number"),
        (
            reading_begins_behind_the_committed_offset,
            "is committed, delivered was|was acknowledged and not delivered|may commit",
        ),
    ],
)
@pytest.mark.slow
def test_a_defect_is_found(monkeypatch: Patch, defect: Callable[[Patch], None], complaint: str) -> None:
    defect(monkeypatch)
    with pytest.raises(FuzzFailure, match=complaint):
        run_seeds(range(SEEDS_FOR_A_DEFECT))
