"""A rebalance of twenty partitions under each protocol, and the rolling migration between them."""

from __future__ import annotations

import pytest

from coterie.laboratory.experiments import handover, migration


@pytest.mark.parametrize("assignor", ["range", "sticky"])
def test_eager_everybody_pauses(assignor: str) -> None:
    cost = handover(assignor)
    assert (cost.protocol, cost.paused, cost.unowned, cost.rebalances) == ("eager", 19, 20, 1)
    assert cost.longest_ms >= 100
    assert len(cost.unowned_ms_by_partition) == 20
    assert min(cost.unowned_ms_by_partition.values()) >= 100


def test_cooperative_nobody_pauses() -> None:
    """The member that gives one of its two partitions up reads the other."""
    cost = handover("cooperative-sticky")
    assert (cost.protocol, cost.paused, cost.unowned, cost.moved, cost.rebalances) == ("cooperative", 0, 1, 1, 2)
    assert cost.unowned_ms < handover("sticky").unowned_ms / 10


def test_two_rolling_bounces() -> None:
    steps = list(migration())
    assert [(s.assignor, s.protocol, s.members, s.refused, s.complete) for s in steps] == [
        ("range", "eager", 3, 0, True),
        ("cooperative-sticky", "eager", 3, 0, True),
        ("cooperative-sticky", "cooperative", 3, 0, True),
    ]


def test_one_bounce_is_too_few() -> None:
    """Members that list only the new assignor are refused while one of the others is still there."""
    steps = list(migration(bounces=1))
    assert steps[-1].refused == 2
