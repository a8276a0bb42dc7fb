"""A blocking face for scripts: the asyncio clients on a loop in a thread of its own, method by method.

    with BlockingConsumer({"bootstrap.servers": "127.0.0.1:9092", "group.id": "g"}) as consumer:
        consumer.subscribe(["t"])
        records = consumer.poll(1000)

Heartbeats go on while the script's own code runs. `BrokerSocket` is a plain socket for those who need nothing else.
"""

from __future__ import annotations

import asyncio
import inspect
import socket
import threading
from collections.abc import Mapping
from typing import Any

from coterie.client.admin import Admin
from coterie.client.connection import API_VERSIONS_FIRST_TRY, VersionTable, answer_type
from coterie.client.consumer import Consumer
from coterie.client.errors import KafkaError
from coterie.client.producer import Producer
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.framing import decode_response, encode_request
from coterie.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse


class _Blocking:
    """Runs every method of an asyncio client to its end, on the loop's thread."""

    _client_class: type[Any]

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="coterie", daemon=True)
        self._thread.start()
        self._client = self._run(self._make(settings))

    async def _make(self, settings: Mapping[str, Any]) -> Any:
        return self._client_class(settings)

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        if not callable(method):
            return method

        async def call(*args: Any, **kwargs: Any) -> Any:
            result = method(*args, **kwargs)
            return await result if inspect.isawaitable(result) else result

        return lambda *args, **kwargs: self._run(call(*args, **kwargs))

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the client and ends the thread."""

        async def end() -> None:
            result = self._client.close()
            if inspect.isawaitable(result):
                await result

        try:
            self._run(end())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(5)


class BlockingConsumer(_Blocking):
    _client_class = Consumer


class BlockingProducer(_Blocking):
    """`send` returns (partition, offset) once acknowledged; `send_all` takes (topic, value, key) triples together."""

    _client_class = Producer

    def send(self, *args: Any, **kwargs: Any) -> tuple[int, int]:
        async def send() -> tuple[int, int]:
            delivery = await self._client.send(*args, **kwargs)
            await self._client.flush()
            result: tuple[int, int] = await delivery
            return result

        result: tuple[int, int] = self._run(send())
        return result

    def send_all(self, records: list[tuple[str, bytes | None, bytes | None]]) -> list[tuple[int, int]]:
        async def send() -> list[tuple[int, int]]:
            deliveries = [await self._client.send(topic, value, key) for topic, value, key in records]
            await self._client.flush()
            return [await d for d in deliveries]

        result: list[tuple[int, int]] = self._run(send())
        return result


class BlockingAdmin(_Blocking):
    _client_class = Admin


class BrokerSocket:
    """One blocking connection: a request, its answer. For tools and Spark tasks, where a loop would be in the way."""

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
