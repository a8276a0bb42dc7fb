"""A whole broker in virtual time, for tests that send it frames over a `FakeTransport`. A transport without a socket, for
a broker's connection in virtual time."""

from __future__ import annotations

import asyncio
import random
from typing import Any, cast

from coterie.broker.connections.open_connections import OpenConnections
from coterie.broker.handlers import HANDLERS
from coterie.broker.node import BrokerNode
from coterie.broker.requests.memory import RequestMemory
from coterie.broker.requests.turns import finish
from coterie.broker.requests.unserved import UnservedRequests
from coterie.broker.settings import BrokerSettings
from coterie.laboratory.world import World
from coterie.log.filesystem import MemoryFileSystem
from tests.broker.world_scheduler import VirtualClock, WorldScheduler


class FramesBroker(BrokerNode):
    """A broker in virtual time with what its connections use of it (`accepted_connection.Owner`)."""

    def __init__(self, world: World, memory: MemoryFileSystem | None = None, **given: str) -> None:
        own = {name.replace("_", "."): value for name, value in given.items()}
        settings = BrokerSettings({"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "2"} | own)
        # Which real time does not touch.
        super().__init__(settings, VirtualClock(world), random.Random(world.random.random()))
        self.handlers, self.unserved = HANDLERS, UnservedRequests()
        self.request_memory = RequestMemory(settings.current.queued_max_request_bytes)
        self.connections = OpenConnections(self)
        self.max_request_bytes = settings.current.socket_request_max_bytes
        self.max_elements = settings.current.coterie_request_max_elements
        self.world, self.loop = world, cast(Any, WorldScheduler(world))
        self.open(memory or MemoryFileSystem(), self.loop, lambda files, synced: synced(None), lambda error: None)
        for topic, count in (("t", 2), ("u", 1)):
            if topic not in self.topics.by_name:
                finish(self.topics.creating(topic, count, {}))
        self.load_transactions()


class FakeTransport(asyncio.Transport):
    """``written``: what the connection has sent; ``closed``: by either way of ending it."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 9092)

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def abort(self) -> None:
        self.closed = True

    def close(self) -> None:
        self.closed = True
