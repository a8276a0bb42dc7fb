"""A process of the simulation: tasks, timers, connections and listeners under one name, which end together.

Each callback of the event loop carries a context (`contextvars`), and the context names the process: tasks and timers that a
process makes are its own without a word of the program. A killed process runs no further line, no `finally` either.

And the errors in which the simulation of a process may end.
"""

from __future__ import annotations

import asyncio
import contextvars
import enum
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol


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


CURRENT: contextvars.ContextVar[SimulatedProcess | None] = contextvars.ContextVar("coterie_process", default=None)


class ProcessState(enum.Enum):
    """Callbacks run while it is RUNNING, are held while it is PAUSED, and are dropped once it was KILLED."""

    RUNNING = "running"
    PAUSED = "paused"
    ENDED = "ended"  # its main coroutine has returned, or raised
    KILLED = "killed"


class Open(Protocol):
    """A connection, as its process knows it."""

    def owner_died(self) -> None:
        """The process has ended."""


class SimulatedProcess:
    """Made by `Simulation.spawn`. ``host`` is its machine's name on the network; ``rate``: seconds of its clocks in one of the
    world; ``clock_offset_s``: by how much its wall clock is ahead."""

    def __init__(self, loop: VirtualLoop, name: str, host: str, *, rate: float = 1.0) -> None:
        self.name, self.host, self.rate = name, host, rate
        self.clock_offset_s = 0.0
        self.resumed_s = 0.0  # when it last went on, by the world's clock
        self.state = ProcessState.RUNNING
        self.transports: dict[Open, None] = {}  # in the order in which they were opened
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self.main: asyncio.Task[Any] | None = None
        self.at_end: list[Callable[[], None]] = []  # called once it is killed: the files of its disk
        self._loop = loop
        self._held: list[asyncio.Handle] = []  # callbacks that are due while it is paused
        self.context = contextvars.copy_context()
        self.context.run(CURRENT.set, self)

    def __repr__(self) -> str:
        return f"<process {self.name}: {self.state.value}>"

    @property
    def is_alive(self) -> bool:
        """Running or paused."""
        return self.state in (ProcessState.RUNNING, ProcessState.PAUSED)

    def start(self, main: Awaitable[Any]) -> None:
        """Runs the main coroutine as a task of this process."""
        self.main = self._loop.create_task(_awaited(main), name=self.name, context=self.context.copy())
        self.main.add_done_callback(self._main_ended, context=contextvars.Context())

    def _main_ended(self, task: asyncio.Task[Any]) -> None:
        if not self.is_alive:
            return
        self.state = ProcessState.ENDED
        for other in list(self.tasks):
            other.cancel()
        error = None if task.cancelled() else task.exception()
        self._end()
        if error is not None:
            self._loop.process_failed(self, error)

    @property
    def result(self) -> Any:
        """What the main coroutine returned. Raises SimulationError where it has not."""
        if self.main is None or not self.main.done() or self.main.cancelled():
            raise SimulationError(f"{self.name} has no result: it is {self.state.value}")
        return self.main.result()

    def kill(self) -> None:
        """As SIGKILL: no line of it runs any more, and its connections end (the kernel closes them)."""
        if not self.is_alive:
            return
        self.state = ProcessState.KILLED
        self._held.clear()
        self._loop.bury(self)
        self._end()

    def _end(self) -> None:
        """The kernel closes what the process had open."""
        self._loop.close_listeners(self)
        for transport in list(self.transports):
            transport.owner_died()
        for call in self.at_end:
            call()

    def pause(self) -> None:
        """As SIGSTOP: nothing of it runs until `resume`; its connections stay open, and unread."""
        self._require_alive()
        self.state = ProcessState.PAUSED

    def resume(self) -> None:
        """As SIGCONT: what has become due meanwhile runs now."""
        self._require_alive()
        self.state, self.resumed_s = ProcessState.RUNNING, self._loop.now_s
        held, self._held = self._held, []
        self._loop.requeue(held)

    def _require_alive(self) -> None:
        if not self.is_alive:
            raise SimulationError(f"{self.name} does not run any more: it is {self.state.value}")

    def jump_clock(self, seconds: float) -> None:
        """Sets its wall clock forward, or back; the monotonic one does not move."""
        self.clock_offset_s += seconds

    def takes(self, handle: asyncio.Handle) -> bool:
        """Whether a callback runs now: that of a paused process is kept until `resume`, that of a killed one is dropped."""
        if self.state is ProcessState.PAUSED:
            self._held.append(handle)
        return self.state in (ProcessState.RUNNING, ProcessState.ENDED)


class VirtualLoop(asyncio.AbstractEventLoop):
    """What processes and the network use of their event loop (`loop.SimulationLoop`)."""

    now_s: float  # the world's clock

    def call_at_world(
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """As `call_at`, by the world's clock instead of the process's own."""
        raise NotImplementedError

    def bury(self, process: SimulatedProcess) -> None:
        """The process was killed: its tasks run no further, and are kept."""
        raise NotImplementedError

    def requeue(self, handles: Iterable[asyncio.Handle]) -> None:
        """Runs callbacks that were held, in their order."""
        raise NotImplementedError

    def process_failed(self, process: SimulatedProcess, error: BaseException) -> None:
        """The main coroutine raised."""
        raise NotImplementedError

    def close_listeners(self, process: SimulatedProcess) -> None:
        """Of a process that has ended."""
        raise NotImplementedError


async def _awaited(main: Awaitable[Any]) -> Any:
    return await main
