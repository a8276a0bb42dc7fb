"""Clocks of the laboratory's clusters: each machine has its own, which jumps; fresh seeds, and what a clock can break, with its
rule switched off."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from coterie.controller.config_changes import ConfigChanges
from coterie.laboratory.cluster.machine_clocks import OWN_CLOCKS_FROM
from coterie.laboratory.cluster.seeds import run_seed_of_clusters
from coterie.machines.script import Steps
from coterie.zookeeper.operations import Read, Znode
from tests.laboratory.known_seeds import SEEDS_FOR_A_DEFECT, Defect, KnownSeeds

pytestmark = pytest.mark.slow

Patch = pytest.MonkeyPatch
FIRST = OWN_CLOCKS_FROM


def test_fresh_seeds_of_each_story() -> None:
    reports = [run_seed_of_clusters(seed, minutes=0.5) for seed in range(FIRST + 500, FIRST + 504)]
    assert min(r.clock_jumps for r in reports) >= 5, "clocks jump too seldom to say anything"


def notifications_are_deleted_by_the_clock_of_zookeeper(patch: Patch) -> None:
    """As in Kafka: a broker whose clock is ahead deletes what others have not read."""

    ask, delete_old, created_ms = ConfigChanges.ask, ConfigChanges._delete_old, dict[str, int]()

    def noting(self: ConfigChanges, operation: Any) -> Steps[Any]:
        result = yield from ask(self, operation)
        if isinstance(operation, Read) and isinstance(result, Znode):
            created_ms[operation.path.rpartition("/")[2]] = result.created_ms
        return result

    def by_created(self: ConfigChanges) -> Steps[None]:
        self._read_ms = {name: created_ms[name] for name in self._read_ms}
        yield from delete_old(self)

    patch.setattr(ConfigChanges, "ask", noting)
    patch.setattr(ConfigChanges, "_delete_old", by_created)


# Not seen by twelve stories with transactions, and so tested by itself: `steps.restart_timeouts`.
# Each rule that is off, and a seed that sees it (the module known_seeds finds one).
RULES = KnownSeeds(
    {
        notifications_are_deleted_by_the_clock_of_zookeeper: FIRST + 1,
    },
    partial(run_seed_of_clusters, minutes=1),
    range(FIRST, FIRST + SEEDS_FOR_A_DEFECT),
)


@RULES.each()
def test_seeds_see_whether_a_rule_is_off(defect: Defect | None, monkeypatch: Patch) -> None:
    RULES.check(defect, monkeypatch)
