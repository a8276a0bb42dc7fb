"""Programs of asyncio in virtual time: one event loop, a network between hosts, disks, processes that can be killed, one seed.

The program runs unchanged: sleeps and timeouts take no real time, and all that is random comes from the seed, so that a run
can be repeated. What would leave the simulation (a thread, a real socket, `time.sleep`) is an error with its stack.

    with Simulation(seed=1) as world:
        server = world.spawn("server", serve)
        client = world.spawn("client", ask, "server", 7000)
        world.advance(30)
        server.kill()
        world.until(lambda: client.is_done, "the client's end")

It knows nothing of Kafka; `coterie.testing.simulate` adds brokers. FoundationDB's simulator, TigerBeetle's VOPR, madsim and
trio's `MockClock` prove programs in this way.
"""

from __future__ import annotations

from coterie.simulation.network import SimulatedNetwork
from coterie.simulation.process import Deadlock, Escaped, Livelock, ProcessFailed, SimulatedProcess, SimulationError
from coterie.simulation.world import Simulation

__all__ = [
    "Deadlock",
    "Escaped",
    "Livelock",
    "SimulatedNetwork",
    "SimulatedProcess",
    "ProcessFailed",
    "SimulationError",
    "Simulation",
]
