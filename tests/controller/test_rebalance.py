"""When a controller looks for brokers that lead too few of their preferred partitions."""

from __future__ import annotations

from coterie.controller import nodes
from coterie.controller.elected.view import ControllerConfig
from coterie.controller.machine import ControllerMachine
from coterie.laboratory.scripts.zookeeper_server import ZooKeeperServer
from coterie.laboratory.world import World
from coterie.replication.states import PartitionState
from coterie.zookeeper import paths
from coterie.zookeeper.operations import Create, Operation, Read, Znode

PARTITION = ("t", 0)
STATE = paths.partition_state(*PARTITION)


def test_changes_without_an_end_do_not_delay_the_rebalance() -> None:
    """Another change comes with each operation, 10 ms apart; the rebalance is due 5 s after the election."""
    server = ZooKeeperServer(World(1))
    session = server.connect(10**9, lambda path: None)
    server.apply(session, Create(paths.broker(2), nodes.broker("b2", 9092, None, 0)))
    server.apply(session, Create(paths.topic("t"), nodes.topic({0: (2, 1)}), ephemeral=False))
    state = PartitionState(1, 0, (1, 2), 0, 0, (2, 1))
    server.apply(session, Create(STATE, nodes.state(state), ephemeral=False))
    machine = ControllerMachine(ControllerConfig(1, nodes.broker("b1", 9092, None, 0)), 0)

    def leader() -> int:
        node = server.apply(session, Read(STATE))
        assert isinstance(node, Znode)
        return nodes.state_of(node, (2, 1)).leader

    for step in range(700):
        effect = machine.next(10 * step)
        result = server.apply(session, effect) if isinstance(effect, Operation) else None
        machine.respond(result)
        machine.changed(nodes.ISR_CHANGES)
        if step == 490:
            assert leader() == 1
    assert leader() == 2
