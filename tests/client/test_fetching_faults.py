"""A consumer beside a broker that refuses and drops connections at random: each record comes once and in order."""

from __future__ import annotations

import asyncio
import random

import pytest

from coterie.client import Consumer
from coterie.consuming.fetch_errors import REMEDIES, FetchRemedy
from coterie.testing import LocalBroker

PARTITIONS, ROUNDS = 3, 60
PASSING = [code for code, remedy in REMEDIES.items() if remedy is FetchRemedy.FIND_LEADER]


@pytest.mark.parametrize("seed", range(3))
def test_every_record_comes_once_and_in_order(coterie_broker: LocalBroker, seed: int) -> None:
    rng = random.Random(seed)
    coterie_broker.create_topic("t", PARTITIONS)
    settings = {
        "bootstrap.servers": coterie_broker.bootstrap_servers,
        "auto.offset.reset": "earliest",
        "fetch.max.wait.ms": 10,
        "retry.backoff.ms": 1,
        "retry.backoff.max.ms": 5,
        "max.partition.fetch.bytes": 200,
        "max.poll.records": 7,
    }
    produced: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
    consumed: dict[int, list[bytes | None]] = {partition: [] for partition in range(PARTITIONS)}

    def strike() -> None:
        match rng.choice(["produce", "produce", "fetch", "fetch", "metadata", "drop"]):
            case "produce":
                partition = rng.randrange(PARTITIONS)
                values = [b"%d-%d" % (partition, len(produced[partition]) + n) for n in range(rng.randint(1, 20))]
                coterie_broker.produce("t", *values, partition=partition)
                produced[partition] += values
            case "fetch":
                coterie_broker.fail("Fetch", rng.choice(PASSING), times=rng.randint(1, 3))
            case "metadata":
                coterie_broker.fail("Metadata", rng.choice(PASSING))
            case "drop":
                coterie_broker.drop_connections()

    async def story() -> None:
        async with asyncio.timeout(60), Consumer(settings) as consumer:
            await consumer.assign([("t", partition) for partition in range(PARTITIONS)])
            rounds = 0
            while rounds < ROUNDS or consumed != produced:
                if rounds < ROUNDS:
                    await asyncio.to_thread(strike)
                rounds += 1
                for (_, partition), records in (await consumer.poll(20)).items():
                    consumed[partition] += [record.value for record in records]
                    assert consumed[partition] == produced[partition][: len(consumed[partition])]

    asyncio.run(story())
    assert sum(map(len, produced.values())) > 50
