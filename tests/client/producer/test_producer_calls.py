"""A producer as its user meets it: settings, metadata, arguments, closing. Kafka's KafkaProducerTest by name; what it asks of
transactions is in `test_producer_transactions`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coterie.client import BytesSerializer, KafkaError, Producer
from coterie.client.blocking import BlockingProducer
from coterie.client.errors import ConfigError
from coterie.testing import LocalBroker
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.produce import ProduceRequest
from tests.awaiting import quiet, until
from tests.client.transactions.test_transaction_calls import transacting

pytestmark = pytest.mark.virtual_time

E = ErrorCode
MISSING = (E.UNKNOWN_TOPIC_OR_PARTITION, 0)

# names, settings, and whether the producer is idempotent and its acks, or the sentence with which it is refused
SETTINGS: list[tuple[str, dict[str, Any], tuple[bool, int] | str]] = [
    ("testOverwriteAcksAndRetriesForIdempotentProducers", {"transactional.id": "x"}, (True, -1)),
    ("testConstructorWithSerializers", {"key.serializer": BytesSerializer()}, (True, -1)),
    *[
        ("testAcksAndIdempotenceForIdempotentProducers", settings, expected)
        for settings, expected in (
            ({"acks": "0", "enable.idempotence": "false"}, (False, 0)),
            ({"transactional.id": "x"}, (True, -1)),
            ({"acks": "all", "enable.idempotence": "false"}, (False, -1)),
            ({"acks": "0"}, (False, 0)),
            ({"acks": "1"}, (False, 1)),
            ({"acks": "0", "enable.idempotence": "false", "transactional.id": "x"}, "transactional.id needs acks=all"),
            ({"acks": "1", "enable.idempotence": "true"}, "enable.idempotence=true needs acks=all, not acks=1"),
            ({"acks": "0", "transactional.id": "x"}, "transactional.id needs acks=all"),
        )
    ],
    *[
        (
            "testInflightRequestsAndIdempotenceForIdempotentProducers",
            {"max.in.flight.requests.per.connection": count} | more,
            expected,
        )
        for count, more, expected in (
            (6, {"enable.idempotence": "false"}, (False, -1)),
            (6, {}, "must be at most 5 with enable.idempotence=true, not 6"),
            (5, {"enable.idempotence": "false", "transactional.id": "x"}, "transactional.id needs acks=all"),
            (6, {"enable.idempotence": "true"}, "must be at most 5"),
            (6, {"transactional.id": "x"}, "must be at most 5"),
        )
    ],
    ("testConstructorWithNotStringKey", {1: "not string key"}, "the name of a setting must be text, not 1"),  # type: ignore[dict-item]
]


@pytest.mark.parametrize(("name", "settings", "expected"), SETTINGS)
def test_settings(name: str, settings: dict[str, Any], expected: tuple[bool, int] | str) -> None:
    async def story() -> None:
        producer = Producer[bytes, bytes]({"bootstrap.servers": "nowhere.invalid:9999"} | settings)
        config = producer._sender.config
        assert (config.is_idempotent, config.acks) == expected
        await producer.close()

    if isinstance(expected, str):
        with pytest.raises(ConfigError, match=expected):
            asyncio.run(story())
    else:
        asyncio.run(story())


# -- metadata ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("idempotence", [True, False])
async def test_metadata_is_asked_for_until_the_topic_is_there(idempotence: bool) -> None:
    """testMetadataFetch: and not again."""
    async with transacting(transactional_id=None, enable_idempotence=idempotence) as (one, cluster):
        cluster.metadata_script.extend([MISSING] * 4)
        await one.send("t", b"v")
        assert cluster.metadata_requested == 5
        await one.send("t", b"v")
        assert await one.partitions_for("t") == 2
        assert cluster.metadata_requested == 5


@pytest.mark.parametrize("idempotence", [True, False])
async def test_metadata_is_asked_for_again_after_it_was_lost(idempotence: bool) -> None:
    """testMetadataExpiry: a topic that was not there when all were looked up again."""
    async with transacting(transactional_id=None, enable_idempotence=idempotence) as (one, cluster):
        await one.send("t", b"v")
        assert cluster.metadata_requested == 1
        cluster.metadata_script.append(MISSING)
        await one._partition_counts.refresh(["t"])
        await one.send("t", b"v")
        assert cluster.metadata_requested == 3


@pytest.mark.parametrize("idempotence", [True, False])
async def test_a_topic_that_grows_has_the_partition_that_the_record_names(idempotence: bool) -> None:
    """testMetadataWithPartitionOutOfRange."""
    async with transacting(transactional_id=None, enable_idempotence=idempotence) as (one, cluster):
        cluster.metadata_script.extend([(E.NONE, 1), (E.NONE, 1), (E.NONE, 3)])
        delivery = await one.send("t", b"v", partition=2)
        assert cluster.metadata_requested == 3
        assert delivery._batch.partition == ("t", 2)


@pytest.mark.parametrize("idempotence", [True, False])
@pytest.mark.parametrize(
    ("name", "missing", "code"),
    [
        ("testMetadataTimeoutWithMissingTopic", MISSING, E.UNKNOWN_TOPIC_OR_PARTITION),
        ("testMetadataTimeoutWithPartitionOutOfRange", (E.NONE, 1), E.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
async def test_metadata_is_awaited_for_max_block_ms(
    name: str, missing: tuple[ErrorCode, int], code: ErrorCode, idempotence: bool
) -> None:
    async with transacting(transactional_id=None, enable_idempotence=idempotence, max_block_ms=500) as (one, cluster):
        cluster.metadata_script.extend([missing] * 10_000)
        with pytest.raises(KafkaError, match=r"was not available within 0\.5 s") as failed:
            await one.send("t", b"v", partition=2)
        assert failed.value.code == code
        assert cluster.metadata_requested >= 2


async def test_partitions_of_a_missing_topic() -> None:
    """testTopicRefreshInMetadata, testTopicNotExistingInMetadata: the error has the last one as its cause."""
    async with transacting(transactional_id=None, max_block_ms=50) as (one, cluster):
        cluster.metadata_script.extend([MISSING] * 10_000)
        with pytest.raises(KafkaError, match="was not available within") as failed:
            await one.partitions_for("t")
        assert isinstance(failed.value.__cause__, KafkaError)
        assert failed.value.__cause__.code == E.UNKNOWN_TOPIC_OR_PARTITION


async def test_an_invalid_topic_fails_at_once() -> None:
    """testSendToInvalidTopic."""
    async with transacting(transactional_id=None) as (one, cluster):
        cluster.metadata_script.append((E.INVALID_TOPIC_EXCEPTION, 0))
        with pytest.raises(KafkaError, match="INVALID_TOPIC_EXCEPTION"):
            await one.send("topic abc", b"v")
        assert cluster.metadata_requested == 1


async def test_a_close_ends_a_send_that_waits_for_metadata() -> None:
    """testCloseWhenWaitingForMetadataUpdate."""
    async with transacting(transactional_id=None, max_block_ms=3_600_000) as (one, cluster):
        cluster.metadata_script.extend([MISSING] * 10_000)
        send = asyncio.create_task(one.send("t", b"v"))
        await until(lambda: cluster.metadata_requested > 1)
        await one.close(timeout_ms=0)
        with pytest.raises(RuntimeError, match="this producer is closed"):
            await send


# -- records -------------------------------------------------------------------------------------------------------------------


async def test_headers_are_those_of_the_call() -> None:
    """testHeadersSuccess: what becomes of the list afterwards changes no record."""
    async with transacting(transactional_id=None) as (one, _cluster):
        headers = [("test", b"header2")]
        delivery = await one.send("t", b"value", b"key", headers=headers)
        headers.append(("test", b"late"))
        assert delivery._batch.items[0][3] == (("test", b"header2"),)


async def test_a_flush_returns_when_everything_is_acknowledged() -> None:
    """testFlushCompleteSendOfInflightBatches."""
    async with transacting(transactional_id=None, linger_ms=60_000) as (one, _cluster):
        deliveries = [await one.send("t", b"value%d" % number) for number in range(50)]
        assert not any(delivery._end.is_reached for delivery in deliveries)
        await one.flush()
        assert all(delivery._end.is_reached for delivery in deliveries)


@pytest.mark.parametrize(
    ("name", "call", "error"),
    [
        ("testPartitionsForWithNullTopic", lambda one: one.partitions_for(None), TypeError),
        ("testNullTopicName", lambda one: one.send(None, b"value", b"key", partition=1), TypeError),
        ("closeWithNegativeTimestampShouldThrow", lambda one: one.close(timeout_ms=-100), ValueError),
        ("negativePartitionShouldThrow", lambda one: one.send("t", b"value", b"key"), KafkaError),
    ],
)
async def test_arguments(name: str, call: Any, error: type[Exception]) -> None:
    async with transacting(transactional_id=None, partitioner=lambda topic, key, count: -1) as (one, _cluster):
        with pytest.raises(error):
            await call(one)


def test_a_callback_may_not_flush(coterie_broker: LocalBroker) -> None:
    """shouldNotInvokeFlushInCallback: a blocking producer would wait for itself."""
    refused: list[Exception] = []
    with BlockingProducer[bytes, bytes]({"bootstrap.servers": coterie_broker.bootstrap_servers}) as one:

        def flush(metadata: object, error: KafkaError | None) -> None:
            try:
                one.flush()
            except RuntimeError as caught:
                refused.append(caught)

        one.send("t", b"value", on_delivery=flush)
    assert "it would wait for itself" in str(refused[0])


# -- closing -------------------------------------------------------------------------------------------------------------------


async def test_a_second_close_does_nothing() -> None:
    """closeShouldBeIdempotent."""
    async with transacting(transactional_id=None) as (one, _cluster):
        await one.close()
        await one.close()


async def test_a_close_that_is_given_up() -> None:
    """shouldCloseProperlyAndThrowIfInterrupted: waits for what is in flight until then."""
    async with transacting(transactional_id=None) as (one, cluster):
        cluster.hold(ProduceRequest)
        delivery = await one.send("t", b"value", b"key")
        await until(lambda: "Produce" in cluster.kinds())
        closing = asyncio.create_task(one.close())
        await quiet()
        assert not closing.done()
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        with pytest.raises(KafkaError, match="the producer was closed before"):
            await delivery
