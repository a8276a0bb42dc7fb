"""File descriptors: how many are left, and what happens to connections when none is.

asyncio's accept loop logs a traceback per attempt then, a thousand a second. `DescriptorReserve` keeps two descriptors back:
with them it accepts what waits and closes it, so that clients hear at once, and the log has one line.
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
from typing import Any

from coterie.broker.process.log_lines import LogLines

_NONE_LEFT = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_SPARE = 2  # a copy of the listening socket, and the connection
_REFUSED_AT_ONCE = 1024
ASYNCIO_RETRY_S = 1.5  # after an error asyncio listens again a second later


def descriptors_left() -> int:
    """How many more files this process may open, less a tenth (100 at most) that is kept for connections and indexes."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return 2**31
    return int(limit) - len(os.listdir("/dev/fd")) - min(100, int(limit) // 10)


class DescriptorReserve:
    """Answers the accept loop's errors in place of asyncio's exception handler; other errors go on to the one before."""

    def __init__(self, loop: asyncio.AbstractEventLoop, lines: LogLines) -> None:
        self._loop, self._lines = loop, lines
        self._before = loop.get_exception_handler()
        self._spare: list[int] = []
        self._closed = False
        self._refused_s = -ASYNCIO_RETRY_S
        self._fill()
        loop.set_exception_handler(self._handle)

    def close(self) -> None:
        """Puts the loop's handler back, once asyncio no longer tries to listen again on sockets that are closed by then."""
        self._release()
        self._closed = True
        wait_s = self._refused_s + ASYNCIO_RETRY_S - self._loop.time()
        if wait_s <= 0:
            self._restore()
        else:
            self._loop.call_later(wait_s, self._restore)

    def _restore(self) -> None:
        self._loop.set_exception_handler(self._before)

    def _handle(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error, listening = context.get("exception"), context.get("socket")
        if self._closed and isinstance(error, ValueError) and "_start_serving" in str(context.get("message")):
            return  # the socket is closed
        if isinstance(error, OSError) and error.errno in _NONE_LEFT and listening is not None:
            refused = self._refuse(listening)
            self._refused_s = self._loop.time()
            text = "no file descriptor is left (%s): %d connections refused; raise ulimit -n, or lower max.connections"
            self._lines.warning(text, os.strerror(error.errno), refused)
        elif self._before is not None:
            self._before(loop, context)
        else:
            loop.default_exception_handler(context)

    def _refuse(self, listening: Any) -> int:
        """Accepts and closes the connections that wait; returns how many."""
        refused = 0
        self._release()
        try:
            copy = listening.dup()
            try:
                while refused < _REFUSED_AT_ONCE:
                    copy.accept()[0].close()
                    refused += 1
            finally:
                copy.close()
        except OSError:
            pass  # none waits any more, or others took what was spare
        self._fill()
        return refused

    def _fill(self) -> None:
        try:
            while len(self._spare) < _SPARE:
                self._spare.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            pass  # tried again after the next error

    def _release(self) -> None:
        while self._spare:
            os.close(self._spare.pop())
