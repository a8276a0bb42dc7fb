"""Test a consumer against a real broker in the test's own process: the pytest fixture `coterie_broker`.

.venv/bin/python -m pytest examples/test_orders.py
"""

import asyncio

from coterie.client import Consumer
from coterie.testing import ErrorCode, LocalBroker


async def sum_of_orders(bootstrap_servers: str, count: int) -> int:
    """The code under test: adds up the first `count` orders and commits what it has read."""
    settings = {"bootstrap.servers": bootstrap_servers, "group.id": "billing", "auto.offset.reset": "earliest"}
    values: list[int] = []
    async with Consumer(settings | {"enable.auto.commit": False}) as consumer:
        consumer.subscribe(["orders"])
        while len(values) < count:
            for records in (await consumer.poll(1000)).values():
                values += [int(record.value or b"0") for record in records]
        await consumer.commit()
    return sum(values)


def test_orders_are_added_up(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("orders", 3)
    coterie_broker.produce("orders", b"10", b"20", partition=0)
    coterie_broker.produce("orders", b"12", partition=2)
    assert asyncio.run(sum_of_orders(coterie_broker.bootstrap_servers, 3)) == 42


def test_a_commit_is_retried_while_the_coordinator_loads(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("orders", 1)
    coterie_broker.produce("orders", b"42")
    coterie_broker.fail("OffsetCommit", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, times=2)
    assert asyncio.run(sum_of_orders(coterie_broker.bootstrap_servers, 1)) == 42
    assert coterie_broker.committed("billing") == {("orders", 0): 1}
    assert coterie_broker.requested("OffsetCommit") == 3
