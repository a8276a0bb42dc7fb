"""When a member's client has last fetched, beside other requests of the same client id and host."""

from __future__ import annotations

import asyncio

from coterie.client import Admin, Consumer, Producer
from coterie.observer.internal_topics import group_past
from coterie.testing import simulate

QUIET_S = 20.0


async def last_fetch_ms(admin: Admin) -> int:
    (member,) = (await admin.explain_group("crew")).members
    assert member.last_fetch_ms is not None
    return member.last_fetch_ms


async def looks_beside_a_paused_member(servers: str) -> None:
    settings = {"bootstrap.servers": servers}  # all under the default client id, from one host
    async with Producer(settings) as producer:
        await producer.send("orders", b"x", partition=0)
    async with (
        Consumer(settings | {"group.id": "crew", "auto.offset.reset": "earliest"}) as member,
        Admin(settings) as admin,
    ):
        member.subscribe(["orders"])
        while not await member.poll(200):
            pass
        member.pause(member.assignment())
        await asyncio.sleep(QUIET_S)
        assert await admin.record_times({("orders", 0): 0})  # as `groups describe` does for lags in time
        assert await group_past(settings, "crew", 1_000)  # as `groups lint` does
        assert await last_fetch_ms(admin) >= QUIET_S * 1000
        member.resume(member.assignment())
        await member.poll(200)
        assert await last_fetch_ms(admin) < QUIET_S * 1000


def test_looks_at_records_are_no_fetches_of_a_member() -> None:
    with simulate(seed=1) as world:
        broker = world.broker()
        broker.create_topic("orders", 1)
        world.run(looks_beside_a_paused_member(broker.bootstrap_servers))
