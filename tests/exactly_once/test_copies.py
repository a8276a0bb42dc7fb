"""Copies are exact, in order and whole, whatever request the broker dies at. `pytest tests/exactly_once --copies 50` runs fifty
stories of each client.

confluent-kafka and kafka-python are not among them: both lose or repeat records with Apache Kafka's brokers as well
(docs/features/other-clients.md; `test_other_clients`).
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.client import TopicPartition
from coterie.client.blocking import BlockingAdmin, BlockingConsumer, BlockingProducer
from coterie.client.errors import KafkaError
from tests.awaiting import until_in_thread
from tests.broker_process import BrokerProcess, free_port
from tests.exactly_once.copiers import COPIERS, GROUP, INPUT, OUTPUT, copy_all
from tests.exactly_once.explained import findings
from tests.exactly_once.recording_proxy import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    END_TXN,
    INIT_PRODUCER_ID,
    PRODUCE,
    TXN_OFFSET_COMMIT,
    Moment,
    RecordingProxy,
    Strike,
)

pytestmark = pytest.mark.slow

PARTITIONS, RECORDS, STRIKES = 2, 60, 4
PATIENCE_S = 40.0  # of a machine with other work
STRUCK = [PRODUCE, ADD_PARTITIONS, ADD_OFFSETS, TXN_OFFSET_COMMIT, END_TXN] * 3 + [INIT_PRODUCER_ID]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(metafunc.config.getoption("--copies")))


class Story:
    """A broker in a process, a proxy before it, and topics of `PARTITIONS` partitions with `RECORDS` records each."""

    def __init__(self, folder: Path) -> None:
        port = free_port()
        self.broker = BrokerProcess(
            folder / "data",
            *("--set", "offsets.topic.num.partitions=1", "--set", "transaction.state.log.num.partitions=1"),
        )
        self.proxy = RecordingProxy(port, self.broker.port)
        self._address = {"bootstrap.servers": self.proxy.address}
        with BlockingAdmin(self._address) as admin:
            for topic in (INPUT, OUTPUT):
                admin.create_topic(topic, PARTITIONS)
        with BlockingProducer(self._address) as producer:
            for number in range(RECORDS):
                for partition in range(PARTITIONS):
                    producer.send(INPUT, b"%d" % number, partition=partition)

    def close(self) -> None:
        self.proxy.close()
        self.broker.kill()

    def is_copied(self) -> bool:
        """By the committed offsets."""
        try:
            with BlockingAdmin(self._address) as admin:
                committed = admin.list_consumer_group_offsets(GROUP)
        except KafkaError:
            return False
        return all(committed.get(TopicPartition(INPUT, partition)) == RECORDS for partition in range(PARTITIONS))

    def strike(self, rng: random.Random) -> bool:
        """The broker dies at a request, or stops in order, and starts again. False where the copy was over before."""
        process = self.broker.process
        ends = rng.choice([process.kill, process.kill, process.terminate])
        strike = Strike(rng.choice(STRUCK), rng.randint(1, 3), rng.choice(list(Moment)), ends)
        self.proxy.strike_at(strike)
        looks = iter(range(10**9))
        until_in_thread(
            lambda: self.proxy.struck.wait(0.1) or (next(looks) % 10 == 9 and self.is_copied()), f"{strike}", PATIENCE_S
        )
        is_struck = self.proxy.struck.is_set()
        self.proxy.refuse()
        if process.poll() is None and not is_struck:
            process.kill()
        process.wait(60)
        self.broker.start()
        self.proxy.accept()
        return is_struck

    def copies(self) -> dict[int, list[int]]:
        """The committed records of the output, by partition."""
        partitions = [(OUTPUT, number) for number in range(PARTITIONS)]
        copies: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}
        with BlockingConsumer({**self._address, "isolation.level": "read_committed"}) as consumer:
            consumer.assign(partitions)
            ends = consumer.end_offsets(partitions)
            consumer.seek_to_beginning()
            while any(consumer.position(partition) < end for partition, end in ends.items()):
                for partition, records in consumer.poll(1000).items():
                    copies[partition.partition] += [int(record.value or b"-1") for record in records]
        return copies


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    new = Story(tmp_path)
    yield new
    new.close()


@pytest.mark.parametrize("client", COPIERS)
def test_a_copy_is_exact_whatever_request_the_broker_dies_at(story: Story, client: str, seed: int) -> None:
    rng, stopped = random.Random(f"{client} {seed}"), threading.Event()
    copier = COPIERS[client](story.proxy.address)
    thread = threading.Thread(target=copy_all, args=(copier, stopped, random.Random(f"{client} {seed}")))
    thread.start()
    try:
        for _ in range(STRIKES):
            if not story.strike(rng):
                break
        until_in_thread(
            story.is_copied, lambda: f"all is copied: {findings(story.proxy.exchanges, OUTPUT)}", PATIENCE_S, 0.1
        )
    finally:
        stopped.set()
        thread.join(PATIENCE_S)
    copies = story.copies()
    assert copies == {number: list(range(RECORDS)) for number in range(PARTITIONS)}, findings(
        story.proxy.exchanges, OUTPUT
    )
