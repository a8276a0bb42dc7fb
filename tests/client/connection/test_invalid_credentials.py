"""Clients whose login is refused, and accepted once the user is there: Kafka's SaslClientsWithInvalidCredentialsTest.

An error comes at once, and not at the time-out of a request.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from coterie.authentication.mechanisms import salted
from coterie.authentication.sasl import ScramMechanism
from coterie.broker.clients.scram_credentials import Credential
from coterie.broker.requests.turns import finish
from coterie.client.blocking import BlockingAdmin, BlockingConsumer, BlockingProducer
from coterie.client.errors import KafkaError
from coterie.client.types import TopicPartition
from coterie.testing import LocalBroker
from coterie.wire.errors import ErrorCode

Settings = dict[str, Any]
TP = TopicPartition("topic", 0)
SHA_256 = "SCRAM-SHA-256"


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(sasl={"admin": "secret"}) as running:
        running.create_topic("topic", 1)
        yield running


def settings(broker: LocalBroker) -> Settings:
    """Of a user that is not there yet."""
    login = {"sasl.username": "user", "sasl.password": "word"}
    return broker.client_settings("admin", SHA_256) | login | {"group.id": "g", "auto.offset.reset": "earliest"}


def create_user(broker: LocalBroker) -> None:
    change = Credential("user", ScramMechanism.SCRAM_SHA_256, 4096, b"salt", salted(SHA_256, "word", b"salt", 4096))
    broker._call(lambda: finish(broker.broker.clients.scram_credentials.altering([change])))


def refused(action: Callable[[], object]) -> None:
    with pytest.raises(KafkaError) as error:
        action()
    assert error.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED


def without_group(given: Settings) -> Settings:
    return {name: value for name, value in given.items() if name not in ("group.id", "auto.offset.reset")}


@pytest.mark.parametrize("idempotence", [True, False])
def test_producer(broker: LocalBroker, idempotence: bool) -> None:
    """testProducerWithAuthenticationFailure."""
    given = without_group(settings(broker)) | {"enable.idempotence": idempotence}
    with BlockingProducer(given) as producer:
        refused(lambda: producer.partitions_for("topic"))
    create_user(broker)
    with BlockingProducer(given) as producer:
        assert producer.partitions_for("topic") == 1


def test_transactional_producer(broker: LocalBroker) -> None:
    """testTransactionalProducerWithAuthenticationFailure."""
    given = without_group(settings(broker)) | {"transactional.id": "t"}

    def begin() -> None:
        with BlockingProducer(given) as producer:
            producer.init_transactions()

    refused(begin)
    create_user(broker)
    begin()


def subscribe(consumer: BlockingConsumer[Any, Any]) -> None:
    consumer.subscribe(["topic"])


def assign(consumer: BlockingConsumer[Any, Any]) -> None:
    consumer.assign([TP])


@pytest.mark.parametrize(("begin", "commits"), [(subscribe, True), (assign, True), (assign, False)])
def test_consumer(broker: LocalBroker, begin: Callable[[BlockingConsumer[Any, Any]], None], commits: bool) -> None:
    """testConsumerWithAuthenticationFailure, testManualAssignmentConsumerWithAuthenticationFailure,
    testManualAssignmentConsumerWithAutoCommitDisabledWithAuthenticationFailure."""
    broker.produce("topic", b"one")
    with BlockingConsumer(settings(broker) | {"enable.auto.commit": commits}) as consumer:
        begin(consumer)
        refused(lambda: consumer.poll(1000))
        create_user(broker)
        polled: Any = None
        while not polled:  # an error of the login before may be left to report
            with contextlib.suppress(KafkaError):
                polled = consumer.poll(1000)
        assert [record.value for record in polled[TP]] == [b"one"]


def test_admin(broker: LocalBroker) -> None:
    """testKafkaAdminClientWithAuthenticationFailure."""
    with BlockingAdmin(without_group(settings(broker))) as admin:
        refused(lambda: admin.describe_topics(["topic"]))
        create_user(broker)
        assert len(admin.describe_topics(["topic"])["topic"].partitions) == 1


def test_groups(broker: LocalBroker) -> None:
    """testConsumerGroupServiceWithAuthenticationFailure, testConsumerGroupServiceWithAuthenticationSuccess."""
    with BlockingAdmin(without_group(settings(broker))) as admin:
        refused(admin.list_groups)
        create_user(broker)
        assert not admin.list_groups()
