"""Monotonic clocks of the laboratory's clusters that run too fast or too slow: fresh seeds, and rules that a drift alone can
break, switched off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from coterie.laboratory.cluster.broker import ClusterBroker
from coterie.laboratory.cluster.machine_clocks import DRIFTING_CLOCKS_FROM, MachineClocks
from coterie.laboratory.cluster.seeds import run_seed_of_clusters
from coterie.laboratory.fuzz import FuzzFailure
from coterie.replication.leader import Leader
from coterie.replication.states import ReplicaFetch

pytestmark = pytest.mark.slow

Patch = pytest.MonkeyPatch
FIRST = DRIFTING_CLOCKS_FROM
SEEDS_FOR_A_DEFECT = 12


def test_fresh_seeds_of_each_story() -> None:
    reports = [run_seed_of_clusters(seed, minutes=0.5) for seed in range(FIRST + 500, FIRST + 504)]
    assert all(r.acknowledged > 100 for r in reports), "too little is acknowledged to say anything"


def followers_are_timed_by_their_own_clocks(patch: Patch) -> None:
    """As if a fetch carried the time at which it was sent. Without wall clocks that jump."""
    brokers: dict[int, ClusterBroker] = {}
    start, fetch = ClusterBroker.start, Leader.fetch

    def noted(broker: ClusterBroker) -> None:
        brokers[broker.number] = broker
        start(broker)

    def by_sender(leader: Leader, request: ReplicaFetch, _: int) -> Any:
        return fetch(leader, request, brokers[request.replica_id].now_ms)

    patch.setattr(ClusterBroker, "start", noted)
    patch.setattr(Leader, "fetch", by_sender)


# Each rule that is off, and a seed that sees it (tests/laboratory/known_seeds finds one).
DEFECTS: dict[Callable[[Patch], None], int] = {
    followers_are_timed_by_their_own_clocks: FIRST + 1,
}


def run_seeds(seeds: Sequence[int]) -> None:
    for seed in seeds:
        run_seed_of_clusters(seed, minutes=1)


def without_jumps(patch: Patch) -> None:
    patch.setattr(MachineClocks, "jump", lambda clocks: None)


@pytest.mark.parametrize(("defect", "known"), DEFECTS.items())
def test_a_rule_that_is_off_is_seen_by_the_drift_alone(
    defect: Callable[[Patch], None], known: int, monkeypatch: Patch
) -> None:
    """A change of the code changes the stories of seeds: where the known one sees nothing any more, the others are tried."""
    without_jumps(monkeypatch)
    run_seeds([known])
    defect(monkeypatch)
    with pytest.raises(FuzzFailure):
        run_seeds([known, *range(FIRST, FIRST + SEEDS_FOR_A_DEFECT)])


@pytest.mark.parametrize(("defect", "known"), DEFECTS.items())
def test_it_is_not_seen_without_the_drift(defect: Callable[[Patch], None], known: int, monkeypatch: Patch) -> None:
    without_jumps(monkeypatch)
    monkeypatch.setattr(MachineClocks, "drift", lambda clocks, broker: None)
    defect(monkeypatch)
    run_seeds([known])
