"""High-level consumers under random trouble: while sessions live nobody shares a partition, and in the end all is read."""

from __future__ import annotations

import pytest

from coterie.laboratory.deliveries import Delivered, Ownership, Reader
from coterie.laboratory.scripts.zookeeper_actor import ZooKeeperActor
from coterie.laboratory.scripts.zookeeper_server import ZooKeeperServer
from coterie.laboratory.world import World
from coterie.zookeeper import paths
from coterie.zookeeper.consumer import ConnectorConfig
from coterie.zookeeper.operations import Create, List, Write

SESSION_MS = 6_000
TROUBLES = 60


class Group:
    """A ZooKeeper, a registered broker, and up to six consumers of a topic that grows."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.server = ZooKeeperServer(self.world)
        self.admin = self.server.connect(10**9, lambda _: None)
        self.server.apply(self.admin, Create(paths.broker(1), paths.broker_address("h", 1, 0)))
        self.partitions = 0
        self.grow(self.world.between(1, 12))
        self.ownership, self.delivered = Ownership(), Delivered()
        self.actors: list[ZooKeeperActor] = []
        self.came = 0

    def grow(self, more: int) -> None:
        self.partitions += more
        topics = paths.partitions({p: [1] for p in range(self.partitions)})
        self.server.apply(self.admin, Write(paths.topic("t"), topics))

    def add(self) -> None:
        self.came += 1
        config = ConnectorConfig("g", f"C{self.came:03}", {"t": self.world.between(1, 3)}, rebalance_max_retries=30)
        reader = Reader(self.world, 10, self.delivered)
        actor = ZooKeeperActor(self.world, self.server, config, SESSION_MS, self.ownership, reader)
        self.actors.append(actor)
        actor.start()

    def trouble(self) -> None:
        alive = [a for a in self.actors if a.alive]
        kind = self.world.random.choice(["add", "crash", "leave", "pause", "cut", "grow", "nothing"])
        if kind == "add" and len(alive) < 6:
            self.add()
        elif kind == "grow" and self.partitions < 30:
            self.grow(self.world.between(1, 3))
        elif alive and kind in ("crash", "leave"):
            getattr(self.world.random.choice(alive), kind)()
        elif alive and kind in ("pause", "cut"):
            getattr(self.world.random.choice(alive), kind)(self.world.between(100, 20_000))

    def check(self) -> None:
        """Of those whose session lives no two read the same."""
        readers: dict[tuple[str, int], str] = {}
        for actor in self.actors:
            if actor.alive and not actor._session.expired and not actor.machine.is_expired:
                for partition in actor.owned:
                    assert partition not in readers, f"{partition}: {readers[partition]} and {actor.name}"
                    readers[partition] = actor.name


@pytest.mark.parametrize("seed", range(40))
def test_trouble_ends_well(seed: int) -> None:
    group = Group(seed)
    group.add()
    for _ in range(TROUBLES):
        group.trouble()
        for _ in range(10):
            group.world.run_until(group.world.now_ms + group.world.between(1, 600))
            group.check()
    if not any(a.alive for a in group.actors):
        group.add()
    group.world.run_until(group.world.now_ms + 120_000)
    group.check()
    alive = [a for a in group.actors if a.alive]
    read = sorted(p for a in alive for p in a.owned)
    assert read == [("t", p) for p in range(group.partitions)]
    assert all(not a.failures for a in alive)
    names = group.server.apply(group.admin, List(paths.members("g")))
    assert names == sorted(a.name for a in alive)
