"""One blocking connection: a request, its response. For tools, Spark tasks and threads, where a loop would be in the way."""

from __future__ import annotations

import contextlib
import io
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from coterie.client.connection.handshake import (
    MAX_RESPONSE_BYTES,
    UNREACHABLE,
    Handshake,
    VersionTable,
    encoded,
    is_tls_error,
    not_opened,
    response_type,
)
from coterie.client.errors import KafkaError
from coterie.client.security import PLAINTEXT, Security
from coterie.machines.cluster_metadata import Address
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.framing import decode_response
from coterie.wire.primitives import WireError

Awaited = tuple[Any, int]  # the class of a response, and its version
BUFFER_BYTES = 64 * 1024
CLAIM_BYTES = 32 * 1024 * 1024  # at most that much memory for what a broker claims and has not sent


class _Incoming(io.RawIOBase):
    """What arrives on a socket, until a deadline. `io.BufferedReader` has it written to where a response stays."""

    def __init__(self, opened: socket.socket, timeout_s: float) -> None:
        self._socket, self._timeout_s = opened, timeout_s
        self.deadline_s = 0.0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left_s = self.deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError(f"no response within {self._timeout_s:g} s")
        self._socket.settimeout(left_s)
        return self._socket.recv_into(buffer)


class BrokerSocket:
    """Raises KafkaError NETWORK_EXCEPTION when nobody responds there, and what a login is refused with."""

    def __init__(
        self,
        host: str,
        port: int,
        client_id: str = "coterie",
        timeout_s: float = 30.0,
        security: Security = PLAINTEXT,
    ) -> None:
        context = security.context()
        self._client_id, self._timeout_s = client_id, timeout_s
        self._correlation_id = 0
        self._without_response: deque[int] = deque()
        try:
            self._socket = socket.create_connection((host, port), timeout_s)
        except UNREACHABLE as error:
            raise not_opened(host, port, error, timeout_s) from error
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is not None:
                self._socket = context.wrap_socket(self._socket, server_hostname=host)
            self._incoming = _Incoming(self._socket, timeout_s)
            self._reader = io.BufferedReader(self._incoming, BUFFER_BYTES)
            self.versions = self._shake_hands(security)
        except UNREACHABLE as error:
            self.close()
            raise not_opened(host, port, error, timeout_s) from error
        except BaseException as error:
            self.close()
            cause = error.__cause__
            if isinstance(cause, Exception) and is_tls_error(cause):
                # In TLS 1.3 a broker refuses a certificate only now.
                raise not_opened(host, port, cause, timeout_s) from error
            raise

    def _shake_hands(self, security: Security) -> VersionTable:
        handshake = Handshake(self._client_id, security.login())
        frame: bytes | None = handshake.start()
        while frame is not None:
            self._send_frame(handshake.correlation_id, frame)
            frame = handshake.response(self._frame())
        assert handshake.versions is not None
        return handshake.versions

    def version_of(self, request: type[Message]) -> int:
        """The version in which such a request goes out. Raises KafkaError UNSUPPORTED_VERSION."""
        return self.versions.choose(request)

    def request(self, request: Message, *, highest: int | None = None) -> Any:
        """The response. Raises KafkaError NETWORK_EXCEPTION."""
        return self.receive(self.send(request, highest=highest))

    def send(self, request: Message, *, highest: int | None = None) -> Awaited:
        """Only sends; `receive` returns in the same order. Raises KafkaError NETWORK_EXCEPTION."""
        version = self.versions.choose(type(request), highest)
        correlation_id = self._correlation_id + 1
        self._send_frame(correlation_id, encoded(correlation_id, self._client_id, request, version))
        return response_type(request), version

    def receive(self, awaited: Awaited) -> Any:
        """The response to the oldest request that was only sent. Raises KafkaError NETWORK_EXCEPTION."""
        try:
            return decode_response(awaited[0], self._frame(), awaited[1])
        except WireError as error:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"a response that cannot be read: {error}") from error

    def _send_frame(self, correlation_id: int, frame: bytes) -> None:
        self._correlation_id = correlation_id
        try:
            self._socket.settimeout(self._timeout_s)
            self._socket.sendall(frame)
        except OSError as error:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"the connection was lost: {error}") from error
        self._without_response.append(self._correlation_id)

    def _frame(self) -> bytes:
        self._incoming.deadline_s = time.monotonic() + self._timeout_s
        try:
            size = int.from_bytes(self._receive(4), "big", signed=True)
            if not 4 <= size <= MAX_RESPONSE_BYTES:
                raise ConnectionError(f"a response claims a size of {size} bytes")
            frame = self._receive(size)
            if int.from_bytes(frame[:4], "big", signed=True) != self._without_response.popleft():
                raise ConnectionError("the broker answered a request that was not sent")
        except OSError as error:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"the connection was lost: {error}") from error
        return frame

    def _receive(self, size: int) -> bytes:
        """Memory grows with what comes, by CLAIM_BYTES, not with what the broker claims."""
        parts: list[bytes] = []
        while size > 0:
            wanted = min(size, CLAIM_BYTES)
            part = self._reader.read(wanted)
            if len(part) < wanted:
                raise ConnectionError("the broker closed the connection")
            parts.append(part)
            size -= wanted
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def abort(self) -> None:
        """From another thread: a request that waits for its response raises KafkaError NETWORK_EXCEPTION."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """From the thread that uses it; what waits in another one is ended by `abort`."""
        self._socket.close()


@dataclass(slots=True)
class Sockets:
    """Connections by address, opened when they are first used."""

    open_socket: Callable[[Address], BrokerSocket]
    opened: dict[Address, BrokerSocket] = field(default_factory=dict)

    def at(self, address: Address) -> BrokerSocket:
        """Raises KafkaError where no broker responds there."""
        if address not in self.opened:
            self.opened[address] = self.open_socket(address)
        return self.opened[address]

    def any(self, addresses: Iterable[Address]) -> BrokerSocket:
        """The first of these, at least one, where a broker responds. Raises KafkaError where none does."""
        failed: KafkaError | None = None
        for address in addresses:
            try:
                return self.at(address)
            except KafkaError as error:
                failed = error
        assert failed is not None, "there is no address"
        raise failed

    def forget(self, address: Address | None) -> None:
        """After a fault, or with a response still to come."""
        socket = None if address is None else self.opened.pop(address, None)
        if socket is not None:
            socket.close()

    def close(self) -> None:
        """All of them; the next use opens a new one."""
        for opened in self.opened.values():
            opened.close()
        self.opened.clear()
