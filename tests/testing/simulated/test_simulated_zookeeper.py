"""The ZooKeeper of a world: what is under way to it, and whose clock it goes by."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coterie.testing import simulate
from coterie.testing.in_process_zookeeper import InProcessSession, InProcessZooKeeper
from coterie.testing.simulated import SimulatedWorld
from coterie.zookeeper.operations import ConnectionLost, Create, Read, Write

LATENCY_S = 0.05
SESSION_MS = 6_000


class Events:
    """Of a session, each with the world's time."""

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world
        self.log: list[tuple[str, float]] = []

    def _note(self, what: str) -> None:
        self.log.append((what, self._world.now_s))

    def changed(self, path: str) -> None:
        self._note(path)

    def suspended(self) -> None:
        self._note("suspended")

    def connected(self) -> None:
        self._note("connected")

    def expired(self) -> None:
        self._note("expired")


@pytest.fixture
def world() -> Iterator[SimulatedWorld]:
    with simulate(seed=1) as world:
        yield world


@pytest.fixture
def zookeeper(world: SimulatedWorld) -> InProcessZooKeeper:
    async def made() -> InProcessZooKeeper:
        return InProcessZooKeeper()

    zookeeper = world.run(made())
    zookeeper.latency_s = lambda: LATENCY_S
    return zookeeper


@pytest.mark.parametrize("ends", ["killed", "cut off"])
def test_an_operation_under_way_when_its_broker_is_killed_is_carried_out(
    world: SimulatedWorld, zookeeper: InProcessZooKeeper, ends: str
) -> None:
    """It was sent; that of a broker that is cut off does not arrive."""
    sessions: list[InProcessSession] = []

    async def create() -> None:
        sessions.append(await zookeeper.open_session(SESSION_MS, Events(world)))
        with pytest.raises(ConnectionLost):
            await sessions[0].apply(Create("/node", "", ephemeral=False))

    process = world.spawn("broker", create)
    process.at_end.append(lambda: sessions[0].die())
    world.advance(LATENCY_S / 2)
    if ends == "killed":
        process.kill()
    else:
        sessions[0].cut_off()
    world.advance(1)
    assert (zookeeper.apply(Read("/node")) is not None) == (ends == "killed")


@pytest.mark.parametrize("rate", [0.5, 1.0, 2.0])
def test_events_and_expiries_come_by_the_clock_of_zookeeper(
    world: SimulatedWorld, zookeeper: InProcessZooKeeper, rate: float
) -> None:
    """Not by that of the broker whose operation was the last."""
    process, events = world.process("broker", rate=rate), Events(world)

    async def opened() -> InProcessSession:
        return await zookeeper.open_session(SESSION_MS, events)

    watcher, broker = world.run(opened()), world.run_in(process, opened())
    world.advance(100)
    world.run_in(process, broker.apply(Create("/node", "")))
    world.run(watcher.apply(Read("/node", watch=True)))
    world.run_in(process, broker.apply(Write("/node", "new", 0)))
    changed_s = world.now_s
    world.advance(1)
    (event,) = events.log
    assert event == ("/node", pytest.approx(changed_s, abs=2 * LATENCY_S))
    world.run(watcher.apply(Read("/node", watch=True)))

    async def cut_off() -> None:
        broker.cut_off()

    world.run_in(process, cut_off())
    cut_off_s = world.now_s
    world.advance(20)
    assert events.log[-1][0] == "/node", events.log
    assert SESSION_MS / 1000 * 2 / 3 - 0.1 <= events.log[-1][1] - cut_off_s <= SESSION_MS / 1000 + 0.2
