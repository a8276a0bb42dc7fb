"""Transactions on LocalBroker(brokers=3): whole or not at all, whichever broker goes meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coterie.client import ConsumerGroupMetadata, KafkaError, TransactionAbortableError
from coterie.client.blocking import BlockingAdmin, BlockingConsumer, BlockingProducer
from coterie.testing import LocalBroker
from tests.awaiting import until_in_thread

TOPIC, RESULTS, GROUP, ID = "orders", "results", "billing", "ledger"
SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
}


@pytest.fixture
def cluster() -> Iterator[LocalBroker]:
    with LocalBroker(SETTINGS, brokers=3) as brokers:
        brokers.create_topic(TOPIC, 3)
        yield brokers


@pytest.fixture(params=[0, 2])
def version(request: pytest.FixtureRequest, cluster: LocalBroker) -> int:
    """transaction.version of the cluster."""
    level: int = request.param
    assert cluster._cluster is not None
    for broker in cluster._cluster.brokers.values():
        broker.broker.features._levels["transaction.version"] = level
    return level


def producer_of(cluster: LocalBroker, transactional_id: str = ID, **settings: str) -> BlockingProducer:
    own = {name.replace("_", "."): value for name, value in settings.items()}
    address = {"bootstrap.servers": cluster.bootstrap_servers}
    producer = BlockingProducer(address | {"transactional.id": transactional_id, "request.timeout.ms": "2000"} | own)
    producer.init_transactions()
    return producer


def send(producer: BlockingProducer, *values: bytes, topic: str = TOPIC) -> None:
    """One to each partition."""
    for partition in range(3):
        for value in values:
            producer.send(topic, value, partition=partition)


def committed_records(cluster: LocalBroker, expected: int, topic: str = TOPIC) -> list[bytes]:
    """All that a reader of committed records gets, of which there must be ``expected``."""
    values: list[bytes] = []
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "isolation.level": "read_committed"}
    with BlockingConsumer(settings | {"auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([(topic, partition) for partition in range(3)])

        def read() -> bool:
            for records in consumer.poll(50).values():
                values.extend(record.value or b"" for record in records)
            ends = consumer.end_offsets(consumer.assignment())
            return len(values) >= expected and all(consumer.position(p) >= end for p, end in ends.items())

        until_in_thread(read, lambda: f"{len(values)} of {expected} records")
    return sorted(values)


def until_committed(cluster: LocalBroker, offsets: dict[tuple[str, int], int]) -> None:
    """These, and no others: a group without a coordinator, for a moment, has none."""
    until_in_thread(lambda: cluster.committed(GROUP) == offsets, lambda: f"{cluster.committed(GROUP)}, not {offsets}")


def test_what_is_committed_is_read_and_what_is_aborted_is_not(cluster: LocalBroker, version: int) -> None:
    with producer_of(cluster) as producer:
        for number in range(6):
            producer.begin_transaction()
            send(producer, b"%d" % number)
            if number % 2:
                producer.flush()
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    assert committed_records(cluster, 9) == sorted([b"0", b"2", b"4"] * 3)


def test_a_transaction_that_begins_and_is_aborted_at_once_after_a_commit(cluster: LocalBroker, version: int) -> None:
    """The markers of the commit are not written yet when the abort comes, under the next epoch where each end bumps it: its
    producer tries again, and is not fenced."""
    with producer_of(cluster) as producer:
        for number in range(20):
            producer.begin_transaction()
            send(producer, b"%02d" % number)
            producer.commit_transaction()
            producer.begin_transaction()
            producer.send(TOPIC, b"aborted", partition=number % 3)
            producer.abort_transaction()
    assert committed_records(cluster, 60) == sorted([b"%02d" % number for number in range(20)] * 3)


@pytest.mark.parametrize("end", ["kill", *(pytest.param(end, marks=pytest.mark.slow) for end in ("stop", "partition"))])
def test_a_transaction_goes_on_when_its_coordinator_is_gone(cluster: LocalBroker, version: int, end: str) -> None:
    with producer_of(cluster) as producer:
        producer.begin_transaction()
        send(producer, b"before")
        producer.flush()
        coordinator = cluster.transaction_coordinator_of(ID)
        getattr(cluster, end)(coordinator)
        send(producer, b"after")
        producer.commit_transaction()
        assert cluster.transaction_coordinator_of(ID) != coordinator
        producer.begin_transaction()
        send(producer, b"aborted")
        producer.flush()
        producer.abort_transaction()
    assert committed_records(cluster, 6) == [b"after"] * 3 + [b"before"] * 3


def test_an_open_transaction_of_a_producer_that_died_is_aborted_by_the_next_coordinator(
    cluster: LocalBroker, version: int
) -> None:
    left = producer_of(cluster, transaction_timeout_ms="1500")
    left.begin_transaction()
    send(left, b"lost")
    left.flush()
    cluster.kill(cluster.transaction_coordinator_of(ID))
    with producer_of(cluster, "other") as producer:
        producer.begin_transaction()
        send(producer, b"kept")
        producer.commit_transaction()
    assert committed_records(cluster, 3) == [b"kept"] * 3  # after the abort, which lets readers go on
    left.close()


def test_a_newer_producer_fences_the_older(cluster: LocalBroker, version: int) -> None:
    older = producer_of(cluster)
    older.begin_transaction()
    send(older, b"older")
    older.flush()
    with producer_of(cluster) as newer:
        newer.begin_transaction()
        send(newer, b"newer")
        newer.commit_transaction()
    with pytest.raises(KafkaError):
        older.commit_transaction()
    older.close()
    assert committed_records(cluster, 3) == [b"newer"] * 3


def test_offsets_are_committed_with_their_transaction(cluster: LocalBroker, version: int) -> None:
    """testWithGroupMetadata of TransactionsBounceTest, in small: read, process, write, while both coordinators go."""
    cluster.create_topic(RESULTS, 3)
    cluster.produce(TOPIC, *[b"%d" % n for n in range(30)], partition=0)
    group = {"group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": "false", "max.poll.records": "5"}
    rounds, done = 0, dict[tuple[str, int], int]()  # what transactions have committed
    with (
        BlockingConsumer({"bootstrap.servers": cluster.bootstrap_servers} | group) as consumer,
        producer_of(cluster) as producer,
    ):
        consumer.subscribe([TOPIC])
        while sum(cluster.committed(GROUP).values()) < 30:
            polled = consumer.poll(200)
            if not polled:
                continue
            producer.begin_transaction()
            offsets = {}
            for partition, records in polled.items():
                for record in records:
                    producer.send(RESULTS, record.value, partition=0)
                offsets[partition] = records[-1].offset + 1
            producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
            rounds += 1
            if rounds % 3 == 2:
                producer.flush()
                producer.abort_transaction()
                until_committed(cluster, done)
                for partition in polled:
                    consumer.seek(partition, done.get((partition.topic, partition.partition), 0))
                continue
            if rounds == 3:
                cluster.kill(cluster.coordinator_of(GROUP))
            producer.commit_transaction()
            done |= {(partition.topic, partition.partition): offset for partition, offset in offsets.items()}
    assert committed_records(cluster, 30, RESULTS) == sorted(b"%d" % n for n in range(30))


def test_confluents_producer_goes_on_when_its_coordinator_dies(cluster: LocalBroker) -> None:
    confluent = pytest.importorskip("confluent_kafka")
    producer = confluent.Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": ID, "socket.timeout.ms": 5000}
    )
    producer.init_transactions(20)
    for number in range(6):
        producer.begin_transaction()
        for partition in range(3):
            producer.produce(TOPIC, b"%d" % number, partition=partition)
        assert producer.flush(20) == 0
        if number == 2:
            cluster.kill(cluster.transaction_coordinator_of(ID))
        if number % 2:
            producer.abort_transaction(20)
        else:
            producer.commit_transaction(20)
    assert committed_records(cluster, 9) == sorted([b"0", b"2", b"4"] * 3)


def test_a_topic_that_is_deleted_holds_no_transaction_up(cluster: LocalBroker, version: int) -> None:
    """Its partition needs no marker: the transaction ends on the others, and the next one begins."""
    cluster.create_topic(RESULTS, 3)
    with producer_of(cluster) as producer:
        producer.begin_transaction()
        send(producer, b"kept")
        send(producer, b"gone", topic=RESULTS)
        producer.flush()
        with BlockingAdmin({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
            admin.delete_topic(RESULTS)
        producer.commit_transaction()
        producer.begin_transaction()
        send(producer, b"next")
        producer.commit_transaction()
    assert committed_records(cluster, 6) == [b"kept"] * 3 + [b"next"] * 3


@pytest.mark.slow
@pytest.mark.parametrize("metadata", [False, True])
def test_transactions_go_on_while_all_brokers_are_bounced(cluster: LocalBroker, *, metadata: bool) -> None:
    """testWithGroupId and testWithGroupMetadata of TransactionsBounceTest: each record is processed exactly once."""
    cluster.create_topic(RESULTS, 3)
    for partition in range(3):
        cluster.produce(TOPIC, *[b"%d-%02d" % (partition, n) for n in range(20)], partition=partition)
    bounced = [1, 2, 3]
    group = {"group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": "false", "max.poll.records": "6"}
    address = {"bootstrap.servers": cluster.bootstrap_servers}
    with BlockingConsumer(address | group) as consumer, producer_of(cluster) as producer:
        consumer.subscribe([TOPIC])
        while sum(cluster.committed(GROUP).values()) < 60:
            polled = consumer.poll(200)
            if not polled:
                continue
            if bounced:
                broker = bounced.pop(0)
                cluster.kill(broker)
                cluster.restart(broker)
            who = consumer.group_metadata() if metadata else ConsumerGroupMetadata(GROUP)
            producer.begin_transaction()
            try:
                for records in polled.values():
                    for record in records:
                        producer.send(RESULTS, record.value, partition=record.partition)
                ends = {partition: records[-1].offset + 1 for partition, records in polled.items()}
                producer.send_offsets_to_transaction(ends, who)
                producer.commit_transaction()
            except TransactionAbortableError:
                producer.abort_transaction()
                for topic_partition, records in polled.items():
                    consumer.seek(topic_partition, records[0].offset)
    assert not bounced
    expected = sorted(b"%d-%02d" % (partition, n) for partition in range(3) for n in range(20))
    assert committed_records(cluster, 60, RESULTS) == expected
