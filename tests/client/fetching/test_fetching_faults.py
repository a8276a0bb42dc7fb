"""A consumer beside a broker that refuses and drops connections at random: each record comes once and in order. And one whose
offset the log does not have."""

from __future__ import annotations

import asyncio
import random

import pytest

from coterie.client import Consumer, OffsetOutOfRangeError
from coterie.consuming.fetching.outcomes import REMEDIES, FetchRemedy
from coterie.testing import LocalBroker

PARTITIONS, ROUNDS = 3, 60
PASSING = [code for code, remedy in REMEDIES.items() if remedy is FetchRemedy.FIND_LEADER]


@pytest.mark.parametrize("seed", range(3))
async def test_every_record_comes_once_and_in_order(coterie_broker: LocalBroker, seed: int) -> None:
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
    assert sum(map(len, produced.values())) > 50


async def test_without_a_policy_an_offset_out_of_range_holds_up_its_partition_alone(
    coterie_broker: LocalBroker,
) -> None:
    """Raised by polls until a seek (testCompletedFetchRemoval)."""
    coterie_broker.create_topic("t", 2)
    coterie_broker.produce("t", b"a", partition=0)
    coterie_broker.produce("t", b"b", b"c", partition=1)
    settings = {"bootstrap.servers": coterie_broker.bootstrap_servers, "auto.offset.reset": "none"}
    values: list[bytes | None] = []
    errors: list[OffsetOutOfRangeError] = []
    async with asyncio.timeout(20), Consumer(settings) as consumer:
        await consumer.assign([("t", 0), ("t", 1)])
        consumer.seek(("t", 0), 99)
        consumer.seek(("t", 1), 0)
        while len(errors) < 2 or len(values) < 2:
            try:
                polled = await consumer.poll(50)
            except OffsetOutOfRangeError as error:
                errors.append(error)
            else:
                values += [r.value for records in polled.values() for r in records]
        assert values == [b"b", b"c"]
        assert "the log of t-0 has no offset 99, and auto.offset.reset is none" in str(errors[0])
        consumer.seek(("t", 0), 0)
        while len(values) < 3:
            values += [r.value for records in (await consumer.poll(50)).values() for r in records]
        assert values[2:] == [b"a"]


@pytest.mark.parametrize("api", ["Metadata", "FindCoordinator", "OffsetFetch", "ListOffsets"])
async def test_a_position_is_looked_up_again_where_a_connection_is_lost(coterie_broker: LocalBroker, api: str) -> None:
    coterie_broker.create_topic("t")
    settings = {
        "bootstrap.servers": coterie_broker.bootstrap_servers,
        "group.id": "g",
        "auto.offset.reset": "earliest",
        "retry.backoff.ms": 10,
    }
    async with asyncio.timeout(20), Consumer(settings) as consumer:
        with coterie_broker.hold(api) as held:
            await consumer.assign([("t", 0)])
            polling = asyncio.create_task(consumer.poll(20_000))
            await asyncio.to_thread(coterie_broker.until_held, held)
            coterie_broker.drop_connections()
            coterie_broker.produce("t", b"a")
            assert [record.value for record in (await polling)["t", 0]] == [b"a"]
