"""An event loop of asyncio in virtual time: where nothing is ready, the clock moves to the next timer.

Callbacks run in asyncio's order: first in, first out, timers by their time and then in the order in which they were made. A
callback of a process that was killed is dropped, of one that is paused it is held (`process`).
"""

from __future__ import annotations

import asyncio
import asyncio.base_events
import contextlib
import contextvars
import heapq
import itertools
import random
import warnings
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, TypeVarTuple

from coterie.simulation.network import SimulatedNetwork
from coterie.simulation.process import CURRENT, Deadlock, Escaped, Livelock, ProcessState, SimulatedProcess, VirtualLoop
from coterie.simulation.tls import secured
from coterie.simulation.transport import SimulatedServer

Ts = TypeVarTuple("Ts")
TURN_S = 0.000_001  # that a turn of the loop takes, so that a pause too short for a float's digits ends
_ASYNCIO = str(Path(asyncio.__file__).parent)
LIVELOCK_TURNS, LIVELOCK_S = 100_000, 0.2  # so many turns within so little time
MAX_EXECUTOR_S = 0.002
SPINNING_TURNS = 100  # whose callbacks a Livelock names
LISTED_TASKS = 20  # in an error
CANCELLED_TIMERS = 100  # with fewer the heap keeps them


class SimulationLoop(asyncio.base_events.BaseEventLoop, VirtualLoop):
    """``is_virtual`` is what a program may read of a loop that has a stand-in for the passing of real time, as a thread.
    ``executor_s``: a function in a thread ends within this time."""

    is_virtual = True
    network: SimulatedNetwork
    _ready: Any
    _scheduled: list[
        tuple[float, int, asyncio.TimerHandle]
    ]  # of two that are due together the one that was made first is first

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self.rng = rng
        self.now_s = 0.0
        self.is_over = False
        self.turns = 0
        self.executor_s = MAX_EXECUTOR_S
        self._lively_s, self._lively_turns = 0.0, LIVELOCK_TURNS
        self._spinning: Counter[str] = Counter()
        self._timer_numbers = itertools.count()
        self._cancelled_timers = 0
        self._buried: list[asyncio.Task[Any]] = []
        self._failures: list[tuple[SimulatedProcess, BaseException]] = []
        self._is_enough: Callable[[], bool] = lambda: False
        self.set_task_factory(_new_task)  # type: ignore[arg-type]

    def run_while_not(self, done: Callable[[], bool]) -> None:
        """As `run_forever`, until ``done`` is true, or the loop is stopped. ``done`` is called when nothing is left to run
        before time moves on."""
        self._is_enough = done
        try:
            self.run_forever()
        finally:
            self._is_enough = lambda: False

    # -- time -------------------------------------------------------------------------------------------------------------

    def time(self) -> float:
        """The monotonic clock of the process that calls, in seconds."""
        process = CURRENT.get()
        return self.now_s if process is None else self.now_s * process.rate

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """``when`` is of the clock of the process that calls."""
        process = CURRENT.get()
        return self.call_at_world(when if process is None else when / process.rate, callback, *args, context=context)

    def call_at_world(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """``when`` is of the world's clock."""
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        if self.is_over:
            return timer
        heapq.heappush(self._scheduled, (when, next(self._timer_numbers), timer))
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        self._cancelled_timers += 1

    def _run_once(self) -> None:
        if self._failures:
            return
        if self._cancelled_timers > CANCELLED_TIMERS and self._cancelled_timers * 2 > len(self._scheduled):
            self._drop_cancelled_timers()
        self.now_s += TURN_S
        ready = self._ready
        if not ready:
            self._move_on()
        self.turns += 1
        if self.turns >= self._lively_turns:
            self._notice_livelock()
        scheduled, now_s = self._scheduled, self.now_s
        while scheduled and scheduled[0][0] <= now_s:
            timer = heapq.heappop(scheduled)[2]
            timer._scheduled = False  # type: ignore[attr-defined]
            ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                process = handle._context.get(CURRENT)
                if process is None or process.state is ProcessState.RUNNING or process.takes(handle):
                    handle._run()
        if not ready and self._is_enough():
            self.stop()

    def _move_on(self) -> None:
        """To the next timer; time does not pass for those of the dead. Raises Deadlock where there is none."""
        scheduled = self._scheduled
        while scheduled:
            when, _, timer = scheduled[0]
            if not timer.cancelled() and not _is_dead(timer):
                self.now_s = max(self.now_s, when)
                return
            heapq.heappop(scheduled)
            self._cancelled_timers -= timer.cancelled()
            timer._scheduled = False  # type: ignore[attr-defined]
        if not self._stopping:  # type: ignore[attr-defined]
            raise Deadlock(f"nothing is scheduled after {self.now_s:.3f} s. {self._waiting()}")

    def _notice_livelock(self) -> None:
        """Once in LIVELOCK_TURNS; where little time has passed, also in the SPINNING_TURNS after, whose callbacks spin."""
        if self.now_s - self._lively_s > LIVELOCK_S:
            self._lively_s, self._lively_turns = self.now_s, self.turns + LIVELOCK_TURNS
            self._spinning.clear()
            return
        self._spinning.update(_what_runs(handle) for handle in self._ready)
        if self.turns >= self._lively_turns + SPINNING_TURNS:
            often = "\n  ".join(f"{what} ({count} times)" for what, count in self._spinning.most_common(LISTED_TASKS))
            raise Livelock(
                f"{LIVELOCK_TURNS} turns of the loop in {LIVELOCK_S} s, at {self.now_s:.3f} s. "
                f"In the last {SPINNING_TURNS} turns ran:\n  {often}\n{self._waiting()}"
            )

    def _drop_cancelled_timers(self) -> None:
        self._scheduled = [entry for entry in self._scheduled if not entry[2].cancelled()]
        heapq.heapify(self._scheduled)
        self._cancelled_timers = 0

    # -- processes --------------------------------------------------------------------------------------------------------

    def bury(self, process: SimulatedProcess) -> None:
        """Keeps the tasks of a killed process, so that no `finally` of theirs runs when they are collected."""
        for task in process.tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            self._buried.append(task)

    def close_listeners(self, process: SimulatedProcess) -> None:
        """Of a process that has ended."""
        self.network.close_listeners(process)

    def end(self) -> None:
        """Closes the coroutines of killed processes. Their `finally` runs now, and has no effect."""
        self.is_over = True
        asyncio.set_event_loop(
            None
        )  # ensure_future in a `finally` would take a real loop, and its task would never run
        with warnings.catch_warnings():
            # Of coroutines that never began, and of what a `finally` would begin.
            warnings.simplefilter("ignore", RuntimeWarning)
            for task in self._buried:
                with contextlib.suppress(BaseException):
                    task.get_coro().close()
            self._buried.clear()
        self.close()

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if not self.is_over:
            self._ready.append(handle)
        return handle

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Complaints of objects that outlive the world concern nobody."""
        if not self.is_over:
            super().call_exception_handler(context)

    def requeue(self, handles: Iterable[asyncio.Handle]) -> None:
        """Callbacks that were held run in their order."""
        self._ready.extend(handles)

    def process_failed(self, process: SimulatedProcess, error: BaseException) -> None:
        """The run ends with it."""
        self._failures.append((process, error))
        self.stop()

    def take_failure(self) -> tuple[SimulatedProcess, BaseException] | None:
        """The first process that failed, once."""
        failures, self._failures = self._failures, []
        return failures[0] if failures else None

    def _waiting(self) -> str:
        """The tasks that wait, for an error."""
        tasks = sorted(
            (task for task in asyncio.all_tasks(self) if task not in self._buried), key=lambda task: task.get_name()
        )
        lines = [_where(task) for task in tasks[:LISTED_TASKS]]
        return "No task waits" if not lines else "Waiting tasks:\n  " + "\n  ".join(lines)

    # -- what asyncio needs of a loop --------------------------------------------------------------------------------------

    def _process_events(self, event_list: object) -> None:
        """There are none but timers."""

    def _write_to_self(self) -> None:
        """Another thread's `call_soon_threadsafe`: there is no other thread."""

    async def create_server(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | Sequence[str] | None = None,
        port: int | None = None,
        **options: Any,
    ) -> SimulatedServer:
        """Listens on a host of the simulated network. Raises OSError for an address in use."""
        _refuse_socket(options)
        assert host is None or isinstance(host, str), "one address"
        context = options.get("ssl")

        def accept() -> asyncio.BaseProtocol:
            protocol = protocol_factory()
            return secured(self, protocol, context, None, options) if context else protocol

        return self.network.listen(accept, host, port or 0, accepts=options.get("start_serving", True))

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        **options: Any,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Connects over the simulated network. Raises OSError as a real connect, and as a handshake of TLS."""
        _refuse_socket(options)
        if host is None or port is None:
            raise Escaped("create_connection needs a host and a port: a real socket cannot be used in a simulation")
        context = options.get("ssl")
        if not context:
            return await self.network.connect(protocol_factory, host, port)
        protocol, handshake = protocol_factory(), self.create_future()
        options.setdefault("server_hostname", host)
        outer = secured(self, protocol, context, handshake, options)
        raw, _ = await self.network.connect(lambda: outer, host, port, is_private=True)
        try:
            await handshake
        except BaseException:
            raw.close()
            raise
        return outer._app_transport, protocol

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> list[Any]:
        """A host is its own address. Raises socket.gaierror for one that the network does not have."""
        await asyncio.sleep(self.network.latency_s())
        return [(2, 1, 6, "", (self.network.resolve(str(host)), int(port or 0)))]

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Carried out in the loop, after a while: a thread of its own would make its own order."""
        future = self.create_future()

        def run() -> None:
            if future.cancelled():
                return
            try:
                future.set_result(func(*args))
            except Exception as error:
                future.set_exception(error)

        self.call_later(self.rng.uniform(0, self.executor_s), run)
        return future

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """There is none."""

    def add_signal_handler(self, sig: int, callback: Callable[[*Ts], object], *args: *Ts) -> None:
        """Signals are of the real process; `SimulatedProcess.kill` ends a simulated one."""

    def remove_signal_handler(self, sig: int) -> bool:
        """None was added."""
        return False


def _refuse_socket(options: dict[str, Any]) -> None:
    if options.get("sock") is not None:
        raise Escaped("a real socket was given to the simulated loop; give it a host and a port")


def _new_task(loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any], **options: Any) -> asyncio.Task[Any]:
    context = options.get("context")
    process = CURRENT.get() if context is None else context.get(CURRENT)
    assert isinstance(loop, SimulationLoop), "its factory"
    if loop.is_over:  # a `finally` that runs when its coroutine is closed
        coro.close()
    task: asyncio.Task[Any] = asyncio.Task(coro, loop=loop, **options)
    if process is not None:
        process.tasks[task] = None
        task.add_done_callback(_forget, context=process.context)
    return task


def _forget(task: asyncio.Task[Any]) -> None:
    process = CURRENT.get()
    if process is not None:
        process.tasks.pop(task, None)


def _is_dead(handle: asyncio.Handle) -> bool:
    context: contextvars.Context = handle._context  # type: ignore[attr-defined]
    process = context.get(CURRENT)
    return process is not None and process.state is ProcessState.KILLED


def _what_runs(handle: asyncio.Handle) -> str:
    """A task with the line where it goes on, or another callback."""
    callback = handle._callback  # type: ignore[attr-defined]
    task = getattr(callback, "__self__", None)
    return _where(task) if isinstance(task, asyncio.Task) else f"a callback: {callback!r}"


def _where(task: asyncio.Task[Any]) -> str:
    """Of a task its name and the line where it waits: the innermost outside asyncio."""
    frame: FrameType | None = None
    awaited: Any = task.get_coro()
    while awaited is not None:
        inner = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if inner is not None and (frame is None or not inner.f_code.co_filename.startswith(_ASYNCIO)):
            frame = inner
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    line = "at its end" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
    return f"{task.get_name()}: {line}"
