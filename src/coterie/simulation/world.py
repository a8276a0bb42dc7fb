"""A world: the loop, its network and processes, and the seed from which all that is random comes."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, TypeVar

from coterie.simulation.disk import Disk
from coterie.simulation.escapes import EPOCH_S, Escapes
from coterie.simulation.loop import SimulationLoop
from coterie.simulation.network import SimulatedNetwork
from coterie.simulation.process import ProcessFailed, SimulatedProcess, SimulationError

T = TypeVar("T")
LIMIT_S = 300.0  # of virtual time, for a wait that names none


class Simulation:
    """Use it in a with-block. Time passes while one of `run`, `advance` and `until` runs; between these calls the world stands.
    The same seed and the same calls give the same run, whose `trace` is the digest of all that passed on the network."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self._trace = hashlib.blake2b(digest_size=16)
        self.loop = SimulationLoop(random.Random(self.rng.getrandbits(64)))
        self.network = SimulatedNetwork(self.loop, random.Random(self.rng.getrandbits(64)), self._trace.update)
        self.loop.network = self.network
        self.processes: dict[str, SimulatedProcess] = {}
        self.disks: dict[str, Disk] = {}
        self.clock_rates: dict[str, float] = {}  # of hosts, for the processes that are made from now on
        self._clock_offsets_s: dict[str, float] = {}
        self._escapes = Escapes(self.loop, random.Random(self.rng.getrandbits(64)))
        self._context_process = SimulatedProcess(self.loop, "test", "localhost")
        self.network.add_host("localhost")

    def __enter__(self) -> Simulation:
        self._escapes.install()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends every process and gives the real clock back."""
        for process in [*self.processes.values(), self._context_process]:
            process.kill()
        self.loop.end()
        self._escapes.remove()

    # -- time -------------------------------------------------------------------------------------------------------------

    @property
    def now_s(self) -> float:
        """Virtual seconds since the world's beginning."""
        return self.loop.now_s

    def now_ms(self) -> int:
        """The wall clock, without any process's offset, in milliseconds since 1970."""
        return int((EPOCH_S + self.loop.now_s) * 1000)

    @property
    def trace(self) -> str:
        """The digest of every piece that was delivered so far, with its time: equal for equal runs."""
        return self._trace.hexdigest()

    def run(self, work: Awaitable[T], timeout_s: float = LIMIT_S) -> T:
        """Runs a coroutine of the test to its end, and the world with it. Raises what it raises, TimeoutError after
        ``timeout_s`` of virtual time, and SimulationError."""

        async def bounded() -> T:
            try:
                async with asyncio.timeout(timeout_s) as limit:
                    return await work
            except TimeoutError as error:
                if limit.expired():
                    raise TimeoutError(
                        f"what the test runs has not ended after {timeout_s:g} virtual seconds"
                    ) from error
                raise

        with self._escapes.running():
            task = self.loop.create_task(bounded(), name="test")
            task.add_done_callback(self._stop)
            try:
                self.loop.run_forever()
                self._raise_failure()
            except BaseException:
                task.remove_done_callback(self._stop)
                task.cancel()
                raise
        return task.result()

    def _stop(self, _: object) -> None:
        self.loop.stop()

    @property
    def is_running(self) -> bool:
        """Whether the caller runs within the world's loop."""
        return self.loop.is_running()

    def advance(self, seconds: float) -> None:
        """Lets so much time pass. Raises SimulationError."""
        self.run(_sleep(seconds), seconds + 1.0)

    def until(self, done: Callable[[], T], wanted: str, timeout_s: float = LIMIT_S) -> T:
        """Lets time pass until ``done``, called before each step of it, returns something true; returns that. Raises
        TimeoutError "WANTED after N s", and SimulationError."""
        result: list[T] = []

        def stops() -> bool:
            if value := done():
                result.append(value)
            return bool(result)

        end = self.loop.call_at_world(self.loop.now_s + timeout_s, self.loop.stop)
        with self._escapes.running():
            if not stops():
                self.loop.run_while_not(stops)
        end.cancel()
        self._raise_failure()
        if not result:
            raise TimeoutError(f"{wanted} after {timeout_s:g} s")
        return result[0]

    def _raise_failure(self) -> None:
        failure = self.loop.take_failure()
        if failure is not None:
            process, error = failure
            raise ProcessFailed(f"{process.name} failed at {self.now_s:.3f} s (seed {self.seed}): {error!r}") from error

    # -- processes --------------------------------------------------------------------------------------------------------

    def spawn(
        self, name: str, main: Callable[..., Awaitable[Any]], *arguments: Any, host: str | None = None
    ) -> SimulatedProcess:
        """Starts ``main(*arguments)`` in a process of its own, on the host of its name unless another is given. A process that
        raises ends the run with ProcessFailed. Raises TypeError for a coroutine in the place of its function."""
        if asyncio.iscoroutine(main):
            main.close()
            raise TypeError(
                f"spawn calls a coroutine function in the process {name}: give it the function and its arguments"
            )
        process = self.process(name, host)
        process.start(_begun(main, arguments))
        return process

    def process(self, name: str, host: str | None = None, *, rate: float | None = None) -> SimulatedProcess:
        """A process without a main coroutine, for `run_in`. A name can be used again once its process has ended."""
        former = self.processes.get(name)
        if former is not None and former.is_alive:
            raise SimulationError(f"there is a process {name} already")
        host = host or name
        self.network.add_host(host)
        rate = self.clock_rates.get(host, 1.0) if rate is None else rate
        process = self.processes[name] = SimulatedProcess(self.loop, name, host, rate=rate)
        process.clock_offset_s = self._clock_offsets_s.get(host, 0.0)
        return process

    def jump_clock(self, host: str, seconds: float) -> None:
        """Sets the machine's wall clock forward, or back, for all its processes to come."""
        self._clock_offsets_s[host] = self._clock_offsets_s.get(host, 0.0) + seconds
        for process in self.processes.values():
            if process.host == host:
                process.jump_clock(seconds)

    def run_in(self, process: SimulatedProcess, work: Awaitable[T], timeout_s: float = LIMIT_S) -> T:
        """As `run`, for a coroutine of that process."""
        return self.run(joined(self.loop.create_task(_awaited(work), context=process.context.copy())), timeout_s)

    def disk(self, host: str) -> Disk:
        """The host's disk, which outlives its processes."""
        if host not in self.disks:
            self.disks[host] = Disk(random.Random(self.rng.getrandbits(64)), self.now_ms)
        return self.disks[host]

    def power_cut(self, host: str) -> None:
        """The host's processes end without a word to their peers, and its disk loses what was not synced."""
        self.network.power_off(host)
        for process in [each for each in self.processes.values() if each.host == host]:
            process.kill()
        self.disk(host).power_cut()

    def power_on(self, host: str) -> None:
        """The host can run processes again."""
        self.network.power_on(host)


async def _sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def _begun(main: Callable[..., Awaitable[Any]], arguments: tuple[Any, ...]) -> Any:
    return await main(*arguments)


async def _awaited(work: Awaitable[T]) -> T:
    return await work


async def joined(task: asyncio.Task[T]) -> T:
    """The task's result. The waiting coroutine can be cancelled also where the task is of a process that is paused or killed,
    which never ends."""
    try:
        return await asyncio.shield(task)
    finally:
        task.cancel()
