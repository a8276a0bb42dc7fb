"""What a simulation reports of the program that it runs."""

from __future__ import annotations


class SimulationError(RuntimeError):
    """Of the program or the test, never of the network that is simulated."""


class Deadlock(SimulationError):
    """Nothing is scheduled any more, and something waits."""


class Livelock(SimulationError):
    """The program takes turns without end while no time passes."""


class Escaped(SimulationError):
    """The program used what is outside of the simulation: a thread, a real socket, a blocking sleep."""


class ProcessFailed(SimulationError):
    """The main coroutine of a process ended with an error, which is the cause."""
