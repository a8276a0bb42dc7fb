"""A process of the laboratory that is driven by a `ScriptMachine`: its life, its pauses, its network, what it reads.

Its requests and their responses pass the world's network; a stalled process finds what came
meanwhile when it goes on; nothing reaches a former life.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from coterie.laboratory.deliveries import Ownership, Reader, TopicPartition
from coterie.laboratory.world import World, WorldFlight
from coterie.machines.script import ScriptMachine

Log = list[tuple[int, str, Any]]  # (time, actor, effect)


class ScriptActor(ABC):
    """``log`` receives every effect, where it is given."""

    machine: ScriptMachine

    def __init__(self, world: World, name: str, ownership: Ownership, reader: Reader, log: Log | None) -> None:
        self.world, self.name, self.ownership, self.reader, self.log = world, name, ownership, reader, log
        self.alive = self.paused = self.cut_off = False
        self.owned: set[TopicPartition] = set()
        self._life = 0
        self._armed_ms = -1
        self._held: list[Callable[[], None]] = []  # inputs of a stalled process, for when it resumes

    # -- what each kind does in its own way -----------------------------------------------------------------------------

    @abstractmethod
    def at_once(self, effect: Any) -> bool:
        """Carries out what needs no network, and answers it; False for what does."""

    @abstractmethod
    def perform(self, effect: Any) -> tuple[object, int]:
        """The server's side of an effect: its response, an exception if it refuses, and when it leaves there."""

    @abstractmethod
    def unreachable(self) -> Exception:
        """The error of a request that cannot reach its server."""

    @abstractmethod
    def ended(self) -> None:
        """The machine is finished: a clean close."""

    # -- a process's life -----------------------------------------------------------------------------------------------

    def begin(self, machine: ScriptMachine) -> None:
        """Starts the process with a machine of its own."""
        self.machine = machine
        self.alive, self.paused, self.cut_off = True, False, False
        self._life += 1
        self._armed_ms = -1
        self._held = []
        self.pump()

    def stop(self) -> None:
        """It is no more."""
        self.reader.stop_all()
        self.own(set())
        self.alive = False

    def stand_still(self, ms: int, go_on: Callable[[], None]) -> None:
        """The whole process, as a collector of garbage or a suspended machine has it."""
        self.reader.read()
        self.paused = True

        def again() -> None:
            self.paused = False
            self.reader.skip()
            held, self._held = self._held, []
            go_on()
            for action in held:
                action()
            self.pump()

        self.later(ms, again)

    def own(self, partitions: set[TopicPartition]) -> None:
        self.ownership.changed(self.name, self.owned, partitions, self.world.now_ms)
        self.owned = partitions

    # -- driving the machine --------------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Carries out the script's effects until it waits for a response or a time."""
        if not self.alive or self.paused:
            return
        while (effect := self.machine.next(self.world.now_ms)) is not None:
            if self.log is not None:
                self.log.append((self.world.now_ms, self.name, effect))
            if not self.at_once(effect):
                self._send(effect)
                return
        if self.machine.finished:
            self.stop()
            self.ended()
        else:
            self._arm()

    def _send(self, effect: Any) -> None:
        world = self.world

        def back(response: object) -> None:
            if self.cut_off or isinstance(response, Exception):
                self.machine.refuse(self.unreachable() if self.cut_off else response)  # type: ignore[arg-type]
            else:
                self.machine.respond(response)

        def arrived() -> None:
            if self.cut_off:
                world.after(world.faults.notice_ms, self.guarded(lambda: back(self.unreachable())))
                return
            response, ready_ms = self.perform(effect)
            delay_ms = world.delay_ms()
            self.flies("response", effect, max(ready_ms, world.now_ms), delay_ms)
            world.at(ready_ms + delay_ms, self.guarded(lambda: back(response)))

        delay_ms = world.delay_ms()
        self.flies("request", effect, world.now_ms, delay_ms)
        self.later(delay_ms, arrived)

    def flies(self, kind: str, message: object, leaves_ms: int, delay_ms: int) -> None:
        """A message of this process is on its way."""
        if self.world.on_flight is not None:
            arrives_ms = None if self.cut_off else leaves_ms + delay_ms
            self.world.on_flight(WorldFlight(leaves_ms, arrives_ms, self.name, kind, message))

    def guarded(self, action: Callable[[], None]) -> Callable[[], None]:
        """For this process only; where it is stalled, once it resumes."""
        life = self._life

        def run() -> None:
            if not self.alive or self._life != life:
                return
            if self.paused:
                self._held.append(action)
                return
            action()
            self.pump()

        return run

    def later(self, ms: int, action: Callable[[], None]) -> None:
        """Calls the function in this process's time, also while it is stalled."""
        life = self._life

        def run() -> None:
            if self.alive and self._life == life:
                action()

        self.world.after(ms, run)

    def _arm(self) -> None:
        due_ms = self.machine.next_deadline_ms()
        if due_ms is None or self.world.now_ms < self._armed_ms <= due_ms:
            return
        self._armed_ms = max(due_ms, self.world.now_ms + 1)

        def fire() -> None:
            self._armed_ms = -1
            self.pump()

        self.later(self._armed_ms - self.world.now_ms, fire)
