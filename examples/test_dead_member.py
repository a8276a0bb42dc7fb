"""Test what happens when a member of a group dies, in virtual time: the fixture `coterie_world`.

.venv/bin/python -m pytest examples/test_dead_member.py
"""

import pytest
from aiokafka import AIOKafkaConsumer

from coterie.client import Consumer
from coterie.testing.simulated import SimulatedWorld


async def read_orders(bootstrap_servers: str, values: set[bytes | None]) -> None:
    """The code under test, with coterie's consumer."""
    settings = {"bootstrap.servers": bootstrap_servers, "group.id": "billing", "auto.offset.reset": "earliest"}
    async with Consumer(settings) as consumer:
        consumer.subscribe(["orders"])
        async for record in consumer:
            values.add(record.value)


async def read_orders_with_aiokafka(bootstrap_servers: str, values: set[bytes | None]) -> None:
    """The same with aiokafka."""
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=bootstrap_servers,
        group_id="billing",
        auto_offset_reset="earliest",
        session_timeout_ms=45_000,
    )
    await consumer.start()
    async for record in consumer:
        values.add(record.value)


@pytest.mark.coterie_seeds(5)
@pytest.mark.parametrize("program", [read_orders, read_orders_with_aiokafka])
def test_the_other_member_takes_over(coterie_world: SimulatedWorld, program: object) -> None:
    values: set[bytes | None] = set()
    broker = coterie_world.broker()
    broker.create_topic("orders", 6)
    for name in ("one", "two"):
        coterie_world.spawn(name, program, broker.bootstrap_servers, values)  # type: ignore[arg-type]
    broker.until_stable("billing", members=2)
    coterie_world.advance(5)
    coterie_world.processes["two"].kill()
    for partition in range(6):
        broker.produce("orders", b"%d" % partition, partition=partition)
    coterie_world.until(lambda: len(values) == 6, "all orders")
    assert 45 < coterie_world.now_s < 70
