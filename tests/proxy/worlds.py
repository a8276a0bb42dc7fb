"""A proxy in a world, before a broker of that world."""

from __future__ import annotations

import asyncio

from coterie.client import Consumer, Producer
from coterie.coordinator.journal.line import JournalLine
from coterie.proxy.observation import PassageObservation
from coterie.proxy.proxy import Proxy
from coterie.testing.faults import Faults
from coterie.testing.simulated import SimulatedWorld, WorldBroker
from coterie.text.addresses import format_address, parse_address
from coterie.wire.declaration import Message
from coterie.wire.framing import encode_request


class WorldProxy:
    """On the host proxy, in a process of its own."""

    def __init__(self, world: SimulatedWorld, broker: WorldBroker) -> None:
        self.world, self.broker, self.process = world, broker, world.process("proxy")
        upstream = [parse_address(address) for address in broker.bootstrap_servers.split(",")]

        self.faults = Faults()

        self.lines: list[JournalLine] = []

        async def start() -> str:
            self.observation = PassageObservation(self.lines.append)
            self.running = asyncio.create_task(self.observation.run())
            self.proxy = Proxy(upstream, rules=self.faults, watcher=self.observation)
            return format_address(*await self.proxy.start("proxy", 0))

        self.bootstrap_servers = world.run_in(self.process, start())


async def produce(servers: str, topic: str, count: int) -> None:
    async with Producer({"bootstrap.servers": servers, "batch.size": "0"}) as producer:
        for number in range(count):
            await producer.send(topic, str(number).encode())


async def consume(servers: str, group: str, topic: str, seen: list[bytes], **settings: str) -> None:
    """For ever."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    address = {"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest"}
    async with Consumer(address | named) as consumer:
        consumer.subscribe([topic])
        async for record in consumer:
            assert record.value is not None
            seen.append(record.value)


class RawClient:
    """A connection through the proxy that sends frames and reads them."""

    def __init__(self, proxied: WorldProxy) -> None:
        self._host, self._port = parse_address(proxied.bootstrap_servers)

    async def open(self) -> RawClient:
        self.reader, self.writer = await asyncio.open_connection(self._host, self._port)
        return self

    async def frame(self) -> bytes:
        """Without its size."""
        return await self.reader.readexactly(int.from_bytes(await self.reader.readexactly(4), "big"))

    async def exchange(self, request: Message, version: int, correlation_id: int = 1, client_id: str = "c") -> bytes:
        self.writer.write(encode_request(correlation_id, client_id, request, version))
        return await self.frame()
