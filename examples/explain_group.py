"""Ask a coterie broker why a group is where it is: the same answer that `coterie groups why` prints.

    .venv/bin/python examples/explain_group.py [HOST:PORT]

Only a coterie broker answers this request; Apache Kafka does not know it.
"""

import asyncio
import sys

from coterie.client import Admin, Consumer

ADDRESS = {"bootstrap.servers": sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"}


async def main() -> None:
    async with Admin(ADDRESS) as admin, Consumer(ADDRESS | {"group.id": "crew", "client.id": "anna"}) as anna:
        if "trips" not in await admin.describe_topics():
            await admin.create_topic("trips", 4)
        anna.subscribe(["trips"])
        while not anna.assignment():
            await anna.poll(100)
        explanation = await admin.explain_group("crew")
        print(f"{explanation.state}, generation {explanation.generation}: {explanation.verdict}")
        for member in explanation.members:
            print(f"{member.client_id}: session times out after {member.session_timeout_ms} ms of silence")


asyncio.run(main())
