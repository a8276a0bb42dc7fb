"""A static member that is shut down for good: its partitions move at once, not after session.timeout.ms. Then a rebalance that
the program asks for.

.venv/bin/python examples/leave_for_good.py [HOST:PORT]
"""

import asyncio
import sys

from coterie.client import Admin, Consumer, GroupMembershipOperation

ADDRESS = {"bootstrap.servers": sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"}


def worker(name: str) -> Consumer:
    return Consumer(ADDRESS | {"group.id": "loading-dock", "group.instance.id": name, "heartbeat.interval.ms": 100})


async def poll_until_shared(workers: list[Consumer], partitions: list[int]) -> None:
    while [len(worker.assignment()) for worker in workers] != partitions:
        for worker in workers:
            await worker.poll(50)


async def main() -> None:
    async with Admin(ADDRESS) as admin:
        if "pallets" not in await admin.describe_topics():
            await admin.create_topic("pallets", 4)
    one, two = worker("worker-1"), worker("worker-2")
    for member in (one, two):
        member.subscribe(["pallets"])
    await poll_until_shared([one, two], [2, 2])
    await two.close(group_membership_operation=GroupMembershipOperation.LEAVE_GROUP)
    await poll_until_shared([one], [4])
    print("worker-1 has all partitions")

    generation = one.generation
    one.enforce_rebalance("the weights changed")
    while one.generation == generation:
        await one.poll(50)
    print("one generation later")
    await one.close()  # a static member remains by default


asyncio.run(main())
