"""A share consumer on coterie's broker (Kafka's ShareConsumerTest, ShareConsumerImplTest, ShareConsumerCallbackTest)."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from coterie.client import (
    AcknowledgeType,
    AcquiredRecordError,
    ConfigError,
    KafkaError,
    ShareRecord,
    TopicPartition,
    WakeupError,
)
from coterie.client.blocking import BlockingShareConsumer
from coterie.testing import LocalBroker
from tests.awaiting import until_in_thread

T0 = TopicPartition("t", 0)


@pytest.fixture(scope="module")
def shared_broker() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        broker.create_topic("t", 1)
        yield broker


def joined(broker: LocalBroker, group: str, **settings: str) -> BlockingShareConsumer:
    """A member of a group that begins at the present end of the topic."""
    own = {"bootstrap.servers": broker.bootstrap_servers, "group.id": group, **settings}
    consumer: BlockingShareConsumer = BlockingShareConsumer(own)
    consumer.subscribe(["t"])
    while not consumer.assignment():
        consumer.poll(50)
    consumer.poll(1000)
    return consumer


def polled(consumer: BlockingShareConsumer) -> list[ShareRecord]:
    for _ in range(100):
        records = [record for partition in consumer.poll(1000).values() for record in partition]
        if records:
            return records
    raise AssertionError("no record came")


@pytest.mark.slow
def test_the_next_poll_accepts(shared_broker: LocalBroker) -> None:
    """testImplicitAcknowledgeCommitSync testSubscriptionAndPoll testAcknowledgementCommitCallbackSuccessfulAcknowledgement
    testImplicitAcknowledgeFailsExplicit testAcknowledgementCommitCallbackCallsShareConsumerDisallowed"""
    reports: list[tuple[dict[TopicPartition, set[int]], KafkaError | None]] = []
    with joined(shared_broker, "implicit") as consumer:
        consumer.set_acknowledgement_commit_callback(lambda offsets, error: reports.append((offsets, error)))
        shared_broker.produce("t", b"one", b"two")
        records = polled(consumer)
        assert [(record.value, record.delivery_count) for record in records] == [(b"one", 1), (b"two", 1)]
        with pytest.raises(RuntimeError, match=r"acknowledge needs share\.acknowledgement\.mode=explicit"):
            consumer.acknowledge(records[0])
        assert consumer.commit() == {T0: None}
        assert consumer.commit() == {}
    assert reports == [({T0: {record.offset for record in records}}, None)]


@pytest.mark.slow
def test_a_poll_that_is_woken_keeps_what_it_would_accept(shared_broker: LocalBroker) -> None:
    """testWakeupBeforeCallingPoll testWakeupAfterEmptyFetch testWakeupAfterNonEmptyFetch testSuccessfulStartupShutdown"""
    with joined(shared_broker, "woken") as consumer:
        shared_broker.produce("t", b"one")
        records = polled(consumer)
        consumer.wakeup()
        with pytest.raises(WakeupError):
            consumer.poll(0)
        assert consumer.poll(0) == {}
        threading.Timer(0.05, consumer.wakeup).start()
        with pytest.raises(WakeupError):
            consumer.poll(60_000)
        last = max(record.offset for record in records)
        hosted = shared_broker.broker.share
        until_in_thread(lambda: hosted.start_offsets("woken") == {0: last + 1}, "the record is accepted")


@pytest.mark.slow
def test_each_record_is_acknowledged_by_its_type(shared_broker: LocalBroker) -> None:
    """testExplicitAcknowledgeReleaseAccept testExplicitAcknowledgeCommitSuccess testRenewAcknowledgementOnPoll
    testExplicitAcknowledgeThrowsNotInBatch testConfiguredExplicitAcknowledgeCommitSuccess"""
    with joined(shared_broker, "explicit", **{"share.acknowledgement.mode": "explicit"}) as consumer:
        shared_broker.produce("t", b"accept", b"release", b"reject", b"renew")
        accept, release, reject, renew = polled(consumer)
        consumer.acknowledge(accept)
        with pytest.raises(RuntimeError, match="3 records of the last poll are not acknowledged, first t-0 at offset"):
            consumer.poll(0)
        consumer.acknowledge(release, AcknowledgeType.RELEASE)
        consumer.acknowledge(reject[:3], AcknowledgeType.REJECT)
        consumer.acknowledge(renew, AcknowledgeType.RENEW)
        assert polled(consumer) == [renew]
        consumer.acknowledge(renew)
        (again,) = polled(consumer)
        assert (again.value, again.delivery_count) == (b"release", 2)
        with pytest.raises(LookupError, match="is not in hand"):
            consumer.acknowledge(accept)
        consumer.acknowledge(again)
        assert consumer.commit() == {T0: None}


@pytest.mark.slow
def test_a_close_releases_what_is_not_acknowledged(shared_broker: LocalBroker) -> None:
    """testExplicitAcknowledgeReleaseClose testConsumerCloseInGroupSequential"""
    with joined(shared_broker, "closed") as consumer:
        shared_broker.produce("t", b"left")
        assert [record.delivery_count for record in polled(consumer)] == [1]
    own = {"bootstrap.servers": shared_broker.bootstrap_servers, "group.id": "closed"}
    following: BlockingShareConsumer = BlockingShareConsumer(own)
    with following as consumer:
        consumer.subscribe(["t"])
        assert [(record.value, record.delivery_count) for record in polled(consumer)] == [(b"left", 2)]


@pytest.mark.slow
def test_a_record_that_cannot_be_read_is_released_or_rejected(shared_broker: LocalBroker) -> None:
    """testExplicitOverrideAcknowledgeCorruptedMessage"""
    settings = {"share.acknowledgement.mode": "explicit", "value.deserializer": "IntegerDeserializer"}
    with joined(shared_broker, "damaged", **settings) as consumer:
        shared_broker.produce("t", b"no number")
        with pytest.raises(AcquiredRecordError, match="IntegerDeserializer needs 4 bytes, not 9") as error:
            polled(consumer)
        (offset,) = error.value.offsets
        consumer.acknowledge(("t", 0, offset), AcknowledgeType.REJECT)
        assert consumer.commit() == {T0: None}


def test_settings_and_calls_that_cannot_be(shared_broker: LocalBroker) -> None:
    """testInvalidGroupId testGroupIdNull testGroupIdEmpty testGroupIdOnlyWhitespaces testPollNoSubscribeFails
    testFailOnClosedConsumer testSubscriptionOnEmptyTopic testSubscribeToNullTopicCollection testSubscriptionOnNullTopic
    testFailConstructor testConstructorFailsOnNetworkClientConstructorFailure"""
    address = {"bootstrap.servers": shared_broker.bootstrap_servers}
    for group in ({}, {"group.id": ""}, {"group.id": "  "}):
        with pytest.raises(ConfigError, match=r"a share consumer needs a group\.id that is not blank"):
            BlockingShareConsumer(address | group)
    with pytest.raises(
        ConfigError, match=r"auto\.offset\.reset cannot be set for a share consumer: leave it out; where"
    ):
        BlockingShareConsumer(address | {"group.id": "g", "auto.offset.reset": "earliest"})
    with pytest.raises(ConfigError, match=r"metric\.reporters is a setting of Java's clients"):
        BlockingShareConsumer(address | {"group.id": "g", "metric.reporters": "an.invalid.class"})
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.jaas.config": "org.example.InvalidLoginModule required ;"}
    with pytest.raises(ConfigError, match=r"needs sasl\.username and sasl\.password"):
        BlockingShareConsumer(address | {"group.id": "g"} | login)
    consumer: BlockingShareConsumer = BlockingShareConsumer(address | {"group.id": "g"})
    with pytest.raises(TypeError, match="each of topics must be a str, not NoneType"):
        consumer.subscribe([None])  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="poll needs a subscription; call subscribe first"):
        consumer.poll()
    with pytest.raises(ValueError, match="a topic's name must not be empty or blank"):
        consumer.subscribe([""])
    consumer.close()
    with pytest.raises(RuntimeError, match="this BlockingShareConsumer is closed; make a new one"):
        consumer.poll()
