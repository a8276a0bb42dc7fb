"""A blocking face for scripts: the asyncio clients on a loop in a thread of its own, method by method.

    with BlockingConsumer({"bootstrap.servers": "127.0.0.1:9092", "group.id": "g"}) as consumer:
        consumer.subscribe(["t"])
        records = consumer.poll(1000)

Heartbeats go on while the script's own code runs. `BrokerSocket` is a plain socket for those who need nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import Mapping
from typing import Any

from coterie.client import admin, consumer, producer
from coterie.client.types import RecordMetadata

__all__ = ["BlockingAdmin", "BlockingConsumer", "BlockingProducer"]
END_S = 5.0  # in which tasks and thread must end


def __getattr__(name: str) -> Any:
    """The asyncio classes are not here: a script that took one for the blocking one would only build coroutines."""
    if name in ("Admin", "Consumer", "Producer"):
        text = f"coterie.client.blocking has Blocking{name}; the asyncio {name} is in coterie.client"
        raise ImportError(text, name=__name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Blocking:
    """Runs every method of an asyncio client to its end, on the loop's thread. After `close` every method raises
    RuntimeError, and so does one that is called on the loop's own thread, for instance by a rebalance listener."""

    _client_class: type[Any]

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._closed = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="coterie", daemon=True)
        self._thread.start()
        try:
            self._client = self._run(self._make, settings)
        except BaseException:
            self._end()
            raise

    async def _make(self, settings: Mapping[str, Any]) -> Any:
        return self._client_class(settings)

    def _run(self, work: Any, *args: Any, **kwargs: Any) -> Any:
        if self._closed:
            raise RuntimeError(f"this {type(self).__name__} is closed; make a new one")
        if threading.current_thread() is self._thread:
            raise RuntimeError(
                f"a {type(self).__name__} cannot be called from its own thread, where listeners and callbacks run: it "
                "would wait for itself"
            )

        async def call() -> Any:
            result = work(*args, **kwargs)
            return await result if inspect.isawaitable(result) else result

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result()

    def __getattr__(self, name: str) -> Any:
        if name == "_client":  # not made yet
            raise AttributeError(name)
        method = getattr(self._client, name)
        return (lambda *args, **kwargs: self._run(method, *args, **kwargs)) if callable(method) else method

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self, timeout_ms: float | None = None) -> None:
        """Closes the client, within ``timeout_ms`` (None: the client's default), and ends the thread."""
        if self._closed:
            return
        try:
            self._run(self._client.close, *([] if timeout_ms is None else [timeout_ms]))
        finally:
            self._end()

    def _end(self) -> None:
        self._closed = True

        async def end_tasks() -> None:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks, timeout=END_S)

        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(end_tasks(), self._loop).result(2 * END_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(END_S)
        if not self._thread.is_alive():
            self._loop.close()


class BlockingConsumer(_Blocking):
    _client_class = consumer.Consumer


class BlockingProducer(_Blocking):
    """`send` returns a RecordMetadata once acknowledged; `send_all` takes (topic, value, key) triples together."""

    _client_class = producer.Producer

    def send(self, *args: Any, **kwargs: Any) -> RecordMetadata:
        async def send() -> RecordMetadata:
            delivery = await self._client.send(*args, **kwargs)
            await self._client.flush()
            result: RecordMetadata = await delivery
            return result

        result: RecordMetadata = self._run(send)
        return result

    def send_all(self, records: list[tuple[str, bytes | None, bytes | None]]) -> list[RecordMetadata]:
        async def send() -> list[RecordMetadata]:
            deliveries = [await self._client.send(topic, value, key) for topic, value, key in records]
            await self._client.flush()
            return [await d for d in deliveries]

        result: list[RecordMetadata] = self._run(send)
        return result


class BlockingAdmin(_Blocking):
    _client_class = admin.Admin
