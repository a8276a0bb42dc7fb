"""Requests leave no reference cycles with records in them: those stay in memory until Python looks for cycles, in a broker
after 10,000 objects (`runtime/allocator`). A broker of a cluster took 450 MB of Produces of a megabyte."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from coterie.client.blocking import BlockingAdmin, BlockingConsumer, BlockingProducer
from coterie.testing import LocalBroker

RECORD_BYTES = 5_000
TOPIC = "t"


@contextmanager
def no_records_in_cycles() -> Iterator[None]:
    """Fails where garbage of the block refers to as many bytes as a record has."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield
        gc.collect()
        holders = Counter(type(one).__qualname__ for one in gc.garbage if holds_record(one))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not holders


def holds_record(one: object) -> bool:
    return any(isinstance(part, bytes | bytearray) and len(part) >= RECORD_BYTES for part in gc.get_referents(one))


def produce_and_consume(server: str) -> None:
    producer_settings = {"bootstrap.servers": server, "acks": "all", "linger.ms": "0"}
    consumer_settings = {"bootstrap.servers": server, "group.id": "g", "auto.offset.reset": "earliest"}
    with BlockingProducer(producer_settings) as producer, BlockingConsumer(consumer_settings) as consumer:
        consumer.subscribe([TOPIC])
        read = 0
        while read < 10:
            producer.send(TOPIC, bytes(RECORD_BYTES), b"%d" % read).result()
            read += sum(map(len, consumer.poll(2_000).values()))
            consumer.commit()


def commit_transactions(server: str) -> None:
    settings = {"bootstrap.servers": server, "transactional.id": "x"}
    with BlockingProducer(settings) as producer:
        producer.init_transactions()
        for number in range(5):
            producer.begin_transaction()
            producer.send(TOPIC, bytes(RECORD_BYTES), b"%d" % number).result()
            producer.commit_transaction()


@pytest.mark.parametrize("brokers", [1, 3])
@pytest.mark.parametrize("work", [produce_and_consume, commit_transactions])
@pytest.mark.slow
def test_records_are_in_no_cycle(work: Callable[[str], None], brokers: int) -> None:
    with LocalBroker(brokers=brokers) as local:
        server = local.bootstrap_servers
        with BlockingAdmin({"bootstrap.servers": server}) as admin:
            admin.create_topic(TOPIC, 1, replication_factor=brokers)
        work(server)  # the first look-ups, and what is kept for good
        with no_records_in_cycles():
            work(server)


def test_a_cycle_is_seen() -> None:
    def leave_one() -> None:
        cycle: list[object] = [bytes(RECORD_BYTES)]
        cycle.append(cycle)

    with pytest.raises(AssertionError), no_records_in_cycles():
        leave_one()
