"""A machine written as a course of steps: a generator yields an effect and is resumed with its result.

For protocols that one party runs from top to bottom, waiting for each result: the code then reads as the protocol does.
There is no IO here and no clock: the driver carries the effects out and passes the time in.

    machine.next(now_ms) -> an effect to carry out, or None     (one effect is out at a time)
    machine.answer(value) | machine.refuse(error)               (the effect's result)
    machine.nudge()                                             (something happened: a `Wait` ends)
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")
Steps = Generator[Any, Any, T]


@dataclass(frozen=True, slots=True)
class Wait:
    """Until then, in ms of the driver's clock, or until a nudge; None: until a nudge."""

    until_ms: int | None


class ScriptMachine:
    """A machine whose course is one generator of steps: it yields effects, and is sent what they came to."""

    def __init__(self, steps: Steps[None], now_ms: int) -> None:
        self.now_ms = now_ms
        self.finished = False
        self._steps = steps
        self._waiting: Wait | None = None
        self._out = False  # an effect is being carried out
        self._nudged = False
        self._came: tuple[Any, Exception | None] = (None, None)

    def next(self, now_ms: int) -> Any | None:
        """The effect to carry out now; None while one is out, while it waits, or once it is finished."""
        self.now_ms = max(now_ms, self.now_ms)
        while not self.finished and not self._out and self._awake():
            effect = self._resume()
            if isinstance(effect, Wait):
                self._waiting = effect
            elif effect is not None:
                self._out = True
                return effect
        return None

    def respond(self, value: Any = None) -> None:
        """The effect that is out was carried out."""
        assert self._out, "nothing was requested"
        self._out, self._came = False, (value, None)

    def refuse(self, error: Exception) -> None:
        """The effect that is out came to nothing."""
        assert self._out, "nothing was requested"
        self._out, self._came = False, (None, error)

    def nudge(self) -> None:
        self._nudged = True

    def next_deadline_ms(self) -> int | None:
        """When `next` should be called again though nothing happened, at once if it is finished; None: not by itself."""
        if self.finished:
            return self.now_ms
        if self._out:
            return None
        return self.now_ms if self._awake() or self._waiting is None else self._waiting.until_ms

    def _awake(self) -> bool:
        wait = self._waiting
        if wait is None or self._nudged:
            return True
        return wait.until_ms is not None and self.now_ms >= wait.until_ms

    def _resume(self) -> Any | None:
        if self._waiting is not None:
            self._nudged = False
        self._waiting = None
        (value, error), self._came = self._came, (None, None)
        try:
            return self._steps.send(value) if error is None else self._steps.throw(error)
        except StopIteration:
            self.finished = True
            return None
