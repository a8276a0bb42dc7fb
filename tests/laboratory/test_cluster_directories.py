"""Log directories of the laboratory's clusters that fail while their brokers live: fresh seeds, and each rule by which others
lead then, switched off, which seeds must see."""

from __future__ import annotations

from functools import partial

import pytest

from coterie.controller.elected.office import Office
from coterie.controller.elected.view import ControllerView
from coterie.laboratory.cluster.broker import ClusterBroker
from coterie.laboratory.cluster.directory_broker import DirectoryBroker
from coterie.laboratory.cluster.directory_faults import FAILING_DIRECTORIES_FROM
from coterie.laboratory.cluster.seeds import run_seed_of_clusters
from tests.laboratory.known_seeds import SEEDS_FOR_A_DEFECT, Defect, KnownSeeds

pytestmark = pytest.mark.slow

Patch = pytest.MonkeyPatch
FIRST = FAILING_DIRECTORIES_FROM


def test_fresh_seeds_of_each_story() -> None:
    reports = [run_seed_of_clusters(seed, minutes=0.5) for seed in range(FIRST + 500, FIRST + 504)]
    assert sum(r.failed_directories for r in reports) > 6, "directories fail too seldom to say anything"


def a_broker_goes_on_without_its_directory(patch: Patch) -> None:
    patch.setattr(DirectoryBroker, "_checkpoint", ClusterBroker._checkpoint)


def logs_are_trusted_after_an_fsync_that_failed(patch: Patch) -> None:
    fail_fsync = DirectoryBroker.fail_fsync

    def trusting(broker: DirectoryBroker) -> None:
        fail_fsync(broker)
        broker.lost_power = False

    patch.setattr(DirectoryBroker, "fail_fsync", trusting)


def the_controller_ignores_storage_errors(patch: Patch) -> None:
    patch.setattr(Office, "_roles_assumed", lambda office, response: iter(()))


def the_controller_reads_no_notifications(patch: Patch) -> None:
    patch.setattr(Office, "_log_dirs_failed", lambda office: iter(()))


def replicas_in_a_failed_directory_are_elected(patch: Patch) -> None:
    patch.setattr(ControllerView, "is_in_offline_dir", lambda view, broker, partition: False)


# Each rule that is off, and a seed that sees it (the module known_seeds finds one).
RULES = KnownSeeds(
    {
        a_broker_goes_on_without_its_directory: FIRST + 1,
        logs_are_trusted_after_an_fsync_that_failed: FIRST,
        the_controller_ignores_storage_errors: FIRST + 3,
        the_controller_reads_no_notifications: FIRST + 1,
        replicas_in_a_failed_directory_are_elected: FIRST,
    },
    partial(run_seed_of_clusters, minutes=1),
    range(FIRST, FIRST + SEEDS_FOR_A_DEFECT),
)


@RULES.each()
def test_seeds_see_whether_a_rule_is_off(defect: Defect | None, monkeypatch: Patch) -> None:
    RULES.check(defect, monkeypatch)
