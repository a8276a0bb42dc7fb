"""The blocking face, as a script would use it."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coterie.client import Admin, Consumer, ErrorCode, NewTopic, Producer, TopicPartition
from coterie.client.admin.each import Each
from coterie.client.blocking import BlockingAdmin, BlockingConsumer, BlockingProducer
from coterie.client.blocking.admin_each import BlockingEach
from coterie.client.blocking.thread import BlockingClient
from coterie.client.errors import ConfigError, KafkaError
from coterie.testing import LocalBroker
from tests.broker_process import BrokerProcess
from tests.client import blocking_source


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path / "data", "--set", "group.min.session.timeout.ms=500")
    yield process
    process.stop()


def test_a_script(broker: BrokerProcess) -> None:
    address = {"bootstrap.servers": broker.address}
    with BlockingAdmin(address) as admin, BlockingProducer(address) as producer:
        admin.create_topic("t", 2)
        assert producer.send_and_wait("t", b"one", partition=1)[1:3] == (1, 0)
        futures = [producer.send("t", value, b"k") for value in (b"two", b"three")]
        assert {future.result(10).topic for future in futures} == {"t"}
        with BlockingConsumer(
            address
            | {
                "group_id": "g",
                "auto_offset_reset": "earliest",
                "session_timeout_ms": 2000,
                "heartbeat_interval_ms": 100,
            }
        ) as consumer:
            consumer.subscribe(["t"])
            values: set[bytes | None] = set()
            while len(values) < 3:
                values |= {r.value for records in consumer.poll(1000).values() for r in records}
            assert values == {b"one", b"two", b"three"}
            time.sleep(2.5)  # longer than the session: heartbeats go on while the script does something else
            consumer.commit()
            assert admin.describe_consumer_group("g").state == "Stable"
        with pytest.raises(KafkaError, match="GROUP_ID_NOT_FOUND"):
            admin.describe_consumer_group("nobody")


def test_a_wrong_setting_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"did you mean bootstrap\.servers"):
        BlockingAdmin({"bootstrap.server": "x:1"})


def test_nobody_there() -> None:
    with (
        BlockingAdmin({"bootstrap.servers": "127.0.0.1:1"}) as admin,
        pytest.raises(KafkaError, match="no broker answers"),
    ):
        admin.list_groups()


# -- the same methods as the asyncio clients --------------------------------------------------------------------------

PAIRS = [(Consumer, BlockingConsumer), (Producer, BlockingProducer), (Admin, BlockingAdmin), (Each, BlockingEach)]
# Other results than the asyncio method's: a future of this thread's world, a plain context manager.
OTHER_RESULTS = {
    "BlockingProducer.send": "Future[RecordMetadata]",
    "BlockingConsumer.commit_async": "Future[None]",
    "BlockingProducer.transaction": "Iterator[None]",
}


def public_methods(owner: type) -> dict[str, Any]:
    """Its own and those of its bases."""
    bases = [base for base in owner.__mro__ if base.__module__.startswith("coterie.") and base is not BlockingClient]
    return {name: value for base in bases for name, value in vars(base).items() if not name.startswith("_")}


@pytest.mark.parametrize(("client", "blocking"), PAIRS)
def test_every_public_method_has_the_same_parameters_and_the_awaited_result(client: type, blocking: type) -> None:
    assert public_methods(client).keys() == public_methods(blocking).keys()
    own = {} if client is Each else {"__init__": client.__init__}
    for name, method in {**public_methods(client), **own}.items():
        other = ({"__init__": blocking.__init__} | public_methods(blocking))[name]
        if isinstance(method, property):
            assert method.fget is not None
            method, other = method.fget, other.fget
        theirs, ours = inspect.signature(method), inspect.signature(other)
        assert theirs.parameters == ours.parameters, name
        result = OTHER_RESULTS.get(f"{blocking.__name__}.{name}", theirs.return_annotation)
        if client is Each:  # futures of this thread's world
            result = re.sub(r"^Futures\[(\w+), (.*)\]$", r"dict[\1, Future[\2]]", result)
        assert ours.return_annotation == result, name
        assert not inspect.iscoroutinefunction(other)
        assert inspect.getdoc(other) or name == "__init__", name


@pytest.mark.parametrize("file", sorted(blocking_source.RESULTS))
def test_the_classes_are_as_they_are_written_from_the_asyncio_clients(file: str) -> None:
    """`python -m tests.client.blocking_source` writes them again."""
    assert (blocking_source.CLIENT / "blocking" / file).read_text() == blocking_source.source(file)


# -- many things at once -----------------------------------------------------------------------------------------------


def test_each_returns_a_future_of_this_thread_for_each_key(
    coterie_broker: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coterie.client.offsets.offsets.NEW_TOPIC_S", 0.2)
    coterie_broker.create_topic("orders", 1)
    with BlockingAdmin({"bootstrap.servers": coterie_broker.bootstrap_servers}) as admin:
        futures = admin.each.create_topics([NewTopic("payments", 3), NewTopic("orders")])
        assert {name: future.result(20) for name, future in futures.items() if name == "payments"} == {"payments": None}
        error = futures["orders"].exception(20)
        assert isinstance(error, KafkaError)
        assert error.code == ErrorCode.TOPIC_ALREADY_EXISTS
        ends = admin.each.list_offsets({("payments", 2): -1, ("payments", 3): -1})
        assert ends[TopicPartition("payments", 2)].result(20) == 0
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            ends[TopicPartition("payments", 3)].result(20)
        with pytest.raises(TypeError, match="a topic to create must be a NewTopic"):
            admin.each.create_topics(["payments"])  # type: ignore[list-item]
    with pytest.raises(RuntimeError, match="this BlockingAdmin is closed"):
        admin.each.delete_topics(["payments"])


@pytest.mark.parametrize("work", ["together", "apart"])
def test_close_ends_the_futures_that_wait_for_a_response(work: str, coterie_broker: LocalBroker) -> None:
    api = "DeleteTopics" if work == "together" else "DeleteGroups"
    with (
        BlockingAdmin({"bootstrap.servers": coterie_broker.bootstrap_servers}) as admin,
        coterie_broker.hold(api) as held,
    ):
        futures = admin.each.delete_topics(["t"]) if work == "together" else admin.each.delete_consumer_groups(["t"])
        assert not futures["t"].cancel(), "the request is under way"
        coterie_broker.until_held(held)
        admin.close()
        assert isinstance(futures["t"].exception(20), RuntimeError | KafkaError)


@pytest.mark.parametrize("work", ["together", "apart"])
def test_a_task_that_is_cancelled_ends_its_future(work: str, coterie_broker: LocalBroker) -> None:
    """As those are that outlive `close`: a future without an end would hold its reader for ever."""
    api = "DeleteTopics" if work == "together" else "DeleteGroups"

    async def cancel() -> None:
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            if task.get_coro().__qualname__.startswith(("Each", "KeyedFutures", "Admin")):  # type: ignore[union-attr]
                task.cancel()

    with (
        BlockingAdmin({"bootstrap.servers": coterie_broker.bootstrap_servers}) as admin,
        coterie_broker.hold(api) as held,
    ):
        futures = admin.each.delete_topics(["t"]) if work == "together" else admin.each.delete_consumer_groups(["t"])
        coterie_broker.until_held(held)
        admin._await(cancel)
        with pytest.raises(RuntimeError, match="this BlockingAdmin is closed"):
            futures["t"].result(5)


# -- sending ----------------------------------------------------------------------------------------------------------


def test_send_returns_before_the_record_is_acknowledged(coterie_broker: LocalBroker) -> None:
    """Many records share a request; a send that flushed made one for each."""
    coterie_broker.create_topic("t", 1)
    settings = {"bootstrap.servers": coterie_broker.bootstrap_servers, "linger.ms": 60_000, "batch.size": 1_000_000}
    with BlockingProducer(settings, value_serializer=str.encode) as producer:
        futures = [producer.send("t", str(n)) for n in range(200)]
        assert not any(future.done() for future in futures)
        producer.flush()
        assert [future.result(0).offset for future in futures] == list(range(200))
    assert coterie_broker.requested("Produce") == 1


def test_a_record_that_failed_is_its_futures_error(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 1)
    coterie_broker.fail("Produce", ErrorCode.MESSAGE_TOO_LARGE)
    with BlockingProducer({"bootstrap.servers": coterie_broker.bootstrap_servers}) as producer:
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
            producer.send("t", b"v").result(20)
        assert producer.send_and_wait("t", b"v").offset == 0


def test_transactions_commits_and_iteration(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 1)
    address = {"bootstrap.servers": coterie_broker.bootstrap_servers}
    with BlockingProducer(address | {"transactional.id": "x"}) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("t", b"committed")
        with contextlib.suppress(ZeroDivisionError), producer.transaction():
            producer.send("t", b"aborted")
            producer.flush()
            raise ZeroDivisionError
        with producer.transaction():
            producer.send("t", b"too")
    group = {"group.id": "g", "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    with BlockingConsumer(address | group, value_deserializer=bytes.decode) as consumer:
        consumer.subscribe(["t"])
        values = []
        for record in consumer:
            values.append(record.value)
            if len(values) == 2:
                break
        assert values == ["committed", "too"]
        consumer.commit_async().result(20)
        assert consumer.committed([("t", 0)])[TopicPartition("t", 0)] == consumer.position(("t", 0)) == 6, (
            "behind the marker"
        )
