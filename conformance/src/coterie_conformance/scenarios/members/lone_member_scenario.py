"""Scenarios of one member alone, whatever its protocol: the walk through the steps, and the steps that both protocols have.
`member_scenario` and `consumer_member_scenario` have the form, and the steps of each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any, Generic, TypeVar

from coterie.consuming.commits.verdicts import GroupMachine
from coterie.laboratory.member_checkers import LoneMemberChecker, check_settled
from coterie.member.config import GroupMembershipOperation
from coterie.member.effects import Assigned, Revoke, Send, TopicPartition
from coterie.wire.declaration import Message
from coterie_conformance.scenarios.groups.scenario import ScenarioError, run_step

M = TypeVar("M", bound=GroupMachine)
Options = dict[str, str]


class LoneMemberScenario(ABC, Generic[M]):
    """One member and its virtual time. ``config`` comes before everything else; its options are fields of ``config_class``.
    ``requests``: as they were sent; a response may take one out."""

    config_class: type[Any]
    machine: M
    checker: LoneMemberChecker[M]

    def __init__(self) -> None:
        self.now_ms = 0
        self.trace: list[str] = []
        self.requests: list[Message] = []
        self.begin({})
        self.verbs: dict[str, Callable[[list[str], Options], None]] = {
            "config": self._config,
            "poll": lambda *_: self.machine.polled(self.now_ms),
            "leave": lambda words, options: self.machine.leave(" ".join(words), _operation(options)),
            "coordinator": self._coordinator,
            "revoked": lambda *_: self.machine.revoked(),
            "advance": self._advance,
            "deadline": self._deadline,
            "state": lambda *_: self.trace.append(self.state_text()),
        }

    @abstractmethod
    def begin(self, settings: Mapping[str, Any]) -> None:
        """Makes ``machine`` with these settings, and ``checker``, which observes it."""

    @abstractmethod
    def state_text(self) -> str:
        """The member's state in one line."""

    @abstractmethod
    def effect_text(self, effect: Any) -> str:
        """One line."""

    def step(self, line: str) -> list[str]:
        """Runs one step; returns its trace. Raises ScenarioError."""
        self.trace = []
        run_step(self.verbs, line)
        self._settle("")
        return self.trace

    def _settle(self, prefix: str) -> None:
        """Everything that is due now, as lines."""
        effects: list[Any] = []
        while more := self.machine.next(self.now_ms):
            effects += more
        self.checker.check(self.machine)
        check_settled(self.machine, self.now_ms)
        stages = self.checker.stages
        if len(stages) > 1:
            self.trace.append(prefix + " -> ".join(stage.name for stage in stages))
        self.checker.stages = stages[-1:]
        for effect in effects:
            if isinstance(effect, Send):
                self.requests.append(effect.request)
            self.trace.append(prefix + self.effect_text(effect))

    def _config(self, words: list[str], options: Options) -> None:
        """Settings by their names; ``assignors`` with commas."""
        known = {field.name for field in fields(self.config_class)}
        if not options.keys() <= known:
            raise ScenarioError(f"there is no setting {', '.join(sorted(options.keys() - known))}")
        self.begin(
            {
                name: int(value) if name.endswith("_ms") else tuple(value.split(",")) if name == "assignors" else value
                for name, value in options.items()
            }
        )

    def _advance(self, words: list[str], options: Options) -> None:
        until_ms = self.now_ms + int(words[0])
        while (due_ms := self.machine.next_deadline_ms()) is not None and due_ms <= until_ms:
            self.now_ms = due_ms
            self._settle(f"@{due_ms} ")
        self.now_ms = until_ms

    def _deadline(self, words: list[str], options: Options) -> None:
        due_ms = self.machine.next_deadline_ms()
        self.trace.append("no deadline" if due_ms is None else f"due at {due_ms}")

    def _coordinator(self, words: list[str], options: Options) -> None:
        """``coordinator found`` or ``coordinator unavailable``: the result of the lookup."""
        if words == ["found"]:
            self.machine.coordinator_found()
        else:
            self.machine.lookup_failed(self.now_ms)


def _operation(options: Options) -> GroupMembershipOperation:
    """``operation=leave_group`` or ``remain_in_group``."""
    return GroupMembershipOperation(options.get("operation", "default"))


def partitions_text(partitions: Iterable[TopicPartition]) -> str:
    """``t-0,u-1``, and ``-`` for none."""
    return ",".join(f"{topic}-{partition}" for topic, partition in partitions) or "-"


def callback_text(effect: Revoke | Assigned, number: str) -> str:
    """The listener's callback; ``number``: what the assignment's generation is called."""
    if isinstance(effect, Revoke):
        method = "on_partitions_lost" if effect.lost else "on_partitions_revoked"
        return f"{method} {partitions_text(effect.partitions)}"
    added, owned = partitions_text(effect.added), partitions_text(effect.partitions)
    return f"on_partitions_assigned {added} of {owned} {number}={effect.generation}"
