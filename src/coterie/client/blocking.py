"""A blocking face for scripts: the asyncio clients on a loop in a thread of its own, method by method.

    with BlockingConsumer({"bootstrap.servers": "127.0.0.1:9092", "group.id": "g"}) as consumer:
        consumer.subscribe(["t"])
        records = consumer.poll(1000)

Heartbeats go on while the script's own code runs. `BrokerSocket` is a plain socket for those who need nothing else.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Mapping
from typing import Any

from coterie.client.admin import Admin
from coterie.client.consumer import Consumer
from coterie.client.producer import Producer


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
