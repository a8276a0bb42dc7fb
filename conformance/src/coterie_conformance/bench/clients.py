"""Our consumer and producer beside aiokafka, kafka-python and confluent-kafka: the same broker, topic and records, each
client in a process of its own, written as its users write it; the best of three runs, since the machine is shared.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from coterie.text.addresses import format_address
from coterie_conformance.bench.loads import load
from coterie_conformance.bench.measurement import Measurement, broker

VALUE = b"x" * 100
PARTITIONS = 6
CONSUMED, PRODUCED = 3_000_000, 300_000
RUNS = 3
BATCH_BYTES, LINGER_MS = 131_072, 5
PEERS = {"aiokafka": "aiokafka", "kafka-python": "kafka", "confluent-kafka": "confluent_kafka"}


def _group() -> str:
    return f"bench-{time.time()}"


async def _ours_produce(address: str, count: int) -> None:
    from coterie.client import Producer

    settings = {"bootstrap.servers": address, "linger.ms": LINGER_MS, "batch.size": BATCH_BYTES}
    async with Producer(settings) as producer:
        for _ in range(count):
            await producer.send(load.TOPIC, VALUE)


async def _ours_consume(address: str, count: int) -> None:
    from coterie.client import Consumer

    settings = {"bootstrap.servers": address, "group.id": _group(), "auto.offset.reset": "earliest"}
    async with Consumer(settings) as consumer:
        consumer.subscribe([load.TOPIC])
        while count > 0:
            for records in (await consumer.poll(1000)).values():
                count -= len(records)


async def _ours_consume_arrow(address: str, count: int) -> None:
    from coterie.client import Consumer

    settings = {"bootstrap.servers": address, "group.id": _group(), "auto.offset.reset": "earliest"}
    async with Consumer(settings) as consumer:
        consumer.subscribe([load.TOPIC])
        while count > 0:
            count -= (await consumer.poll_arrow(1000)).num_rows


async def _aiokafka_produce(address: str, count: int) -> None:
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(bootstrap_servers=address, linger_ms=LINGER_MS, max_batch_size=BATCH_BYTES, acks="all")
    await producer.start()
    for _ in range(count):
        await producer.send(load.TOPIC, VALUE)
    await producer.stop()


async def _aiokafka_consume(address: str, count: int) -> None:
    from aiokafka import AIOKafkaConsumer

    consumer = AIOKafkaConsumer(load.TOPIC, bootstrap_servers=address, group_id=_group(), auto_offset_reset="earliest")
    await consumer.start()
    while count > 0:
        for records in (await consumer.getmany(timeout_ms=1000, max_records=500)).values():
            count -= len(records)
    await consumer.stop()


def _kafka_python_produce(address: str, count: int) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=address, linger_ms=LINGER_MS, batch_size=BATCH_BYTES, acks="all")
    for _ in range(count):
        producer.send(load.TOPIC, VALUE)
    producer.flush()
    producer.close()


def _kafka_python_consume(address: str, count: int) -> None:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(load.TOPIC, bootstrap_servers=address, group_id=_group(), auto_offset_reset="earliest")
    while count > 0:
        for records in consumer.poll(1000).values():
            count -= len(records)
    consumer.close()


def _confluent_produce(address: str, count: int) -> None:
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": address, "linger.ms": LINGER_MS, "batch.size": BATCH_BYTES}
    producer = Producer(settings | {"queue.buffering.max.messages": 1_000_000, "enable.idempotence": True})
    for _ in range(count):
        producer.produce(load.TOPIC, VALUE)
    producer.flush()


def _confluent_consume(address: str, count: int) -> None:
    from confluent_kafka import Consumer

    consumer = Consumer({"bootstrap.servers": address, "group.id": _group(), "auto.offset.reset": "earliest"})
    consumer.subscribe([load.TOPIC])
    while count > 0:
        count -= len(consumer.consume(500, 1))
    consumer.close()


RUNNERS: dict[str, dict[str, Callable[[str, int], Any]]] = {
    "produce": {
        "coterie": _ours_produce,
        "aiokafka": _aiokafka_produce,
        "kafka-python": _kafka_python_produce,
        "confluent-kafka": _confluent_produce,
    },
    "consume": {
        "coterie": _ours_consume,
        "coterie, as Arrow tables": _ours_consume_arrow,
        "aiokafka": _aiokafka_consume,
        "kafka-python": _kafka_python_consume,
        "confluent-kafka": _confluent_consume,
    },
}


def clients(folder: Path) -> Iterator[Measurement]:
    """Records/s of each, ours as a ratio to the peers'; a peer that is not installed is left out."""
    there = [name for name, module in PEERS.items() if importlib.util.find_spec(module) is not None]
    with broker(folder) as ((host, port), _):
        load.create_topic((host, port), PARTITIONS)
        for verb, count in (("produce", PRODUCED), ("consume", CONSUMED)):
            if verb == "consume":
                rate("produce", "coterie", format_address(host, port), CONSUMED)
            names = [n for n in RUNNERS[verb] if n.startswith("coterie") or n in there]
            best = {n: max(rate(verb, n, format_address(host, port), count) for _ in range(RUNS)) for n in names}
            for name, per_second in best.items():
                ours = name.startswith("coterie")
                for peer in (p for p in there if ours):
                    yield Measurement(f"{verb} with {name}", per_second, "1/s", best[peer], peer=peer)
                if not ours or not there:
                    yield Measurement(f"{verb} with {name}", per_second, "1/s")


def rate(verb: str, name: str, address: str, count: int) -> float:
    """Records/s in a fresh process; connecting and joining count, starting Python and importing do not."""
    command = [sys.executable, "-m", __name__, verb, name, address, str(count)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    """``VERB NAME ADDRESS COUNT`` of the command line: prints the records per second of one client. The imports are
    made before the clock starts."""
    verb, name, address, count = sys.argv[1:]
    runner = RUNNERS[verb][name]
    for module in ("coterie.client", "coterie.records.columnar", "coterie.records.unfolding"):
        if name.startswith("coterie"):
            importlib.import_module(module)
    if name in PEERS:
        importlib.import_module(PEERS[name])
    started = time.perf_counter()
    done = runner(address, int(count))
    if asyncio.iscoroutine(done):
        asyncio.run(done)
    print(int(count) / (time.perf_counter() - started))


if __name__ == "__main__":
    main()
