"""An assignor of one's own: members receive partitions in proportion to their weights.

.venv/bin/python examples/weighted_assignor.py [HOST:PORT]
"""

import asyncio
import sys
from collections.abc import Mapping, Sequence

from coterie.client import Admin, AssignableTopics, Assignor, Consumer, Subscriber

ADDRESS = {"bootstrap.servers": sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"}


class Weighted(Assignor):
    """Every member lists it; its weight travels as user data, and the leader's `assign` reads all of them."""

    name = "weighted"

    def __init__(self, weight: int) -> None:
        self.weight = weight

    def user_data(self, assigned: Mapping[str, Sequence[int]], generation: int) -> bytes:
        return self.weight.to_bytes(4, "big")

    def assign(self, topics: AssignableTopics, subscribers: Sequence[Subscriber]) -> dict[str, dict[str, list[int]]]:
        weights = {s.member_id: int.from_bytes(s.user_data or b"\1", "big") for s in subscribers}
        shares: dict[str, dict[str, list[int]]] = {member_id: {} for member_id in weights}
        for topic, count in topics.counts.items():
            members = [s.member_id for s in subscribers if topic in s.topics]
            for partition in range(count):
                # To the member that has the least for its weight.
                member_id = min(members, key=lambda m: (len(shares[m].get(topic, [])) + 1) / weights[m])
                shares[member_id].setdefault(topic, []).append(partition)
        return shares

    def on_assignment(self, assigned: Mapping[str, Sequence[int]], generation: int) -> None:
        self.count = sum(map(len, assigned.values()))


async def main() -> None:
    async with Admin(ADDRESS) as admin:
        if "letters" not in await admin.describe_topics():
            await admin.create_topic("letters", 6)
    small, large = Weighted(1), Weighted(2)
    settings = ADDRESS | {"group.id": "depot", "heartbeat.interval.ms": 100}
    async with (
        Consumer(settings | {"partition.assignment.strategy": [small]}) as van,
        Consumer(settings | {"partition.assignment.strategy": [large]}) as truck,
    ):
        van.subscribe(["letters"])
        truck.subscribe(["letters"])
        while (len(van.assignment()), len(truck.assignment())) != (2, 4):
            await asyncio.gather(van.poll(100), truck.poll(100))
        print(f"van: {small.count} partitions, truck: {large.count}")


asyncio.run(main())
