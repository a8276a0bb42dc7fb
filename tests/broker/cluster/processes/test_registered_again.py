"""What a broker of a cluster does beside others' nodes: roles that end with its registration."""

from __future__ import annotations

import pytest

from coterie.broker.broker import Broker
from coterie.broker.settings import BrokerSettings
from coterie.broker.storage.topic import NO_LEADER_EPOCH


@pytest.mark.parametrize("epoch", [NO_LEADER_EPOCH, 6])
async def test_groups_of_a_partition_without_a_role_are_left(epoch: int) -> None:
    """Whatever its epoch was; the next controller may give the same role in the same epoch."""
    broker = Broker(BrokerSettings())
    await broker.start("127.0.0.1", 0)
    groups = broker.groups
    groups.ready()
    assert groups.elect(0, 5)
    assert not groups.resign(0, 4)
    assert groups.resign(0, epoch)
    assert groups.elect(0, 5) == (epoch == NO_LEADER_EPOCH)
    await broker.stop()
