"""Stories of share groups and streams groups, as those of `stories`."""

from __future__ import annotations

import asyncio

from coterie.client import Admin, ShareConsumer
from coterie.client.connection.connection import Connection
from coterie.testing.simulated import SimulatedWorld
from coterie.text.addresses import parse_address
from coterie.wire.messages.streams.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from coterie_conformance.share_stories.streams_program import StreamsProgram
from tests.observer.stories import GROUP, Control, Crew, added

PAUSE_S, LATER_S = 0.1, 60.0
STREAMS_SETTINGS: dict[str, object] = {"group.streams.initial.rebalance.delay.ms": "0"}


async def share(servers: str, name: str, control: Control) -> None:
    settings = {"bootstrap.servers": servers, "group.id": GROUP, "client.id": name}
    async with ShareConsumer(settings) as consumer:
        subscribed = control.subscription
        consumer.subscribe(subscribed)
        while not control.leaves:
            if control.subscription is not subscribed:
                subscribed = control.subscription
                consumer.subscribe(subscribed)
            await consumer.poll(200)


async def stream(servers: str, name: str, control: Control) -> None:
    """A thread of a streams application; ``name`` is its member id and client id."""
    running = asyncio.create_task(StreamsProgram(servers, GROUP, name, "orders").run(lambda *_: None, lambda: PAUSE_S))
    while not control.leaves:
        await asyncio.sleep(PAUSE_S)
    running.cancel()
    await asyncio.wait([running])
    connection = await Connection.connect(*parse_address(servers), name, 10)
    left = await connection.request(StreamsGroupHeartbeatRequest(GROUP, name, -1), StreamsGroupHeartbeatResponse, 10)
    assert not left.error_code
    connection.close()


class ModernCrew(Crew):
    """Its members are of a share group, or of a streams group."""

    def of_shares(self, *names: str) -> None:
        for name in names:
            self.controls[name] = Control()
            self.world.spawn(f"{name}.1", share, self.broker.bootstrap_servers, name, self.controls[name])
            self.world.advance(5)
        self.world.advance(15)

    def of_streams(self, *names: str) -> None:
        for name in names:
            self.controls[name] = Control()
            self.world.spawn(f"{name}.1", stream, self.broker.bootstrap_servers, name, self.controls[name])
            self.world.advance(5)
        self.world.advance(15)


def share_joins(world: SimulatedWorld) -> Crew:
    crew = ModernCrew(world)
    crew.of_shares("anna", "ben")
    return crew


def share_leave(world: SimulatedWorld) -> Crew:
    """Of a member that has just joined: it is too early for the end of its session."""
    crew = ModernCrew(world)
    crew.of_shares("anna", "ben")
    crew.controls["ben"].leaves = True
    world.advance(LATER_S)
    return crew


def share_kill(world: SimulatedWorld) -> Crew:
    """Nothing in the records of a share group is a sign of one member's life."""
    crew = ModernCrew(world)
    crew.of_shares("anna", "ben")
    crew.process("ben").kill()
    world.advance(2 * LATER_S)
    return crew


def share_subscription(world: SimulatedWorld) -> Crew:
    crew = ModernCrew(world)
    crew.broker.create_topic("audits", 2)
    crew.of_shares("anna", "ben")
    crew.controls["ben"].subscription = ["orders", "audits"]
    world.advance(LATER_S)
    return crew


def share_added_partitions(world: SimulatedWorld) -> Crew:
    crew = ModernCrew(world)
    crew.of_shares("anna")
    world.run(added(crew.broker.bootstrap_servers))
    world.advance(LATER_S)
    return crew


def share_deleted(world: SimulatedWorld) -> Crew:
    crew = ModernCrew(world)
    crew.of_shares("anna")
    crew.controls["anna"].leaves = True
    world.advance(15)
    world.run(share_deletion(crew.broker.bootstrap_servers))
    world.advance(15)
    return crew


async def share_deletion(servers: str) -> None:
    async with Admin({"bootstrap.servers": servers}) as admin:
        await admin.delete_consumer_group(GROUP)


def streams_joins(world: SimulatedWorld) -> Crew:
    crew = ModernCrew(world, settings=STREAMS_SETTINGS)
    crew.of_streams("anna", "ben")
    return crew


def streams_leave(world: SimulatedWorld) -> Crew:
    crew = ModernCrew(world, settings=STREAMS_SETTINGS)
    crew.of_streams("anna", "ben")
    world.advance(LATER_S)
    crew.controls["ben"].leaves = True
    world.advance(LATER_S)
    return crew


def streams_kill(world: SimulatedWorld) -> Crew:
    crew = ModernCrew(world, settings=STREAMS_SETTINGS)
    crew.of_streams("anna", "ben")
    world.advance(LATER_S)
    crew.process("ben").kill()
    world.advance(2 * LATER_S)
    return crew


def streams_added_partitions(world: SimulatedWorld) -> Crew:
    crew = ModernCrew(world, settings=STREAMS_SETTINGS)
    crew.of_streams("anna")
    world.run(added(crew.broker.bootstrap_servers))
    world.advance(LATER_S)
    return crew
