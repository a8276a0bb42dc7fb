"""One blocking connection: a request, its answer. For tools, Spark tasks and threads, where a loop would be in the way."""

from __future__ import annotations

import contextlib
import socket
from typing import Any

from coterie import __version__
from coterie.client.connection import API_VERSIONS_FIRST_TRY, VersionTable, answer_type
from coterie.client.errors import KafkaError
from coterie.client.security import PLAINTEXT, Security
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.framing import decode_response, encode_request
from coterie.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

Awaited = tuple[Any, int]  # the class of an answer, and its version


class BrokerSocket:
    """Raises KafkaError NETWORK_EXCEPTION when nobody answers there, and what a login is refused with."""

    def __init__(
        self,
        host: str,
        port: int,
        client_id: str = "coterie",
        timeout_s: float = 30.0,
        security: Security = PLAINTEXT,
    ) -> None:
        context = security.context()
        try:
            plain = socket.create_connection((host, port), timeout_s)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = plain if context is None else context.wrap_socket(plain, server_hostname=host)
        except OSError as error:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"no broker answers at {host}:{port}: {error}") from error
        self._client_id = client_id
        self._correlation_id = 0
        frame = self._roundtrip(ApiVersionsRequest("coterie", __version__), API_VERSIONS_FIRST_TRY)
        version = API_VERSIONS_FIRST_TRY
        if int.from_bytes(frame[4:6], "big", signed=True) == ErrorCode.UNSUPPORTED_VERSION:
            version = 0
            frame = self._roundtrip(ApiVersionsRequest(), 0)
        self.versions = VersionTable(decode_response(ApiVersionsResponse, frame, version))
        self._log_in(security)

    def _log_in(self, security: Security) -> None:
        login = security.login()
        with contextlib.suppress(StopIteration):
            request, answer = next(login)
            while True:
                version = self.versions.choose(type(request))
                response = decode_response(answer, self._roundtrip(request, version), version)
                request, answer = login.send(response)

    def request(self, request: Message, *, highest: int | None = None) -> Any:
        """The answer. Raises KafkaError NETWORK_EXCEPTION."""
        return self.receive(self.send(request, highest=highest))

    def send(self, request: Message, *, highest: int | None = None) -> Awaited:
        """Only sends; `receive` answers in the same order. Raises KafkaError NETWORK_EXCEPTION."""
        version = self.versions.choose(type(request), highest)
        self._send(request, version)
        return answer_type(request), version

    def receive(self, awaited: Awaited) -> Any:
        """The answer to the oldest request that was only sent. Raises KafkaError NETWORK_EXCEPTION."""
        return decode_response(awaited[0], self._frame(), awaited[1])

    def _roundtrip(self, request: Message, version: int) -> bytes:
        self._send(request, version)
        return self._frame()

    def _send(self, request: Message, version: int) -> None:
        self._correlation_id += 1
        try:
            self._socket.sendall(encode_request(self._correlation_id, self._client_id, request, version))
        except OSError as error:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"the connection was lost: {error}") from error

    def _frame(self) -> bytes:
        try:
            size = int.from_bytes(self._receive(4), "big", signed=True)
            return bytes(self._receive(size))
        except OSError as error:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"the connection was lost: {error}") from error

    def _receive(self, size: int) -> bytearray:
        data = bytearray(size)
        view, at = memoryview(data), 0
        while at < size:
            got = self._socket.recv_into(view[at:])
            if not got:
                raise ConnectionError("the broker closed the connection")
            at += got
        return data

    def abort(self) -> None:
        """From another thread: whoever waits for an answer gets KafkaError NETWORK_EXCEPTION."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()
