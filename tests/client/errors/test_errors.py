"""The classes of errors, one for each thing that a caller does; and that a refused authentication is not retried."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import pickle
import socket
import ssl
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from coterie import client
from coterie.client import (
    Admin,
    AuthenticationError,
    AuthorizationError,
    CommitFailedError,
    Consumer,
    CorruptBatchError,
    ErrorCode,
    FatalError,
    KafkaError,
    Producer,
    ProducerFencedError,
    RebalanceInProgressError,
    RejoinNeededError,
    RetriableError,
    SeekNeededError,
    SslAuthenticationError,
    TransactionAbortableError,
    UnknownTopicOrPartitionError,
)
from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.client.errors import CLASSES, check, class_of
from coterie.client.settings.settings import client_settings
from coterie.testing import LocalBroker
from tests.client.connection.test_security import TlsFront, tls

GIVES_UP_S = 10.0  # the limits that a retry would use up are 60 s and more


def classes(root: type[KafkaError] = KafkaError) -> list[type[KafkaError]]:
    children = [kind for kind in root.__subclasses__() if kind.__module__ == root.__module__]
    return [root, *(kind for child in children for kind in classes(child))]


@pytest.mark.parametrize("code", list(ErrorCode))
def test_an_error_is_of_the_class_of_its_code(code: ErrorCode) -> None:
    error = KafkaError(code, "why")
    assert type(error) is class_of(code)
    assert (error.code, str(error)) == (code, f"{code.name}: why")
    assert error.retriable == isinstance(error, RetriableError) == code.retriable
    assert error.fatal == isinstance(error, FatalError)
    assert not (error.retriable and error.fatal)


def test_every_class_is_exported_and_names_a_remedy() -> None:
    for kind in classes():
        assert getattr(client, kind.__name__) is kind
        assert kind.__name__ in client.__all__
        assert kind.remedy.endswith(".")
    assert set(CLASSES.values()) <= set(classes())


def test_the_groups_are_those_of_kafka() -> None:
    """The classes of Kafka's exceptions that a program catches, with the base that says what it does."""
    bases = {
        ErrorCode.NOT_COORDINATOR: RetriableError,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: UnknownTopicOrPartitionError,
        ErrorCode.OFFSET_OUT_OF_RANGE: SeekNeededError,
        ErrorCode.ILLEGAL_GENERATION: RejoinNeededError,
        ErrorCode.TRANSACTION_ABORTABLE: TransactionAbortableError,
        ErrorCode.INVALID_PRODUCER_EPOCH: ProducerFencedError,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: AuthorizationError,
        ErrorCode.SASL_AUTHENTICATION_FAILED: AuthenticationError,
        ErrorCode.UNSUPPORTED_VERSION: FatalError,
    }
    assert {code for code, base in bases.items() if not isinstance(KafkaError(code), base)} == set()
    assert type(KafkaError(ErrorCode.MESSAGE_TOO_LARGE)) is KafkaError
    damaged = CorruptBatchError("t", 0, 5, 9, "crc")
    assert (damaged.retriable, isinstance(damaged, SeekNeededError)) == (False, True)
    for error in (CommitFailedError(ErrorCode.UNKNOWN_MEMBER_ID), RebalanceInProgressError()):
        assert isinstance(error, RejoinNeededError)


CODE = ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(
    ("message", "subject", "text"),
    [
        ("too long", "topic t", "too long"),
        ("too long", "", "too long"),
        (None, "topic t", f"topic t: {CODE.text}"),
        ("", "topic t", f"topic t: {CODE.text}"),
        (CODE.text, "topic t", f"topic t: {CODE.text}"),
        (None, "", CODE.text),
    ],
)
def test_the_brokers_message_goes_before_the_text_of_a_code(message: str | None, subject: str, text: str) -> None:
    check(ErrorCode.NONE, message, subject=subject)
    with pytest.raises(KafkaError) as caught:
        check(CODE, message, subject=subject)
    assert (caught.value.code, str(caught.value)) == (CODE, f"{CODE.name}: {text}")


@pytest.mark.parametrize(
    "error",
    [
        KafkaError(ErrorCode.NOT_COORDINATOR, "why"),
        CorruptBatchError("t", 0, 5, 9, "crc"),
        CommitFailedError(ErrorCode.ILLEGAL_GENERATION),
        RebalanceInProgressError(),
        SslAuthenticationError(ErrorCode.NETWORK_EXCEPTION, "why"),
    ],
)
def test_an_error_travels_between_processes(error: KafkaError) -> None:
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(other) is type(error)
        assert (str(other), other.__dict__) == (str(error), error.__dict__)


# -- authentication -------------------------------------------------------------------------------------------------


async def _send(settings: dict[str, Any]) -> None:
    async with Producer(settings) as producer:
        await (await producer.send("t", b"v"))


async def _poll(settings: dict[str, Any]) -> None:
    async with Consumer(settings | {"group.id": "g"}) as consumer:
        consumer.subscribe(["t"])
        while True:
            await consumer.poll(100)


async def _assign(settings: dict[str, Any]) -> None:
    async with Consumer(settings) as consumer:
        await consumer.assign([("t", 0)])
        await consumer.poll(20_000)


async def _committed(settings: dict[str, Any]) -> None:
    async with Consumer(settings | {"group.id": "g"}) as consumer:
        await consumer.committed([("t", 0)])


async def _topics(settings: dict[str, Any]) -> None:
    async with Admin(settings) as admin:
        await admin.describe_topics()


async def _init_transactions(settings: dict[str, Any]) -> None:
    async with Producer(settings | {"transactional.id": "x"}) as producer:
        await producer.init_transactions()


async def _commit(settings: dict[str, Any]) -> None:
    async with Consumer(settings | {"group.id": "g"}) as consumer:
        await consumer.commit({("t", 0): 1})


async def _beginning_offsets(settings: dict[str, Any]) -> None:
    async with Consumer(settings) as consumer:
        await consumer.beginning_offsets([("t", 0)])


async def _end_offsets(settings: dict[str, Any]) -> None:
    async with Consumer(settings) as consumer:
        await consumer.end_offsets([("t", 0)])


async def _offsets_for_times(settings: dict[str, Any]) -> None:
    async with Consumer(settings) as consumer:
        await consumer.offsets_for_times({("t", 0): 0})


CALLS: list[Callable[[dict[str, Any]], Awaitable[None]]] = [
    _send,
    _poll,
    _assign,
    _committed,
    _topics,
    _init_transactions,
    _commit,
    _beginning_offsets,
    _end_offsets,
    _offsets_for_times,
]


async def gives_up(call: Callable[[dict[str, Any]], Awaitable[None]], settings: dict[str, Any]) -> AuthenticationError:
    """The error, which must come at once."""
    began_s = time.monotonic()
    with pytest.raises(AuthenticationError) as caught:
        async with asyncio.timeout(GIVES_UP_S):
            await call(settings)
    assert time.monotonic() - began_s < GIVES_UP_S
    assert caught.value.fatal
    assert not caught.value.retriable
    return caught.value


@pytest.mark.parametrize("call", CALLS)
async def test_an_untrusted_certificate_is_not_retried(
    coterie_broker: LocalBroker, tmp_path: Path, call: Callable[[dict[str, Any]], Awaitable[None]]
) -> None:
    front, stranger = TlsFront(coterie_broker, tmp_path), tmp_path / "stranger"
    stranger.mkdir()
    port = await front.start()
    error = await gives_up(call, tls(TlsFront(coterie_broker, stranger), port))
    assert isinstance(error, SslAuthenticationError)
    assert "CERTIFICATE_VERIFY_FAILED" in str(error)
    front.stop()


def test_a_client_without_the_certificate_that_the_broker_requires_gives_up(
    coterie_broker: LocalBroker, tmp_path: Path
) -> None:
    """In TLS 1.3 the broker's alert comes only after the client's handshake has ended."""
    front = TlsFront(coterie_broker, tmp_path, wants_certificate=True)
    listener = socket.create_server(("127.0.0.1", 0))

    def refuse() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return  # closed
            wrapped = front._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
            with wrapped:
                wrapped.settimeout(5)
                with contextlib.suppress(ssl.SSLError):
                    wrapped.do_handshake()
                with contextlib.suppress(OSError):
                    while socket.socket.recv(wrapped, 1024):  # a reset would overtake the alert
                        pass

    thread = threading.Thread(target=refuse)
    thread.start()
    settings = tls(front, listener.getsockname()[1])
    try:
        error = asyncio.run(gives_up(_send, settings))
        assert "ALERT_CERTIFICATE_REQUIRED" in str(error).upper()
        with pytest.raises(SslAuthenticationError, match=r"(?i)certificate_required"):
            BrokerSocket("127.0.0.1", listener.getsockname()[1], security=client_settings(settings).security())
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)


@pytest.mark.parametrize("call", CALLS)
def test_a_refused_login_is_not_retried(
    coterie_broker: LocalBroker, call: Callable[[dict[str, Any]], Awaitable[None]]
) -> None:
    """KafkaConsumerTest's testPollAuthenticationFailure, testBeginningOffsetsAuthenticationFailure,
    testEndOffsetsAuthenticationFailure, testOffsetsForTimesAuthenticationFailure, testCommitSyncAuthenticationFailure,
    testCommittedAuthenticationFailure"""
    sasl = {"security.protocol": "SASL_PLAINTEXT", "sasl.username": "u", "sasl.password": "p"}
    settings = {"bootstrap.servers": coterie_broker.bootstrap_servers} | sasl
    asyncio.run(gives_up(call, settings))


async def test_a_broker_that_is_away_is_waited_for(tmp_path: Path, coterie_broker: LocalBroker) -> None:
    """A connection that ends in the middle of the handshake is no refusal: the broker may be starting."""
    front = TlsFront(coterie_broker, tmp_path)

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    async with Producer(tls(front, port, max_block_ms=500)) as producer:
        with pytest.raises(RetriableError, match=r"not available within 0\.5 s"):
            await producer.send("t", b"v")
    server.close()


async def test_a_failed_transaction_is_to_be_aborted(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 1)
    settings = {"bootstrap.servers": coterie_broker.bootstrap_servers, "transactional.id": "x", "linger.ms": 0}
    async with Producer(settings) as producer:
        await producer.init_transactions()
        producer.begin_transaction()
        coterie_broker.fail("Produce", ErrorCode.MESSAGE_TOO_LARGE)
        await producer.send("t", b"v")
        with pytest.raises(TransactionAbortableError, match="must be aborted") as caught:
            await producer.commit_transaction()
        assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send("t", b"w")
