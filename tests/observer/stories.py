"""Scripted stories: the production broker, real members, and the observer as a client beside them, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import re
from dataclasses import dataclass, field
from typing import Any

from coterie.client import Admin, Consumer, Producer
from coterie.client.errors import FencedInstanceIdError
from coterie.coordinator.journal.line import JournalLine
from coterie.observer.observation import ClusterObservation
from coterie.testing.simulated import SimulatedWorld, WorldBroker

GROUP = "crew"
DESCRIPTIONS = ("DescribeGroups", "ConsumerGroupDescribe", "ListGroups")


async def observe(servers: str, lines: list[JournalLine], notices: list[str], settings: dict[str, Any]) -> None:
    client = {"bootstrap.servers": servers, "client.id": "observer"}
    await ClusterObservation(client, lines.append, notices.append, **settings).run(asyncio.Event())


async def produce(servers: str, topics: tuple[str, ...]) -> None:
    """A record a second to each partition, so that members commit."""
    async with Producer({"bootstrap.servers": servers}) as producer:
        while True:
            for topic in topics:
                for partition in range(await producer.partitions_for(topic)):
                    await producer.send(topic, b"x", partition=partition)
            await asyncio.sleep(1)


async def consume(servers: str, settings: dict[str, Any], control: Control) -> None:
    base = {"bootstrap.servers": servers, "group.id": GROUP, "auto.offset.reset": "earliest"}
    with contextlib.suppress(FencedInstanceIdError):
        await read(base | settings, control)


async def read(settings: dict[str, Any], control: Control) -> None:
    async with Consumer(settings) as consumer:
        subscribed: Any = control.subscription
        consumer.subscribe(**subscribed) if isinstance(subscribed, dict) else consumer.subscribe(subscribed)
        while not control.leaves:
            if control.subscription is not subscribed:
                subscribed = control.subscription
                consumer.subscribe(subscribed)
            await consumer.poll(200)
            if control.sleeps_s:
                slept_s, control.sleeps_s = control.sleeps_s, 0.0
                await asyncio.sleep(slept_s)


@dataclass
class Control:
    """What a member does next."""

    subscription: Any = field(default_factory=lambda: ["orders"])
    leaves: bool = False
    sleeps_s: float = 0.0


class Crew:
    """A world with a broker, a producer, an observer and members."""

    def __init__(
        self,
        world: SimulatedWorld,
        brokers: int = 1,
        *,
        watched: bool = True,
        settings: dict[str, object] | None = None,
    ) -> None:
        self.world = world
        self.broker: WorldBroker = world.broker(settings, brokers=brokers)
        self.broker.create_topic("orders", 6)
        self.lines: list[JournalLine] = []
        self.notices: list[str] = []
        self.controls: dict[str, Control] = {}
        self.lives = 0
        if watched:
            self.watch()
        world.spawn("producer", produce, self.broker.bootstrap_servers, ("orders",))
        world.advance(3)

    def watch(self, **settings: Any) -> None:
        """The observer begins."""
        args = (self.broker.bootstrap_servers, self.lines, self.notices, settings)
        self.world.spawn("observer", observe, *args)
        self.world.advance(2)

    def join(self, name: str, subscription: Any = None, **settings: Any) -> Control:
        self.lives += 1
        control = Control() if subscription is None else Control(subscription)
        self.controls[name] = control
        settings = {"client.id": name} | {key.replace("_", "."): value for key, value in settings.items()}
        self.world.spawn(f"{name}.{self.lives}", consume, self.broker.bootstrap_servers, settings, control)
        return control

    def process(self, name: str) -> Any:
        return next(self.world.processes[n] for n in reversed(list(self.world.processes)) if n.startswith(f"{name}."))

    def settle(self, members: int, seconds: float = 30) -> None:
        self.broker.until_stable(GROUP, members=members)
        self.world.advance(seconds)


# -- the stories ----------------------------------------------------------------------------------------------------------


def three_members(world: SimulatedWorld, **settings: Any) -> Crew:
    crew = Crew(world)
    for name in ("anna", "ben", "cleo"):
        crew.join(name, **settings)
    crew.settle(3)
    return crew


def kill(world: SimulatedWorld) -> Crew:
    crew = three_members(world)
    crew.process("ben").kill()
    crew.settle(2, 60)
    return crew


def clean_leave(world: SimulatedWorld) -> Crew:
    crew = three_members(world)
    crew.controls["ben"].leaves = True
    world.advance(1)
    crew.settle(2)
    return crew


def slow_poll(world: SimulatedWorld) -> Crew:
    crew = three_members(world, max_poll_interval_ms="120000")
    crew.controls["ben"].sleeps_s = 170
    crew.broker.until_stable(GROUP, members=2, timeout_s=300)
    world.advance(10)
    crew.settle(3, 60)
    return crew


def deploy(world: SimulatedWorld) -> Crew:
    crew = three_members(world)
    world.advance(60)
    for name in ("anna", "ben", "cleo"):
        crew.controls[name].leaves = True
        world.advance(8)
        crew.join(name)
        crew.settle(3, 20)
    return crew


def flapping(world: SimulatedWorld) -> Crew:
    crew = three_members(world)
    for _ in range(4):
        crew.controls["ben"].leaves = True
        world.advance(8)
        crew.join("ben")
        crew.settle(3, 30)
    return crew


def static_restart(world: SimulatedWorld, **settings: str) -> Crew:
    crew = Crew(world)
    for name in ("anna", "ben"):
        crew.join(name, group_instance_id=name, **settings)
    crew.settle(2)
    if settings:
        crew.controls["ben"].leaves = True  # of the consumer protocol only a member that says so may be replaced
    else:
        crew.process("ben").kill()
    world.advance(5)
    crew.join("ben", group_instance_id="ben", **settings)
    crew.settle(2)
    return crew


def consumer_static_restart(world: SimulatedWorld) -> Crew:
    """Another member joins after it: the return is no cause of that epoch."""
    crew = static_restart(world, group_protocol="consumer")
    crew.join("cleo", group_protocol="consumer")
    crew.settle(3)
    return crew


def static_death(world: SimulatedWorld) -> Crew:
    crew = Crew(world)
    for name in ("anna", "ben"):
        crew.join(name, group_instance_id=name)
    crew.settle(2)
    crew.process("ben").kill()
    crew.settle(1, 60)
    return crew


def added_partitions(world: SimulatedWorld) -> Crew:
    crew = three_members(world, metadata_max_age_ms="20000")
    world.run(added(crew.broker.bootstrap_servers))
    world.advance(60)
    crew.settle(3)
    return crew


async def added(servers: str) -> None:
    async with Admin({"bootstrap.servers": servers}) as admin:
        await admin.create_partitions("orders", 9)


def regex_gains_topic(world: SimulatedWorld) -> Crew:
    crew = Crew(world)
    for name in ("anna", "ben"):
        crew.join(name, re.compile("orders.*"), metadata_max_age_ms="20000")
    crew.settle(2)
    crew.broker.create_topic("orders-late", 3)
    world.advance(60)
    crew.settle(2)
    return crew


def changed_subscription(world: SimulatedWorld) -> Crew:
    crew = Crew(world)
    crew.broker.create_topic("audits", 2)
    for name in ("anna", "ben"):
        crew.join(name)
    crew.settle(2)
    crew.controls["ben"].subscription = ["orders", "audits"]
    world.advance(10)
    crew.settle(2)
    return crew


def coordinator_moved(world: SimulatedWorld) -> Crew:
    crew = Crew(world, brokers=3)
    for name in ("anna", "ben"):
        crew.join(name)
    crew.settle(2)
    crew.broker.kill(crew.broker.coordinator_of(GROUP))
    world.advance(60)
    crew.settle(2)
    return crew


def commit_by_stranger(world: SimulatedWorld, **settings: Any) -> Crew:
    crew = Crew(world)
    crew.join("anna", **settings)
    crew.settle(1)
    crew.controls["anna"].leaves = True
    world.advance(10)
    world.run(committed(crew.broker.bootstrap_servers))
    world.advance(10)
    return crew


def consumer_commit_by_stranger(world: SimulatedWorld) -> Crew:
    return commit_by_stranger(world, group_protocol="consumer")


def paused(world: SimulatedWorld) -> Crew:
    crew = three_members(world)
    crew.process("ben").pause()
    crew.settle(2, 10)
    crew.process("ben").resume()
    crew.settle(3, 30)
    return crew


async def committed(servers: str) -> None:
    async with Admin({"bootstrap.servers": servers}) as admin:
        await admin.alter_consumer_group_offsets(GROUP, {("orders", 0): 1})


def fenced_instance(world: SimulatedWorld) -> Crew:
    crew = Crew(world)
    for name in ("anna", "ben"):
        crew.join(name, group_instance_id=name)
    crew.settle(2)
    for _ in range(2):
        crew.join("ben", group_instance_id="ben")
        world.advance(10)
    return crew


def cooperative_join(world: SimulatedWorld) -> Crew:
    crew = Crew(world)
    for name in ("anna", "ben"):
        crew.join(name, partition_assignment_strategy="cooperative-sticky")
        crew.settle(len(crew.controls), 20)
    return crew


def consumer_kill(world: SimulatedWorld) -> Crew:
    crew = three_members(world, group_protocol="consumer")
    crew.process("ben").kill()
    crew.settle(2, 60)
    return crew


def consumer_leave(world: SimulatedWorld) -> Crew:
    crew = three_members(world, group_protocol="consumer")
    crew.controls["ben"].leaves = True
    world.advance(5)
    crew.settle(2)
    return crew


def consumer_added_partitions(world: SimulatedWorld) -> Crew:
    crew = three_members(world, group_protocol="consumer")
    world.run(added(crew.broker.bootstrap_servers))
    world.advance(60)
    crew.settle(3)
    return crew


def upgrade(world: SimulatedWorld) -> Crew:
    crew = Crew(world, settings={"group.consumer.migration.policy": "bidirectional"})
    crew.join("anna")
    crew.settle(1)
    crew.join("ben", group_protocol="consumer")
    crew.settle(2)
    return crew


def downgrade(world: SimulatedWorld) -> Crew:
    """The last member of the consumer protocol leaves, and the classic ones stay."""
    crew = upgrade(world)
    crew.controls["ben"].leaves = True
    world.advance(10)
    crew.settle(1)
    return crew


def slow_join(world: SimulatedWorld) -> Crew:
    """A member does not poll while another joins."""
    crew = Crew(world)
    for name in ("anna", "ben"):
        crew.join(name)
    crew.settle(2)
    crew.controls["ben"].sleeps_s = 60
    world.advance(20)
    crew.join("cleo")
    crew.settle(3)
    return crew


def stuck_sync(world: SimulatedWorld) -> Crew:
    """The leader's SyncGroup takes long."""
    crew = Crew(world)
    crew.join("anna")
    crew.settle(1)
    with crew.broker.hold("SyncGroup", client_id="anna"):
        crew.join("ben")
        world.advance(25)
    crew.settle(2)
    return crew


def deleted(world: SimulatedWorld) -> Crew:
    crew = Crew(world)
    crew.join("anna")
    crew.settle(1)
    crew.controls["anna"].leaves = True
    world.advance(10)
    world.run(deletion(crew.broker.bootstrap_servers))
    world.advance(10)
    return crew


async def deletion(servers: str) -> None:
    async with Admin({"bootstrap.servers": servers}) as admin:
        await admin.delete_consumer_group(GROUP)


async def until_stable(crew: Crew, members: int) -> None:
    """Within a coroutine of the world."""
    while len(crew.broker.members(GROUP)) != members:
        await asyncio.sleep(1)
    await asyncio.sleep(10)
