"""Processes of a cluster and the network between them: pauses, cuts between any two, lost requests and lost answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie.laboratory.world import World
from coterie.machines.script import ScriptMachine
from coterie.zookeeper.operations import ConnectionLost, SessionExpired, ZooKeeperError

FOREVER_MS = 10**15
ZOOKEEPER = "zookeeper"
Answer = Callable[[Any], None]


class Network:
    """``cut``: pairs of processes between which nothing passes."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.cut: set[frozenset[str]] = set()

    def is_cut(self, one: str, other: str) -> bool:
        return bool(self.cut) and frozenset((one, other)) in self.cut

    def loses(self, one: str, other: str) -> bool:
        return self.is_cut(one, other) or self.world.chance(self.world.faults.break_probability)


class _Guarded:
    """An action for one life of a process. A closure that may put itself on hold would be a cycle, one for each event: the
    garbage collector took a third of a story's time."""

    __slots__ = ("_action", "_life", "_process")

    def __init__(self, process: Process, life: int, action: Callable[[], None]) -> None:
        self._process, self._life, self._action = process, life, action

    def __call__(self) -> None:
        if self._process.admits(self._life, self):
            self._action()
            self._process.acted()


class Process:
    """``life`` counts its starts; nothing reaches a former life. What arrives while it is paused is handled when it goes on.
    ``clock_offset_ms``: of its wall clock from its monotonic one, which runs at ``clock_rate``."""

    def __init__(self, network: Network, name: str) -> None:
        self.network, self.world, self.name = network, network.world, name
        self.alive = self.paused = False
        self.life = self.clock_offset_ms = 0
        self.clock_rate = 1.0
        self.held: list[Callable[[], None]] = []

    @property
    def now_ms(self) -> int:
        """By its own clock: the wall clock at its start, moved on by the monotonic clock."""
        return self.monotonic_ms + self.clock_offset_ms

    @property
    def monotonic_ms(self) -> int:
        """The process's monotonic clock (ms), which may run slower or faster than the world's."""
        world = self.world
        if self.clock_rate == 1:
            return world.now_ms
        return world.start_ms + int((world.now_ms - world.start_ms) * self.clock_rate)

    def started(self) -> None:
        self.alive, self.paused = True, False
        self.life += 1
        self.held = []

    def guarded(self, action: Callable[[], None], life: int | None = None) -> Callable[[], None]:
        """The action, for the process as it lives now or in that ``life``."""
        return _Guarded(self, self.life if life is None else life, action)

    def admits(self, life: int, action: Callable[[], None]) -> bool:
        """Whether an action of that ``life`` runs now. While the process is paused, the action is held."""
        if not self.alive or self.life != life:
            return False
        if self.paused:
            self.held.append(action)
        return not self.paused

    def acted(self) -> None:
        """Called after each action."""

    def later(self, ms: int, action: Callable[[], None]) -> None:
        """Calls the function in so many ms by the process's own clock."""
        world_ms = ms if self.clock_rate == 1 or ms <= 0 else int(ms / self.clock_rate) + 1
        self.world.after(world_ms, self.guarded(action))

    def resume(self) -> None:
        """Carries out what was held while the process was paused."""
        self.paused = False
        held, self.held = self.held, []
        for run in held:
            run()

    def call(
        self, target: Process, handle: Callable[[Answer], None], answered: Answer, failed: Callable[[], None]
    ) -> None:
        """A request: ``handle`` runs in the target and gets what sends the answer back. Exactly one of the other two is called,
        here, unless this process ends before."""
        call, world = _Call(self, target, handle, answered, failed), self.world
        world.after(world.delay_ms(), call.arrive)
        world.timeout(call)


class _Call:
    """A request under way. It is itself the event of its timeout."""

    __slots__ = ("_answer", "_answered", "_failed", "_handle", "_is_over", "_life", "_source", "_target")

    def __init__(
        self,
        source: Process,
        target: Process,
        handle: Callable[[Answer], None],
        answered: Answer,
        failed: Callable[[], None],
    ) -> None:
        self._source, self._target, self._life, self._is_over = source, target, source.life, False
        self._handle, self._answered, self._failed = handle, answered, failed

    def arrive(self) -> None:
        """The request has arrived at the target."""
        source, target, world = self._source, self._target, self._source.world
        if not target.alive or source.network.is_cut(source.name, target.name):
            world.after(world.faults.notice_ms, self)
        elif not world.chance(world.faults.break_probability):
            if target.paused:
                target.held.append(target.guarded(self._run))
            else:
                self._handle(self._back)
                target.acted()

    def _run(self) -> None:
        self._handle(self._back)

    def _back(self, answer: Any) -> None:
        source = self._source
        if not source.network.loses(source.name, self._target.name):
            self._answer = answer
            source.world.after(source.world.delay_ms(), self._came_back)

    def _came_back(self) -> None:
        self._end(self._came_back, self._return)

    def _return(self) -> None:
        self._answered(self._answer)

    def __call__(self) -> None:
        """No answer comes any more."""
        self._end(self, self._failed)

    def _end(self, event: Callable[[], None], result: Callable[[], None]) -> None:
        """``event``: what is held while the source is paused."""
        source = self._source
        if source.admits(self._life, event):
            if not self._is_over:
                self._is_over = True
                result()
            source.acted()


class ScriptDriver:
    """Carries the ZooKeeper operations of a machine out; ``effect`` gets all its other effects."""

    def __init__(
        self,
        process: Process,
        machine: ScriptMachine,
        operation: type | tuple[type, ...],
        apply: Callable[[Any], tuple[object, int]],
        effect: Callable[[Any], None],
    ) -> None:
        self._process, self.machine, self._operation, self._apply, self._effect = (
            process,
            machine,
            operation,
            apply,
            effect,
        )
        self._armed_ms = -1
        self.settled_until_ms = 0  # while the machine is idle, and time is before it, there is nothing to do

    def pump(self) -> None:
        """Carries out the script's effects until it waits for a response, a time or an input; arms its timer."""
        process, machine = self._process, self.machine
        now_ms, self.settled_until_ms = process.now_ms, FOREVER_MS
        while (effect := machine.next(now_ms)) is not None:
            if isinstance(effect, self._operation):
                self._send(effect)
                return
            self._effect(effect)
            machine.answer()
        due_ms = machine.next_deadline_ms()
        if due_ms is None or machine.finished:
            return
        if not now_ms < self._armed_ms <= due_ms:
            self._armed_ms = max(due_ms, now_ms + 1)
            process.later(self._armed_ms - now_ms, self._rearm)
        self.settled_until_ms = self._armed_ms

    def _rearm(self) -> None:
        self._armed_ms, self.settled_until_ms = -1, 0
        self.pump()

    def _send(self, operation: Any) -> None:
        process, world, network = self._process, self._process.world, self._process.network
        life = process.life

        def back(result: object) -> None:
            if isinstance(result, ZooKeeperError):
                self.machine.refuse(result)
            else:
                self.machine.answer(result)
            self.pump()

        def arrived() -> None:
            if network.is_cut(process.name, ZOOKEEPER):
                world.after(world.faults.notice_ms, process.guarded(lambda: back(ConnectionLost()), life))
                return
            result, ready_ms = self._apply(operation)
            if network.loses(process.name, ZOOKEEPER) and not isinstance(result, SessionExpired):
                world.after(world.faults.notice_ms, process.guarded(lambda: back(ConnectionLost()), life))
            else:
                world.at(ready_ms + world.delay_ms(), process.guarded(lambda: back(result), life))

        world.after(world.delay_ms(), arrived)
