"""Scenarios of consumers that are driven by scripts: what happens to a group, and every step that follows.

The network takes 1 ms each way, so that the order of everything is fixed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

from coterie.laboratory.deliveries import Delivered, Ownership, TopicPartition
from coterie.laboratory.scripts.script_actor import Log
from coterie.laboratory.world import NetworkFaults, World
from coterie_conformance.scenarios.groups.scenario import run_step

GROUP = "g"
RECORDS_PER_S = 10
Verb = Callable[[list[str], dict[str, str]], None]


class ScriptConsumer(Protocol):
    """The faults that every kind of consumer supports."""

    @property
    def owned(self) -> set[TopicPartition]: ...
    def crash(self) -> None: ...
    def leave(self) -> None: ...
    def pause(self, ms: int) -> None: ...
    def cut(self, ms: int) -> None: ...


class ScriptScenario(ABC):
    """One scenario's world."""

    def __init__(self) -> None:
        self.world = World(1)
        self.world.faults = NetworkFaults(1, 1, notice_ms=500)
        self.ownership, self.delivered = Ownership(), Delivered()
        self.consumers: dict[str, Any] = {}
        self.log: Log = []
        self.trace: list[str] = []
        self.shown_effects: tuple[type, ...] = (object,)  # kinds of effects
        self.verbs: dict[str, Verb] = {
            "kill": lambda words, _: self._actor(words[0]).crash(),
            "close": lambda words, _: self._actor(words[0]).leave(),
            "pause": lambda words, _: self._actor(words[0]).pause(int(words[1])),
            "cut": lambda words, _: self._actor(words[0]).cut(int(words[1])),
            "advance": lambda words, _: self.world.run_until(self.world.now_ms + int(words[0])),
            "duplicates": lambda words, _: self.trace.append(str(self.delivered.duplicates)),
        }

    @abstractmethod
    def effect_text(self, effect: Any) -> str:
        """An effect in a few words."""

    def step(self, line: str) -> list[str]:
        """Runs one step; returns its trace."""
        self.trace, before = [], len(self.log)
        run_step(self.verbs, line)
        since = [item for item in self.log[before:] if isinstance(item[2], self.shown_effects)]
        printed = [f"@{at - self.world.start_ms} {who}: {self.effect_text(effect)}" for at, who, effect in since]
        return printed + self.trace

    def readers(self) -> dict[TopicPartition, list[str]]:
        """The readers of each partition, by name."""
        readers: dict[TopicPartition, list[str]] = {}
        for name, actor in sorted(self.consumers.items()):
            for where in actor.owned:
                readers.setdefault(where, []).append(name)
        return readers

    def _actor(self, name: str) -> ScriptConsumer:
        actor: ScriptConsumer = self.consumers[name]
        return actor
