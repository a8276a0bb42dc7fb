"""What the checker of a cluster's stories may not take for a defect."""

from __future__ import annotations

from coterie.client import Admin, KafkaError
from coterie.testing.simulated import SimulatedWorld, WorldBroker, simulate
from coterie_conformance.stories.administration import Administration
from coterie_conformance.stories.cluster_checker import ClusterChecker
from coterie_conformance.stories.history import History
from coterie_conformance.stories.programs import StoryWork

ZOOKEEPER_S = 0.2  # a connection with lost packets


def checked(world: SimulatedWorld) -> tuple[WorldBroker, ClusterChecker]:
    broker = world.broker({"auto.leader.rebalance.enable": "false"}, brokers=3)
    work = StoryWork(broker.bootstrap_servers, History(), seed=0)
    return broker, ClusterChecker(broker.cluster, Administration(work, 3), rebalances_leaders=False)


def test_a_controller_that_has_yet_to_do_something_is_not_at_rest() -> None:
    """Each of the requests writes the partition's state; their client has given up (stories of three brokers, seed 601046)."""
    with simulate(1) as world:
        broker, checker = checked(world)
        broker.create_topic("t", 1)
        broker.cluster.zookeeper.latency_s = lambda: ZOOKEEPER_S
        broker.kill(1)  # a new session for each broker, as slow
        broker.restart(1)
        for number in (2, 3):
            broker.kill(number)
            broker.restart(number)

        async def reassign() -> None:
            settings = {"request.timeout.ms": 500, "default.api.timeout.ms": 500}
            async with Admin({"bootstrap.servers": broker.bootstrap_servers, **settings}) as admin:
                for _ in range(4):
                    try:
                        await admin.alter_partition_reassignments({("t", 0): [3, 2, 1]})
                    except KafkaError:
                        continue

        world.until(lambda: checker.missing() is None, "rest", 60)
        world.spawn("administrator", reassign)
        world.until(lambda: not world.processes["administrator"].is_alive, "the end of the administrator")
        assert "yet to do" in str(checker.missing())
        world.until(lambda: checker.missing() is None, "rest", 60)
        states = checker.states()
        world.advance(4)
        assert checker.states() == states
