"""The transaction coordinator behind real clients: ours and, as users, confluent-kafka's and aiokafka's."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka import TopicPartition as AIOKafkaTopicPartition
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka import TopicPartition as ConfluentTopicPartition
from kafka import KafkaProducer as KafkaPythonProducer

from coterie.broker.settings.features import TRANSACTION_VERSION, FeatureUpdate, UpgradeType
from coterie.client import ConfigError, ConsumerGroupMetadata, KafkaError, Producer
from coterie.coordinator.transactions.state import Status, Transaction, decode_transaction
from coterie.log.config import LogConfig
from coterie.log.filesystem import MemoryFileSystem
from coterie.log.partition_log import PartitionLog
from coterie.records.batch import TRANSACTIONAL_BIT
from coterie.records.encoding import encode_batch
from coterie.records.markers import end_of_transaction
from coterie.testing import ErrorCode, LocalBroker
from coterie.wire.messages.logs.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker_process import BrokerProcess
from tests.client.group import member, polled, read, settled

T0 = ("t", 0)


@pytest.fixture
def broker(coterie_broker: LocalBroker) -> LocalBroker:
    coterie_broker.create_topic("t", 1)
    coterie_broker.create_topic("in", 1)
    return coterie_broker


def producer(broker: LocalBroker, transactional_id: str = "mover") -> Producer:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": transactional_id, "linger.ms": 0}
    return Producer(settings | {"retry.backoff.ms": 10, "default.api.timeout.ms": 5_000})


def status(broker: LocalBroker, transactional_id: str = "mover") -> Status:
    return broker._call(lambda: broker.broker.transactions.transaction(transactional_id).status)


async def test_committed_records_are_seen_and_aborted_ones_never(broker: LocalBroker) -> None:
    async with producer(broker) as one, member(broker, isolation_level="read_committed", group_id=None) as reader:
        await reader.assign([T0])
        await one.init_transactions()
        for n in range(4):
            one.begin_transaction()
            for k in range(3):
                await one.send("t", b"%d-%d" % (n, k))
            await one.flush()
            await (one.commit_transaction() if n % 2 else one.abort_transaction())
            assert status(broker) == (Status.COMPLETE_COMMIT if n % 2 else Status.COMPLETE_ABORT)
        assert await read(reader, 6) == [b"1-0", b"1-1", b"1-2", b"3-0", b"3-1", b"3-2"]
        await polled(reader, lambda: reader.position(T0) == 16)  # 12 records and 4 markers
        assert reader.lag() == {T0: 0}
    async with member(broker, group_id=None) as everything:
        await everything.assign([T0])
        assert len(await read(everything, 12)) == 12


async def test_an_open_transaction_holds_readers_of_committed_records_back(broker: LocalBroker) -> None:
    async with producer(broker) as one, member(broker, isolation_level="read_committed", group_id=None) as reader:
        await one.init_transactions()
        one.begin_transaction()
        await (await one.send("t", b"open"))
        broker.produce("t", b"plain")
        await reader.assign([T0])
        assert await reader.end_offsets([T0]) == {T0: 0}, "the last stable offset"
        assert await reader.poll(100) == {}
        await one.commit_transaction()
        assert await read(reader, 2) == [b"open", b"plain"]
        assert await reader.end_offsets([T0]) == {T0: 3}


async def test_offsets_are_committed_with_the_records_or_not_at_all(broker: LocalBroker) -> None:
    """Read, write, commit the offsets in one transaction; an aborted one leaves the group where it was."""
    broker.produce("in", b"a", b"b")
    async with producer(broker) as one, await settled(member(broker, enable_auto_commit=False), 1, "in") as reader:
        await one.init_transactions()
        await polled(reader, lambda: reader.position(("in", 0)) == 2)

        async def fails() -> None:
            async with one.transaction():
                await one.send("t", b"A")
                await one.send_offsets_to_transaction({("in", 0): 1}, reader.group_metadata())
                raise ValueError("the user's own")

        with pytest.raises(ValueError, match="the user's own"):
            await fails()
        assert broker.committed("g") == {}
        async with one.transaction():
            await one.send("t", b"A")
            await one.send_offsets_to_transaction({("in", 0): 2}, reader.group_metadata())
            assert broker.committed("g") == {}, "pending"
        assert broker.committed("g") == {("in", 0): 2}
        # A consumer that is no member any more cannot commit through a producer either.
        late = reader.group_metadata()._replace(generation_id=99)
        with pytest.raises(KafkaError, match="ILLEGAL_GENERATION"):
            async with one.transaction():
                await one.send_offsets_to_transaction({("in", 0): 9}, late)
        async with one.transaction():
            await one.send("t", b"after")
        assert broker.committed("g") == {("in", 0): 2}


@pytest.mark.parametrize("level", [0, 1, 2])
async def test_the_producer_uses_the_version_that_the_cluster_has(broker: LocalBroker, level: int) -> None:
    """Of version 2 nothing is added by a request of its own, and each transaction has its epoch (KIP-890)."""
    update = FeatureUpdate(TRANSACTION_VERSION, level, UpgradeType.SAFE_DOWNGRADE)
    broker._call(lambda: broker.broker.features.update([update], validate_only=False))
    async with producer(broker) as one:
        await one.init_transactions()
        for n in range(3):
            one.begin_transaction()
            await one.send_and_wait("t", b"%d" % n)
            await one.send_offsets_to_transaction({("in", 0): n}, ConsumerGroupMetadata("g"))
            await (one.commit_transaction() if n != 1 else one.abort_transaction())
    state = broker._call(lambda: broker.broker.transactions.transaction("mover"))
    assert (state.epoch, state.client_transaction_version) == ((3, 2) if level == 2 else (0, 0))
    assert broker.committed("g") == {("in", 0): 2}
    adds = [broker.requested("AddPartitionsToTxn"), broker.requested("AddOffsetsToTxn")]
    assert adds == ([0, 0] if level == 2 else [3, 3])


async def test_a_newer_producer_fences_the_older(broker: LocalBroker) -> None:
    async with producer(broker) as old, producer(broker) as new:
        await old.init_transactions()
        old.begin_transaction()
        await (await old.send("t", b"old"))
        await new.init_transactions()
        assert status(broker) == Status.EMPTY, "the old one's transaction was aborted"
        with pytest.raises(KafkaError) as fenced:
            await old.commit_transaction()
        assert fenced.value.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
        with pytest.raises(KafkaError, match="make a new one"):
            old.begin_transaction()
        async with new.transaction():
            await new.send("t", b"new")
        async with member(broker, isolation_level="read_committed", group_id=None) as reader:
            await reader.assign([T0])
            assert await read(reader) == [b"new"]


async def test_what_a_producer_may_not_do(broker: LocalBroker) -> None:
    async with producer(broker) as one:
        with pytest.raises(KafkaError, match="init_transactions was not called"):
            one.begin_transaction()
        await one.init_transactions()
        with pytest.raises(KafkaError, match="no transaction is open"):
            await one.send("t", b"x")
        one.begin_transaction()
        await one.commit_transaction()  # nothing in it: nothing is asked
        assert broker.requested("EndTxn") == 0
    async with Producer({"bootstrap.servers": broker.bootstrap_servers}) as plain:
        with pytest.raises(ConfigError, match=r"no transactional\.id"):
            await plain.init_transactions()
    with pytest.raises(ConfigError, match="acks=all"):
        Producer({"bootstrap.servers": "127.0.0.1:1", "transactional.id": "x", "acks": "1"})
    long_ms = {"transactional.id": "mover", "transaction.timeout.ms": 10**9}
    too_long = Producer({"bootstrap.servers": broker.bootstrap_servers} | long_ms)
    with pytest.raises(KafkaError, match="INVALID_TRANSACTION_TIMEOUT"):
        await too_long.init_transactions()
    await too_long.close()


async def test_a_transaction_that_is_open_too_long_is_aborted(broker: LocalBroker) -> None:
    async with producer(broker) as one:
        await one.init_transactions()
        one.begin_transaction()
        await (await one.send("t", b"slow"))
        broker.jump(60_001)
        broker._call(broker.broker.transactions.tick)
        assert status(broker) == Status.COMPLETE_ABORT
        with pytest.raises(KafkaError):
            await one.commit_transaction()


async def test_a_failed_record_spoils_the_transaction_and_the_next_goes_on(broker: LocalBroker) -> None:
    async with producer(broker) as one:
        await one.init_transactions()
        one.begin_transaction()
        broker.fail("Produce", ErrorCode.MESSAGE_TOO_LARGE)
        heard: list[tuple[object, int]] = []
        await one.send("t", b"x", on_delivery=lambda metadata, error: heard.append((error, metadata.offset)))
        with pytest.raises(KafkaError, match="must be aborted"):
            await one.commit_transaction()
        ((error, offset),) = heard
        assert isinstance(error, KafkaError)
        assert offset == -1
        await one.abort_transaction()
        async with one.transaction():
            await one.send("t", b"y", on_delivery=lambda metadata, error: heard.append((error, metadata.offset)))
        assert heard[1][0] is None


def test_confluents_transactional_producer_and_consumer(broker: LocalBroker) -> None:
    broker.produce("in", b"a")
    address = {"bootstrap.servers": broker.bootstrap_servers}
    group = {"group.id": "c", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    reader = ConfluentConsumer(address | group)
    reader.subscribe(["in"])
    assert reader.poll(10) is not None
    one = ConfluentProducer(address | {"transactional.id": "confluent"})
    one.init_transactions(10)
    one.begin_transaction()
    one.produce("t", b"aborted")
    one.abort_transaction(10)
    one.begin_transaction()
    one.produce("t", b"committed")
    one.send_offsets_to_transaction([ConfluentTopicPartition("in", 0, 1)], reader.consumer_group_metadata(), 10)
    one.commit_transaction(10)
    assert broker.committed("c") == {("in", 0): 1}
    reader.close()
    check = ConfluentConsumer(address | group | {"group.id": "d", "isolation.level": "read_committed"})
    check.subscribe(["t"])
    message = check.poll(10)
    assert message is not None
    assert message.value() == b"committed"
    check.close()


def test_aiokafkas_and_kafka_pythons_transactional_producers(broker: LocalBroker) -> None:
    async def aiokafkas() -> None:
        one = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id="aiokafka")
        await one.start()
        await one.begin_transaction()
        await one.send_and_wait("t", b"aborted")
        await one.abort_transaction()
        async with one.transaction():
            await one.send_and_wait("t", b"aiokafka")
            await one.send_offsets_to_transaction({AIOKafkaTopicPartition("in", 0): 5}, "c")
        await one.stop()

    asyncio.run(aiokafkas())
    assert broker.committed("c") == {("in", 0): 5}
    one = KafkaPythonProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id="kafka-python")
    one.init_transactions()
    one.begin_transaction()
    one.send("t", b"kafka-python").get(10)
    one.commit_transaction()
    one.close()

    async def check() -> None:
        async with member(broker, isolation_level="read_committed", group_id=None) as reader:
            await reader.assign([T0])
            assert await read(reader, 2) == [b"aiokafka", b"kafka-python"]

    asyncio.run(check())


def test_transactions_survive_a_crash(tmp_path: Path) -> None:
    """SIGKILL in an open transaction: it is still open, holds readers back, and its successor aborts it."""
    process = BrokerProcess(tmp_path / "data")

    async def story() -> None:
        address = {"bootstrap.servers": process.address, "retry.backoff.ms": 20}
        async with Producer(address | {"transactional.id": "x"}) as one:
            await one.init_transactions()
            async with one.transaction():
                await one.send("t", b"done", partition=0)
            one.begin_transaction()
            await (await one.send("t", b"open", partition=0))
            process.kill()
            process.start()
            await one.close(timeout_ms=0)  # an orderly close would abort
        from coterie.client import Consumer

        more = {"isolation.level": "read_committed", "auto.offset.reset": "earliest", "fetch.max.wait.ms": 50}
        async with Consumer(address | more) as reader, Producer(address | {"transactional.id": "x"}) as two:
            await reader.assign([T0])
            assert await read(reader) == [b"done"]
            assert (await reader.end_offsets([T0])) == {T0: 2}
            await two.init_transactions()
            async with two.transaction():
                await two.send("t", b"two", partition=0)
            assert await read(reader) == [b"two"]

    try:
        asyncio.run(story())
    finally:
        process.stop()


async def test_nobody_is_new_before_everything_is_loaded(broker: LocalBroker) -> None:
    """A producer that returns at once after a restart must not be taken for one that was never there."""
    async with producer(broker) as one:
        await one.init_transactions()
        one.begin_transaction()
        await (await one.send("t", b"open"))
        transactions = broker.broker.transactions

        def forget() -> None:
            for hosted in transactions._hosted.values():
                transactions._resign(hosted)

        broker._call(forget)
        async with producer(broker) as two:
            requested = broker.requested("InitProducerId")
            coming = asyncio.create_task(two.init_transactions())
            await asyncio.to_thread(broker.until_requested, "InitProducerId", requested + 2)
            broker._call(lambda: transactions.start(lambda: None))
            await coming
        assert status(broker) == Status.EMPTY
        with pytest.raises(KafkaError):
            await one.commit_transaction()


def test_the_stored_state_is_kafkas() -> None:
    """Key and value of `__transaction_state`, field by field (TransactionLogKey.json, TransactionLogValue.json)."""
    described = Transaction("x", 7, 2, 60_000, Status.ONGOING, frozenset({("t", 1), ("t", 0)}), 5, 4)
    assert described.key() == b"\x00\x00\x00\x01x"
    assert described.value(0) == (
        b"\x00\x00" + (7).to_bytes(8, "big") + b"\x00\x02" + (60_000).to_bytes(4, "big") + b"\x01"
        b"\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x01"
        + (5).to_bytes(8, "big")
        + (4).to_bytes(8, "big")
    )
    assert decode_transaction(described.key(), described.value(0)) == described
    bumped = replace(described, previous_producer_id=6, next_producer_id=9, client_transaction_version=2)
    assert decode_transaction(described.key(), bumped.value(0)) == described, "level 0 has no tags"
    for level in (1, 2):
        assert bumped.value(level) == (
            b"\x00\x01" + (7).to_bytes(8, "big") + b"\x00\x02" + (60_000).to_bytes(4, "big") + b"\x01"
            b"\x02\x02t\x03\x00\x00\x00\x00\x00\x00\x00\x01\x00"
            + (5).to_bytes(8, "big")
            + (4).to_bytes(8, "big")
            + (b"\x03\x00\x08" + (6).to_bytes(8, "big") + b"\x01\x08" + (9).to_bytes(8, "big") + b"\x02\x02\x00\x02")
        )
        assert decode_transaction(bumped.key(), bumped.value(level)) == bumped
    with pytest.raises(ValueError, match="version 7"):
        decode_transaction(described.key(), b"\x00\x07" + described.value(0)[2:])


def test_a_producer_in_an_open_transaction_is_not_forgotten() -> None:
    """Found on reading: expired by its records' old timestamps, it took along where its transaction began, and after an
    orderly restart readers of committed records went past it."""
    fs = MemoryFileSystem()
    log = PartitionLog.open(fs, "t-0", LogConfig(), clean=True)
    for producer_id, attributes in ((1, TRANSACTIONAL_BIT), (2, 0)):
        batch = encode_batch(
            [(1, None, b"v", ())], producer_id=producer_id, producer_epoch=0, base_sequence=0, attributes=attributes
        )
        log.append(batch, 1)
    log.producers.expire(1_000, log.transactions.open)
    assert set(log.producers.by_id) == {1}
    log.close()
    assert PartitionLog.open(fs, "t-0", LogConfig(), clean=True).last_stable_offset == 0


@pytest.mark.parametrize("length", [0, 40])
def test_a_batch_that_lies_about_its_length_is_corrupt(broker: LocalBroker, length: int) -> None:
    """Found on reading: looking for transactional batches before the log did cost the client its connection."""
    whole = encode_batch([(1, None, b"v" * 40, ())])
    data = [
        TopicProduceData(
            "t", partition_data=[PartitionProduceData(0, whole[:8] + length.to_bytes(4, "big") + whole[12:])]
        )
    ]
    response = broker._request(ProduceRequest(None, -1, 30_000, data), broker.host, broker.port)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_remembers_its_transactions(clean: bool) -> None:
    """Open and aborted ones, from snapshot and `.txnindex` after an orderly end, from the batches after a crash."""
    fs = MemoryFileSystem()
    log = PartitionLog.open(fs, "t-0", LogConfig(), clean=True)

    def write(producer_id: int, sequence: int) -> None:
        batch = encode_batch(
            [(1, None, b"v", ())],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            attributes=TRANSACTIONAL_BIT,
        )
        log.append(batch, 1)

    write(1, 0)
    write(2, 0)
    log.append_own(end_of_transaction(1, 0, False, 0, 1), 1)
    write(1, 1)
    log.append_own(end_of_transaction(1, 0, True, 0, 1), 1)
    assert log.last_stable_offset == 1
    if clean:
        log.close()
    again = PartitionLog.open(fs, "t-0", LogConfig(), clean=clean)
    assert again.last_stable_offset == 1
    assert [(a.producer_id, a.first_offset, a.last_offset) for a in again.transactions.aborted] == [(1, 0, 2)]
    assert again.transactions.aborted_between(3, 9) == []
    again.append_own(end_of_transaction(2, 0, False, 0, 1), 1)
    assert again.last_stable_offset == again.end_offset == 6
    assert [a.producer_id for a in again.transactions.aborted_between(1, 2)] == [1, 2]


async def test_the_markers_of_a_broker_alone_fence_no_other_of_its_own(broker: LocalBroker) -> None:
    """Seed 20310 of the stories: a power cut took the leader epoch under which a marker had been written, and the next marker
    was taken for that of a former coordinator: its transaction never ended."""
    transactions = broker.broker.transactions

    def load_in_epoch_3() -> None:
        for hosted in transactions._hosted.values():
            hosted.partition.log.begin_epoch(3)
            transactions._resign(hosted)
        transactions.start(lambda: None)

    async with producer(broker) as one:
        await one.init_transactions()
        broker._call(load_in_epoch_3)
        one.begin_transaction()
        await (await one.send("t", b"a", partition=0))
        await one.commit_transaction()
    log = broker.broker.topics.partition("t", 0).log
    assert {written.coordinator_epoch for written in log.producers.by_id.values()} == {0}
