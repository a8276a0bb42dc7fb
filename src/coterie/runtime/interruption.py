"""What SIGINT and SIGTERM do to a program of coterie.

One rule for every command: what runs until it is stopped (the broker, `consume`, `groups watch`, `--follow`) ends in order
with 0 when it is stopped, and everything else, or whatever is still starting, with 130. Both signals do the same. What
happens at a signal is one of four actions, set by what is going on: end at once, raise KeyboardInterrupt, cancel the main
task of an event loop, or set the event that a command waits for.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def end_at_once(code: int = INTERRUPTED) -> Callable[[], None]:
    """For when nothing is open that would want an orderly end."""

    def end() -> None:
        os._exit(code)

    return end


def _ignore() -> None:
    pass


def _raise() -> None:
    raise KeyboardInterrupt


class _Interruption:
    """The state of this process: what the next signal does, and whether one has come."""

    def __init__(self) -> None:
        self.action: Callable[[], None] = end_at_once()
        self.seen = False
        self.installed = False
        self._process = os.getpid()

    def install(self) -> None:
        for number in SIGNALS:
            signal.signal(number, self._received)

    def _received(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._process:  # a worker: the process that started it says how all ends
            os._exit(INTERRUPTED)
        action = self.action
        # A second signal does not wait for the orderly end that the first one began.
        self.seen, self.action = True, end_at_once()
        action()


_interruption = _Interruption()


def install() -> None:
    """From now on the signals are ours: each ends the process at once, until `started` or `on_signal`."""
    _interruption.install()
    _interruption.installed = True


def interrupted() -> bool:
    """Whether SIGINT or SIGTERM has come."""
    return _interruption.seen


def ending(code: int) -> None:
    """Nothing is left to do but to end with this code: a signal does that at once, without a word."""
    _interruption.action = end_at_once(code)


@contextlib.contextmanager
def on_signal(action: Callable[[], None], *, patient: bool = False) -> Iterator[None]:
    """What SIGINT and SIGTERM do meanwhile. A second one ends the process at once, or, where this is ``patient``, does
    nothing. In another thread, where a program calls a command, signals stay as they are."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    before = _interruption.action

    def act_once() -> None:
        _interruption.action = _ignore
        action()

    _interruption.action = act_once if patient else action
    _interruption.install()
    try:
        yield
    finally:
        _interruption.action = before
        if not _interruption.installed:  # called as a function, in a process whose signals are not ours
            for number, handler in handlers.items():
                signal.signal(number, handler)


def started() -> None:
    """The imports are done: from now on a signal raises KeyboardInterrupt, so that `finally` and `with` put in order what
    was begun."""
    _interruption.action = _raise


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """A signal that comes meanwhile raises KeyboardInterrupt only at the end: for steps that must not be half done, such as
    the start of a process that is to be ended later."""
    came: list[bool] = []
    with on_signal(lambda: came.append(True), patient=True):
        yield
    if came:
        raise KeyboardInterrupt
