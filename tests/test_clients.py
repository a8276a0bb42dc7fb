"""Clients that nobody here wrote, as users: every compression, a group of three with a member killed, and a broker
killed with SIGKILL and restarted, after which nothing acknowledged is lost.

Each client runs in the same shape through a small adapter; a member is killed by ending its process.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker_process import BrokerProcess

SESSION_MS = 3_000  # which a killed member's partitions wait for
CLIENTS = ("confluent", "aiokafka", "kafka_python")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path / "data", "--set", f"group.min.session.timeout.ms={SESSION_MS}")
    yield process
    if process.process.poll() is None:
        process.stop()


# -- adapters: produce(address, topic, records, codec) and consume(address, topic, group, until) -> records ------------


def produce(client: str, address: str, topic: str, records: list[tuple[bytes, bytes]], codec: str = "none") -> None:
    """Returns once every record is acknowledged by all."""
    if client == "confluent":
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": address, "compression.type": codec, "enable.idempotence": True})
        failures: list[Any] = []
        for key, value in records:
            producer.produce(topic, value, key, on_delivery=lambda e, _: failures.append(e) if e else None)
        assert producer.flush(20) == 0
        assert not failures, failures
    elif client == "kafka_python":
        from kafka import KafkaProducer

        producer = KafkaProducer(
            bootstrap_servers=address, compression_type=None if codec == "none" else codec, acks="all"
        )
        futures = [producer.send(topic, value=value, key=key) for key, value in records]
        producer.flush(20)
        for future in futures:
            future.get(timeout=20)
        producer.close()
    else:
        import asyncio

        from aiokafka import AIOKafkaProducer

        async def run() -> None:
            producer = AIOKafkaProducer(
                bootstrap_servers=address, compression_type=None if codec == "none" else codec, enable_idempotence=True
            )
            await producer.start()
            try:
                await asyncio.gather(*[await producer.send(topic, value, key) for key, value in records])
            finally:
                await producer.stop()

        asyncio.run(run())


def consume(
    client: str,
    address: str,
    topic: str,
    group: str,
    on_record: Callable[[tuple[bytes, bytes]], bool],
    timeout_s: float = 40.0,
    commit: bool = True,
) -> None:
    """Reads as a member of the group until ``on_record`` says True; commits what it read."""
    deadline = time.monotonic() + timeout_s
    if client == "confluent":
        from confluent_kafka import Consumer

        consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": 500,
            }
        )
        consumer.subscribe([topic])
        try:
            while time.monotonic() < deadline:
                messages = consumer.consume(500, timeout=0.2)
                done = [on_record((m.key(), m.value())) for m in messages if m.error() is None]
                if commit and any(m.error() is None for m in messages):
                    with contextlib.suppress(Exception):
                        consumer.commit(asynchronous=False)
                if any(done):
                    return
        finally:
            consumer.close()
    elif client == "kafka_python":
        from kafka import KafkaConsumer

        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=address,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=500,
        )
        try:
            while time.monotonic() < deadline:
                polled = consumer.poll(timeout_ms=200)
                done = [on_record((r.key, r.value)) for records in polled.values() for r in records]
                if commit and polled:
                    with contextlib.suppress(Exception):
                        consumer.commit()
                if any(done):
                    return
        finally:
            consumer.close()
    else:
        import asyncio

        from aiokafka import AIOKafkaConsumer

        async def run() -> None:
            consumer = AIOKafkaConsumer(
                topic,
                bootstrap_servers=address,
                group_id=group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                session_timeout_ms=SESSION_MS,
                heartbeat_interval_ms=500,
            )
            await consumer.start()
            try:
                while time.monotonic() < deadline:
                    polled = await consumer.getmany(timeout_ms=200)
                    done = [on_record((r.key, r.value)) for records in polled.values() for r in records]
                    if commit and polled:
                        with contextlib.suppress(Exception):
                            await consumer.commit()
                    if any(done):
                        return
            finally:
                await consumer.stop()

        asyncio.run(run())
        return
    if time.monotonic() >= deadline:
        return


def numbered(start: int, count: int) -> list[tuple[bytes, bytes]]:
    return [(b"key-%d" % (n % 97), b"value-%d" % n) for n in range(start, start + count)]


def read_all(client: str, address: str, topic: str, group: str, expected: set[bytes]) -> set[bytes]:
    seen: set[bytes] = set()

    def on_record(record: tuple[bytes, bytes]) -> bool:
        seen.add(record[1])
        return seen >= expected

    consume(client, address, topic, group, on_record)
    return seen


@pytest.mark.parametrize("client", CLIENTS)
def test_produce_and_consume_with_every_compression(broker: BrokerProcess, client: str) -> None:
    expected: set[bytes] = set()
    for position, codec in enumerate(CODECS):
        records = numbered(position * 1000, 300)
        expected.update(value for _, value in records)
        produce(client, broker.address, "t", records, codec)
    assert read_all(client, broker.address, "t", "readers", expected) == expected
    # What one client wrote, another reads.
    other = CLIENTS[(CLIENTS.index(client) + 1) % len(CLIENTS)]
    assert read_all(other, broker.address, "t", "others", expected) == expected


def _member(client: str, address: str, pipe: Any) -> None:
    """A member in a process of its own: tells every record it gets, until it is ended."""

    def on_record(record: tuple[bytes, bytes]) -> bool:
        pipe.send(record[1])
        return False

    consume(client, address, "t", "crew", on_record, timeout_s=60)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_group_of_three_with_a_member_killed(broker: BrokerProcess, client: str) -> None:
    produce(client, broker.address, "t", numbered(0, 600))
    spawn = multiprocessing.get_context("spawn")
    members = []
    for _ in range(3):
        ours, theirs = spawn.Pipe()
        process = spawn.Process(target=_member, args=(client, broker.address, theirs), daemon=True)
        process.start()
        theirs.close()
        members.append((process, ours))
    try:
        seen = [set[bytes]() for _ in members]
        expected = {value for _, value in numbered(0, 600)}
        _gather(members, seen, expected)
        # The next records reach all three only once the group has settled: each owns two of six partitions.
        start, settled = 1000, False
        deadline = time.monotonic() + 40
        while not settled and time.monotonic() < deadline:
            for s in seen:
                s.clear()
            produce(client, broker.address, "t", numbered(start, 300))
            _gather(members, seen, {value for _, value in numbered(start, 300)})
            settled = all(seen)
            start += 300
        assert settled, [len(s) for s in seen]
        victim, _ = members[0]
        assert victim.pid is not None
        os.kill(victim.pid, signal.SIGKILL)
        produce(client, broker.address, "t", numbered(50_000, 300))
        for s in seen:
            s.clear()
        after = {value for _, value in numbered(50_000, 300)}
        _gather(members[1:], seen[1:], after)
        assert seen[1] | seen[2] >= after
    finally:
        for process, _ in members:
            process.kill()
            process.join()


def _gather(members: list[Any], seen: list[set[bytes]], expected: set[bytes], timeout_s: float = 40) -> None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and not set().union(*seen) >= expected:
        for position, (_, pipe) in enumerate(members):
            while pipe.poll(0.01):
                seen[position].add(pipe.recv())


@pytest.mark.parametrize("client", CLIENTS)
def test_nothing_acknowledged_is_lost_when_the_broker_is_killed(broker: BrokerProcess, client: str) -> None:
    first, second = numbered(0, 500), numbered(5000, 500)
    produce(client, broker.address, "t", first, "lz4")
    got = read_all(client, broker.address, "t", "g", {v for _, v in first})
    assert got == {v for _, v in first}
    produce(client, broker.address, "t", second)
    broker.kill()
    broker.start()
    again = read_all(client, broker.address, "t", "g", {v for _, v in second})
    assert again == {v for _, v in second}, "the committed offsets or the records were lost"
