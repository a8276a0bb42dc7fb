"""Each fault of `LaterFaults` by itself, without those of all stories: a rule that is off is seen by it, and not without it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from conformance.tests.stories.cluster_switches import (
    a_broker_that_lost_power_stays_in_its_isrs,
    a_reassignment_ends_before_its_target_has_caught_up,
    altered_settings_are_not_applied_to_replicas,
    leader_epochs_are_not_checked,
    logs_are_not_truncated,
    the_controller_reads_settings_once,
    the_isr_is_written_whatever_the_version,
)
from coterie.laboratory.cluster.later_faults import HOLES_FROM, LaterFaults
from coterie.laboratory.cluster.seeds import run_seed_of_clusters
from coterie.laboratory.cluster.story import ClusterStory
from coterie.laboratory.fuzz import FuzzFailure
from coterie.log.partition_log import PartitionLog

pytestmark = pytest.mark.slow

Patch = pytest.MonkeyPatch
FAULTS = ("cut_power_in_reassignment", "slow_disk", "alter_settings", "elect_uncleanly")
SEEDS_FOR_A_DEFECT = 12
FIRST = 70_000


# A fault, and a rule that is off, with a seed that sees it by that fault alone.
DEFECTS: dict[tuple[str, Callable[[Patch], None]], int] = {
    ("cut_power_in_reassignment", a_broker_that_lost_power_stays_in_its_isrs): 70_096,
    ("cut_power_in_reassignment", a_reassignment_ends_before_its_target_has_caught_up): 70_008,
    ("slow_disk", leader_epochs_are_not_checked): 70_019,
    ("slow_disk", the_isr_is_written_whatever_the_version): 70_023,
    ("alter_settings", altered_settings_are_not_applied_to_replicas): 70_000,
    ("alter_settings", the_controller_reads_settings_once): 70_000,
    ("elect_uncleanly", logs_are_not_truncated): 70_000,
}


def run_seeds(seeds: Sequence[int]) -> None:
    for seed in seeds:
        run_seed_of_clusters(seed, minutes=1)


def leave_only(fault: str | None, patch: Patch) -> None:
    """No other fault occurs but lost requests; the administrator does what it does."""
    patch.setattr(ClusterStory, "_strike", lambda story: None)
    for other in FAULTS:
        if other != fault:
            patch.setattr(LaterFaults, other, lambda faults: None)


def test_every_fault_is_in_the_table() -> None:
    assert {fault for fault, _ in DEFECTS} == set(FAULTS) == {name for name in vars(LaterFaults) if name in FAULTS}


def test_the_same_seed_is_the_same_story() -> None:
    assert run_seed_of_clusters(FIRST + 1, minutes=0.5) == run_seed_of_clusters(FIRST + 1, minutes=0.5)


@pytest.mark.parametrize("seed", [80_038, 81_041, 82_200, 83_273, 91_192])
def test_seeds_that_asked_what_no_cluster_can_keep(seed: int) -> None:
    """One copy acknowledged; a look at a leader that there is not; a machine without power that counted as whole; a last whole
    replica that shut down, or that ZooKeeper did not hear, before the sessions of two machines without power had ended."""
    run_seed_of_clusters(seed, minutes=0.5)


def test_most_stories_have_each_fault() -> None:
    reports = [run_seed_of_clusters(seed, minutes=0.5) for seed in range(FIRST + 100, FIRST + 116)]
    for count in ("slow_disks", "cut_reassignments", "alterations"):
        assert sum(getattr(report, count) > 0 for report in reports) >= 4, f"{count}: too seldom to say anything"


@pytest.mark.parametrize(("case", "known"), DEFECTS.items())
def test_a_rule_that_is_off_is_seen(case: tuple[str, Callable[[Patch], None]], known: int, monkeypatch: Patch) -> None:
    """A change of the code changes the stories of seeds: where the known one sees nothing any more, the others are tried."""
    fault, defect = case
    leave_only(fault, monkeypatch)
    run_seed_of_clusters(known, minutes=1)
    defect(monkeypatch)
    with pytest.raises((FuzzFailure, IndexError, KeyError)):
        run_seeds([known, *range(FIRST, FIRST + SEEDS_FOR_A_DEFECT)])


@pytest.mark.parametrize(("case", "known"), DEFECTS.items())
def test_it_is_not_seen_without_the_fault(
    case: tuple[str, Callable[[Patch], None]], known: int, monkeypatch: Patch
) -> None:
    leave_only(None, monkeypatch)
    case[1](monkeypatch)
    run_seed_of_clusters(known, minutes=1)


def test_a_log_that_keeps_what_follows_a_hole_is_seen(monkeypatch: Patch) -> None:
    """A power cut took a page of what was not synced, and not its end: replicas differed, and lost acknowledged records."""
    known = HOLES_FROM + 203
    run_seed_of_clusters(known, minutes=1)

    def open_all(*args: Any, lost_power: bool = False, **others: Any) -> PartitionLog:
        return opened(*args, **others)

    opened = PartitionLog.open
    monkeypatch.setattr(PartitionLog, "open", open_all)
    with pytest.raises(FuzzFailure):
        run_seeds([known, *range(HOLES_FROM, HOLES_FROM + 5 * SEEDS_FOR_A_DEFECT)])
