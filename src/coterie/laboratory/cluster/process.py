"""Processes of a cluster and the network between them: pauses, cuts between any two, lost requests and lost answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie.laboratory.world import World
from coterie.script import ScriptMachine
from coterie.zookeeper.operations import ConnectionLost, SessionExpired, ZooKeeperError

REQUEST_TIMEOUT_MS = 5_000
ZOOKEEPER = "zookeeper"
Answer = Callable[[Any], None]


class Network:
    """``cut``: pairs of processes between which nothing passes."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.cut: set[frozenset[str]] = set()

    def is_cut(self, one: str, other: str) -> bool:
        return frozenset((one, other)) in self.cut

    def loses(self, one: str, other: str) -> bool:
        return self.is_cut(one, other) or self.world.chance(self.world.faults.break_probability)


class _Guarded:
    """An action for one life of a process. A closure that may put itself on hold would be a cycle, one for each event: the
    garbage collector took a third of a story's time."""

    __slots__ = ("_action", "_life", "_process")

    def __init__(self, process: Process, life: int, action: Callable[[], None]) -> None:
        self._process, self._life, self._action = process, life, action

    def __call__(self) -> None:
        process = self._process
        if not process.alive or process.life != self._life:
            return
        if process.paused:
            process.held.append(self)
            return
        self._action()
        process.acted()


class Process:
    """``life`` counts its starts; nothing reaches a former life. What arrives while it is paused is handled when it goes on."""

    def __init__(self, network: Network, name: str) -> None:
        self.network, self.world, self.name = network, network.world, name
        self.alive = self.paused = False
        self.life = 0
        self.held: list[Callable[[], None]] = []

    def started(self) -> None:
        self.alive, self.paused = True, False
        self.life += 1
        self.held = []

    def guarded(self, action: Callable[[], None], life: int | None = None) -> Callable[[], None]:
        """The action, for the process as it lives now or in that ``life``."""
        return _Guarded(self, self.life if life is None else life, action)

    def acted(self) -> None:
        """Called after each action."""

    def later(self, ms: int, action: Callable[[], None]) -> None:
        self.world.after(ms, self.guarded(action))

    def resume(self) -> None:
        self.paused = False
        held, self.held = self.held, []
        for run in held:
            run()

    def call(
        self, target: Process, handle: Callable[[Answer], None], answered: Answer, failed: Callable[[], None]
    ) -> None:
        """A request: ``handle`` runs in the target and gets what sends the answer back. Exactly one of the other two is called,
        here, unless this process ends before."""
        world, network, life = self.world, self.network, self.life
        done = False

        def once(action: Callable[[], None]) -> Callable[[], None]:
            def run() -> None:
                nonlocal done
                if not done:
                    done = True
                    action()

            return self.guarded(run, life)

        def back(answer: Any) -> None:
            if not network.loses(self.name, target.name):
                world.after(world.delay_ms(), once(lambda: answered(answer)))

        def arrive() -> None:
            if not target.alive or network.is_cut(self.name, target.name):
                world.after(world.faults.notice_ms, once(failed))
            elif not world.chance(world.faults.break_probability):
                target.guarded(lambda: handle(back))()

        world.after(world.delay_ms(), arrive)
        world.after(REQUEST_TIMEOUT_MS, once(failed))


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

    def pump(self) -> None:
        world, process, machine = self._process.world, self._process, self.machine
        while (effect := machine.next(world.now_ms)) is not None:
            if isinstance(effect, self._operation):
                self._send(effect)
                return
            self._effect(effect)
            machine.answer()
        due_ms = machine.next_deadline_ms()
        if due_ms is not None and not machine.finished and not world.now_ms < self._armed_ms <= due_ms:
            self._armed_ms = max(due_ms, world.now_ms + 1)
            process.later(self._armed_ms - world.now_ms, self._rearm)

    def _rearm(self) -> None:
        self._armed_ms = -1
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
