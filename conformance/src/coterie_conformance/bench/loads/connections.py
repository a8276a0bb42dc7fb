"""Connections of one process to a broker, one request in flight on each: raw sockets and a selector, so that the driver costs
little and the same for every broker."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable

from coterie.wire.declaration import Message
from coterie.wire.framing import encode_request

PATIENCE_S = 120.0


class RawConnections:
    """Connections by number. ``requests`` and ``transferred_bytes`` count both ways, the lengths of frames included."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self.requests = 0
        self.transferred_bytes = 0
        self._selector = selectors.DefaultSelector()
        self._sockets: list[socket.socket] = []
        self._buffers: list[bytearray] = []

    def __len__(self) -> int:
        return len(self._sockets)

    def open(self, count: int) -> None:
        """So many more."""
        for _ in range(count):
            s = socket.create_connection(self.address)
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._selector.register(s, selectors.EVENT_READ, len(self._sockets))
            self._sockets.append(s)
            self._buffers.append(bytearray())

    def close(self) -> None:
        for s in self._sockets:
            s.close()
        self._selector.close()

    def send(self, number: int, request: Message, version: int) -> None:
        """Sends a request on the connection ``number``, and counts it and its bytes."""
        frame = encode_request(number, "bench", request, version)
        self._sockets[number].sendall(frame)
        self.requests += 1
        self.transferred_bytes += len(frame)

    def gather(self, waiting: set[int], responded: Callable[[int, bytes], bool]) -> None:
        """Reads responses until ``responded`` was True for each of these connections. Raises AssertionError after
        PATIENCE_S, or where the broker closes a connection."""
        end = time.monotonic() + PATIENCE_S
        while waiting:
            assert time.monotonic() < end, f"{len(waiting)} members still wait"
            for key, _ in self._selector.select(1.0):
                number = key.data
                buffer = self._buffers[number]
                got = self._sockets[number].recv(1 << 20)
                assert got, "the broker closed a connection"
                self.transferred_bytes += len(got)
                buffer += got
                size = int.from_bytes(buffer[:4], "big") if len(buffer) >= 4 else -1
                if 0 <= size <= len(buffer) - 4:
                    frame = bytes(buffer[4 : 4 + size])
                    del buffer[: 4 + size]
                    if responded(number, frame):
                        waiting.discard(number)
