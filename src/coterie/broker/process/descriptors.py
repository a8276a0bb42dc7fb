"""File descriptors: how many are left, which are kept for the broker's own work, and what happens to connections beyond them.

Connections and logs keep theirs, and take none of the last `OWN_DESCRIPTORS`: those are for what is open for a moment, such as
small files and the modules of an API at its first request. asyncio accepts as many connections as it can before it serves one,
and logs a traceback for each that it cannot: a `ListeningSocket` closes what goes too far, so that clients hear at once, with a
line.
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import socket
from typing import Any

from coterie.broker.process.loggers import LogLines

OWN_DESCRIPTORS = 32  # an eighth of all at most
_NONE_LEFT = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_REFUSED_AT_ONCE = 1024
_REFUSED = "no file descriptor is left (%s): %d connections refused; raise ulimit -n, or lower max.connections"


def is_kept_back(descriptor: int) -> bool:
    """Whether a new descriptor is one of the last, which connections and logs leave to the broker: the system gives the lowest
    that is free."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return limit != resource.RLIM_INFINITY and descriptor >= limit - min(OWN_DESCRIPTORS, limit // 8)


def descriptors_left() -> int:
    """How many more logs this process may open, less a tenth (100 at most) that is kept for connections and indexes."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return 2**31
    try:
        is_open = len(os.listdir("/dev/fd"))
    except OSError:
        return 0
    return int(limit) - is_open - min(OWN_DESCRIPTORS, limit // 8) - min(100, limit // 10)


async def listening_sockets(host: str, port: int, lines: LogLines) -> list[ListeningSocket]:
    """Bound to every address of ``host``, as by asyncio's `create_server`. Raises OSError."""
    loop = asyncio.get_running_loop()
    bound = await loop.create_server(asyncio.Protocol, host, port, start_serving=False)
    try:
        return [ListeningSocket(each, lines) for each in bound.sockets]
    finally:
        bound.close()


class ListeningSocket(socket.socket):
    """Takes over a socket that is bound. Accepts no connection whose descriptor is kept back. Where the process has none left,
    closes the connections that wait, with a spare one."""

    def __init__(self, bound: socket.socket, lines: LogLines) -> None:
        super().__init__(fileno=os.dup(bound.fileno()))
        self._lines = lines
        self._spare = _spare()

    def accept(self) -> tuple[socket.socket, Any]:
        """Raises BlockingIOError where none waits that may be accepted, as asyncio expects."""
        refused, reason = 0, errno.EMFILE
        try:
            while refused < _REFUSED_AT_ONCE:
                try:
                    accepted, address = super().accept()
                except OSError as error:
                    if error.errno not in _NONE_LEFT or self._spare < 0:
                        raise
                    reason = error.errno
                    self._release()
                    super().accept()[0].close()
                    self._spare = _spare()
                else:
                    if not is_kept_back(accepted.fileno()):
                        return accepted, address
                    accepted.close()
                refused += 1
            raise BlockingIOError
        finally:
            if self._spare < 0:
                self._spare = _spare()
            if refused:
                self._lines.warning(_REFUSED, os.strerror(reason), refused)

    def close(self) -> None:
        super().close()
        self._release()

    def _release(self) -> None:
        spare, self._spare = self._spare, -1
        if spare >= 0:
            os.close(spare)


def _spare() -> int:
    """-1 where none is left."""
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1
