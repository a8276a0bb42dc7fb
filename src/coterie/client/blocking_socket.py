"""One blocking connection: a request, its answer. For tools, Spark tasks and threads, where a loop would be in the way."""

from __future__ import annotations

import socket
from typing import Any

from coterie.client.connection import API_VERSIONS_FIRST_TRY, VersionTable, answer_type
from coterie.client.errors import KafkaError
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.framing import decode_response, encode_request
from coterie.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse


class BrokerSocket:
    """Raises KafkaError NETWORK_EXCEPTION when nobody answers there."""

    def __init__(self, host: str, port: int, client_id: str = "coterie", timeout_s: float = 30.0) -> None:
        try:
            self._socket = socket.create_connection((host, port), timeout_s)
        except OSError as error:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"no broker answers at {host}:{port}: {error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client_id = client_id
        self._correlation_id = 0
        frame = self._roundtrip(ApiVersionsRequest("coterie", "0.1.0"), API_VERSIONS_FIRST_TRY)
        version = API_VERSIONS_FIRST_TRY
        if int.from_bytes(frame[4:6], "big", signed=True) == ErrorCode.UNSUPPORTED_VERSION:
            version = 0
            frame = self._roundtrip(ApiVersionsRequest(), 0)
        self.versions = VersionTable(decode_response(ApiVersionsResponse, frame, version))

    def request(self, request: Message, *, highest: int | None = None) -> Any:
        """The answer. Raises KafkaError NETWORK_EXCEPTION."""
        version = self.versions.choose(type(request), highest)
        return decode_response(answer_type(request), self._roundtrip(request, version), version)

    def _roundtrip(self, request: Message, version: int) -> bytes:
        self._correlation_id += 1
        try:
            self._socket.sendall(encode_request(self._correlation_id, self._client_id, request, version))
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

    def close(self) -> None:
        self._socket.close()
