"""One connection to a name server or broker: requests and answers by number, and what the broker asks of us."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from coterie.rocketmq import requests
from coterie.rocketmq.requests import ONEWAY_FLAG, RESPONSE_FLAG, RemotingCommand, encode
from coterie_conformance.rocketmq import message_requests
from coterie_conformance.rocketmq.frames import MAX_FRAME_BYTES, FrameError, decode

TIMEOUT_S = 3.0


class RocketMQError(Exception):
    """A refusal, with RocketMQ's code, or -1 for a fault on the way there."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class RemotingConnection:
    """Opened at first use, opened again after it broke. ``requested`` hears what the other side asks."""

    def __init__(self, address: str, requested: Callable[[RemotingCommand], None]) -> None:
        self.address, self._requested = address, requested
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._waiting: dict[int, asyncio.Future[RemotingCommand]] = {}
        self._opaque = 0
        self._lock = asyncio.Lock()

    async def invoke(self, command: RemotingCommand, timeout_s: float | None = None) -> RemotingCommand:
        """The response, whatever its code. Raises RocketMQError for a fault."""
        await self._open()
        assert self._writer is not None
        self._opaque += 1
        command.opaque = self._opaque
        future: asyncio.Future[RemotingCommand] = asyncio.get_running_loop().create_future()
        self._waiting[command.opaque] = future
        try:
            self._writer.write(encode(command))
            async with asyncio.timeout(TIMEOUT_S if timeout_s is None else timeout_s):
                return await future
        except (OSError, TimeoutError) as error:
            raise RocketMQError(-1, f"no response from {self.address}: {error or 'timed out'}") from error
        finally:
            self._waiting.pop(command.opaque, None)

    async def send(self, command: RemotingCommand) -> None:
        """One way: nobody responds. Raises RocketMQError."""
        await self._open()
        assert self._writer is not None
        self._opaque += 1
        command.opaque = self._opaque
        command.flag |= ONEWAY_FLAG
        self._writer.write(encode(command))

    async def _open(self) -> None:
        async with self._lock:
            if self._writer is not None and not self._writer.is_closing():
                return
            host, _, port = self.address.rpartition(":")
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    reader, writer = await asyncio.open_connection(host, int(port), limit=MAX_FRAME_BYTES)
            except (OSError, ValueError, TimeoutError) as error:
                raise RocketMQError(-1, f"nobody answers at {self.address}: {error or 'timed out'}") from error
            self._writer = writer
            self._reading = asyncio.create_task(self._read(reader, writer))

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        why: Exception = ConnectionError("the connection was closed")
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big", signed=True)
                if not 0 < size <= MAX_FRAME_BYTES:
                    raise FrameError(f"a frame of {size} bytes")
                self._take(decode(await reader.readexactly(size)))
        except (OSError, FrameError, asyncio.IncompleteReadError) as error:
            why = error
        finally:
            writer.close()
            waiting, self._waiting = self._waiting, {}
            for future in waiting.values():
                if not future.done():
                    future.set_exception(ConnectionError(str(why)))

    def _take(self, command: RemotingCommand) -> None:
        if not command.flag & RESPONSE_FLAG:
            self._requested(command)
            return
        future = self._waiting.get(command.opaque)
        if future is not None and not future.done():
            future.set_result(command)

    async def close(self) -> None:
        """Closes the connection; requests without a response fail."""
        if self._writer is not None:
            self._writer.close()
        if self._reading is not None:
            self._reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reading


class RemotingCluster:
    """A name server, and connections to the brokers of the routes it gave."""

    def __init__(self, name_server: str, requested: Callable[[RemotingCommand], None] = lambda _: None) -> None:
        self._requested = requested
        self._connections: dict[str, RemotingConnection] = {}
        self._name_server = self._to(name_server)
        self.routes: dict[str, message_requests.TopicRoute] = {}

    def _to(self, address: str) -> RemotingConnection:
        if address not in self._connections:
            self._connections[address] = RemotingConnection(address, self._requested)
        return self._connections[address]

    async def fetch_route(self, topic: str) -> message_requests.TopicRoute:
        """Raises RocketMQError, also for a topic that there is not."""
        response = await self.invoke(self._name_server, requests.route(topic))
        self.routes[topic] = message_requests.route_of(topic, response)
        return self.routes[topic]

    def brokers(self) -> list[RemotingConnection]:
        """The masters of every topic that is known."""
        addresses = {address for route in self.routes.values() for address in route.addresses.values()}
        return [self._to(address) for address in sorted(addresses)]

    def brokers_of(self, topic: str) -> list[RemotingConnection]:
        """The brokers of the last route of the topic, by address; none without a route."""
        route = self.routes.get(topic)
        return [] if route is None else [self._to(address) for address in sorted(set(route.addresses.values()))]

    def broker(self, topic: str, broker_name: str) -> RemotingConnection:
        """Raises RocketMQError where no route names it."""
        route = self.routes.get(topic)
        if route is None or broker_name not in route.addresses:
            raise RocketMQError(-1, f"broker {broker_name} is in no route of {topic}")
        return self._to(route.addresses[broker_name])

    @staticmethod
    async def invoke(connection: RemotingConnection, command: RemotingCommand) -> RemotingCommand:
        """A successful answer. Raises RocketMQError, also for what RocketMQ sends that cannot be read."""
        try:
            response = await connection.invoke(command)
        except FrameError as error:
            raise RocketMQError(-1, str(error)) from error
        if response.code != requests.SUCCESS:
            raise RocketMQError(response.code, response.remark or f"RocketMQ answers with code {response.code}")
        return response

    async def close(self) -> None:
        """Closes every connection."""
        for connection in self._connections.values():
            await connection.close()
