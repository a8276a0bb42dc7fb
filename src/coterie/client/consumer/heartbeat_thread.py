"""Heartbeats while the event loop is held: a thread that sends the ones that the loop is late with.

User code that blocks the loop (a long computation, time.sleep, a synchronous driver) would otherwise cost a member its
session. The membership says after each of its turns when the next heartbeat is due (`Pulse`); when that time comes and
the loop does not respond to a knock, this thread sends it over a connection of its own and warns once, naming the line that
holds the loop. It never joins, syncs or assigns: what its response says, the response to the loop's own next one repeats.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.client.errors import ClientBugError, KafkaError
from coterie.client.security import PLAINTEXT, Security
from coterie.wire.declaration import Message

logger = logging.getLogger(__name__)

GRACE_S = 0.1  # a busy loop may be that late without anything being wrong
STALLED_S = 0.5
IDLE_S = 60.0
_OURS = str(Path(__file__).parents[1])
_STANDARD_LIBRARY = str(Path(asyncio.__file__).parent.parent)
_OF_THE_LOOP = frozenset({"base_events.py", "runners.py"})  # the frames of asyncio that run whatever is ready


@dataclass(frozen=True, slots=True)
class Pulse:
    """The next heartbeat: where to, what, and when. ``leave`` goes out, once, when polls are overdue; None: nothing does any
    more then."""

    address: tuple[str, int]
    heartbeat: Message
    due_s: float
    interval_s: float
    leave: Message | None = None


class HeartbeatThread:
    """Runs from `start` to `stop`; made and notified (`expect`) on the loop that it stands in for. ``on_bug`` is called on that
    loop with an exception that nothing in the thread provides for."""

    def __init__(
        self, client_id: str, on_bug: Callable[[ClientBugError], None], security: Security = PLAINTEXT
    ) -> None:
        self.pulse: Pulse | None = None
        self.poll_deadline_s = float("inf")  # until when the member counts as alive (max.poll.interval.ms)
        self.sent = 0  # heartbeats that the loop was too late for
        self._client_id, self._on_bug, self._security = client_id, on_bug, security
        self._loop, self._loop_thread = asyncio.get_running_loop(), threading.get_ident()
        self._responded = threading.Event()
        self._stopped = False
        self._woken = threading.Event()
        self._socket: BrokerSocket | None = None
        self._warned: Pulse | None = None
        self._left: Pulse | None = None
        self._thread = threading.Thread(target=self._run, name="coterie-heartbeat", daemon=True)

    def start(self) -> None:
        """Starts the thread, which sends nothing before `expect`. A loop in virtual time is never held, and has none."""
        if not getattr(self._loop, "is_virtual", False):
            self._thread.start()

    def stop(self) -> None:
        """Does not wait: the thread may be in the middle of a heartbeat."""
        self.pulse, self._stopped = None, True
        self._woken.set()

    def expect(self, pulse: Pulse | None) -> None:
        """The next heartbeat is this one; None: none is due. Wakes the thread only for the first after none."""
        before, self.pulse = self.pulse, pulse
        if before is None and pulse is not None:
            self._woken.set()

    def _run(self) -> None:
        looked_at: Pulse | None = None
        due_s = 0.0
        while True:
            pulse = self.pulse
            if pulse is None:
                due_s = time.monotonic() + IDLE_S
            elif pulse is not looked_at:
                looked_at, due_s = pulse, pulse.due_s
            if self._woken.wait(max(due_s - time.monotonic(), 0)):
                self._woken.clear()
                if self._stopped:
                    break
                continue
            self._tell_if_held(time.monotonic() - due_s)
            if pulse is not None and self.pulse is pulse:
                due_s = time.monotonic() + pulse.interval_s
                if not self._loop_responds() and self.pulse is pulse:
                    self._stand_in(pulse)
        self._close()

    def _loop_responds(self) -> bool:
        """Whether the loop takes a turn within the grace."""
        self._responded.clear()
        try:
            self._loop.call_soon_threadsafe(self._responded.set)
        except RuntimeError:  # it is closed
            return True
        wake_s = time.monotonic() + GRACE_S
        responded = self._responded.wait(GRACE_S)
        self._tell_if_held(time.monotonic() - wake_s)
        return responded

    def _stand_in(self, pulse: Pulse) -> None:
        now_s = time.monotonic()
        if self._warned is not pulse:
            self._warned = pulse
            line = culprit(self._loop_thread)
            if line is None:
                text = (
                    "the event loop was held and waits for input again: this process got too little CPU time, or code that "
                    "has returned held it"
                )
            else:
                text = (
                    f"the event loop has been held by {line}; heartbeats go out from a thread meanwhile. Move that work "
                    "into asyncio.to_thread, or make it shorter"
                )
            logger.warning("%s", text)
        request = pulse.heartbeat
        if now_s > self.poll_deadline_s:
            if pulse.leave is None or self._left is pulse:
                return
            self._left, request = pulse, pulse.leave
        try:
            if self._socket is None:
                timeout_s = max(pulse.interval_s, 1.0)
                self._socket = BrokerSocket(*pulse.address, self._client_id, timeout_s, self._security)
            self._socket.request(request)
            self.sent += 1
        except (KafkaError, OSError):
            self._close()  # the loop's own heartbeat will find out more
        except Exception as bug:
            self._close()
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._on_bug, ClientBugError(bug))

    def _tell_if_held(self, late_s: float) -> None:
        """When even this thread came too late, something held the whole interpreter."""
        if late_s > STALLED_S:
            line = culprit(self._loop_thread)
            cause = (
                "this process got no CPU time, or code that has returned held the GIL"
                if line is None
                else f"the interpreter was held, last seen at {line}, by code that does not release the GIL"
            )
            logger.warning("a heartbeat is %.1f s late: %s", late_s, cause)

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def culprit(thread_id: int) -> str | None:
    """The innermost line that the loop of that thread runs outside the standard library and this package, such as
    "work.py:12 in handle"; None where there is none: the loop waits for input, or its thread has ended."""
    frame = sys._current_frames().get(thread_id)
    for summary in reversed([] if frame is None else traceback.extract_stack(frame)):
        path = Path(summary.filename)
        if path.parent.name == "asyncio" and path.name in _OF_THE_LOOP:
            return None
        if not _is_library(summary.filename):
            return f"{summary.filename}:{summary.lineno} in {summary.name}"
    return None


def _is_library(filename: str) -> bool:
    of_python = filename.startswith(_STANDARD_LIBRARY) and "site-packages" not in filename
    return of_python or filename.startswith((_OURS, "<frozen "))
