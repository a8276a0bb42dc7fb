"""A proxy in a world, before a broker of that world."""

from __future__ import annotations

from coterie.client import Consumer, Producer
from coterie.proxy.proxy import Proxy
from coterie.testing.simulated import SimulatedWorld, WorldBroker
from coterie.text.addresses import format_address, parse_address


class WorldProxy:
    """On the host proxy, in a process of its own."""

    def __init__(self, world: SimulatedWorld, broker: WorldBroker) -> None:
        self.world, self.process = world, world.process("proxy")
        upstream = [parse_address(address) for address in broker.bootstrap_servers.split(",")]

        async def start() -> str:
            self.proxy = Proxy(upstream)
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
