"""Whatever a broker answers, every method of every client ends in time, with a result or a KafkaError, and the loop is never
held."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from typing import Any

import pytest

from coterie.client import Admin, Consumer, KafkaError, NewTopic, Producer, UserScramCredentialDeletion
from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.client.connection.connection import Connection
from coterie.testing import simulate
from coterie.wire.apis import APIS
from coterie.wire.codec import decoder, encoder
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.wire.messages.logs.fetch import FetchResponse
from coterie.wire.messages.topics.metadata import MetadataRequest
from tests.client.fake_broker import (
    LIES,
    RESPONSES,
    WAYS,
    FakeBroker,
    Requested,
    Response,
    honest,
    misbehaving,
)

END_S = 20.0  # far more than the settings below allow, for a machine that is busy
HELD_S = 1.5  # of CPU time, so that a busy machine is no failure; a garbage collection of a whole suite takes 0.5
T0 = ("t", 0)
FETCH = 1
QUICK = {
    "request.timeout.ms": 150,
    "default.api.timeout.ms": 300,
    "delivery.timeout.ms": 300,
    "max.block.ms": 300,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 50,
    "heartbeat.interval.ms": 30,
    "fetch.max.wait.ms": 30,
    "auto.offset.reset": "earliest",
    "linger.ms": 0,
}
Settings = dict[str, Any]


async def producing(settings: Settings) -> None:
    async with Producer(settings) as producer:
        await (await producer.send("t", b"v", partition=0))


async def in_transaction(settings: Settings) -> None:
    async with Producer(settings | {"transactional.id": "x"}) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send("t", b"v")
            await producer.send_offsets_to_transaction({T0: 1}, Consumer(settings | {"group.id": "g"}).group_metadata())


async def as_member(settings: Settings) -> None:
    async with Consumer(settings | {"group.id": "g"}) as consumer:
        consumer.subscribe(["t"])
        for _ in range(10):
            await consumer.poll(20)
        await consumer.unsubscribe()


async def alone(settings: Settings) -> None:
    async with Consumer(settings) as consumer:
        await consumer.assign([T0])
        consumer.seek(T0, 0)
        for _ in range(10):
            await consumer.poll(20)


def with_consumer(work: Callable[[Consumer], Awaitable[Any]]) -> Callable[[Settings], Awaitable[None]]:
    async def run(settings: Settings) -> None:
        async with Consumer(settings | {"group.id": "g"}) as consumer:
            await work(consumer)

    return run


def with_admin(work: Callable[[Admin], Any]) -> Callable[[Settings], Awaitable[None]]:
    async def run(settings: Settings) -> None:
        async with Admin(settings) as admin:
            result = work(admin)
            for each in result.values() if isinstance(result, dict) else [result]:
                await each

    return run


async def over_a_socket(settings: Settings) -> None:
    host, _, port = settings["bootstrap.servers"].rpartition(":")

    def ask() -> None:
        socket = BrokerSocket(host, int(port), timeout_s=0.15)
        try:
            socket.request(MetadataRequest([]))
        finally:
            socket.close()

    await asyncio.to_thread(ask)


METHODS: dict[str, Callable[[Settings], Awaitable[None]]] = {
    "send": producing,
    "transaction": in_transaction,
    "subscribe": as_member,
    "assign": alone,
    "committed": with_consumer(lambda c: c.committed([T0])),
    "commit": with_consumer(lambda c: c.commit({T0: 1})),
    "commit_async": with_consumer(lambda c: c.commit_async({T0: 1})),
    "end_offsets": with_consumer(lambda c: c.end_offsets([T0])),
    "describe_cluster": with_admin(lambda a: a.describe_cluster()),
    "describe_topics": with_admin(lambda a: a.describe_topics()),
    "create_topic": with_admin(lambda a: a.create_topic("t")),
    "delete_topic": with_admin(lambda a: a.delete_topic("t")),
    "create_partitions": with_admin(lambda a: a.create_partitions("t", 2)),
    "describe_configs": with_admin(lambda a: a.describe_configs("t")),
    "incremental_alter_configs": with_admin(lambda a: a.incremental_alter_configs("t", {"retention.ms": "1"})),
    "delete_records": with_admin(lambda a: a.delete_records({T0: 1})),
    "list_offsets": with_admin(lambda a: a.list_offsets({T0: -1})),
    "partitions": with_admin(lambda a: a.partitions(["t"])),
    "list_groups": with_admin(lambda a: a.list_groups()),
    "describe_consumer_group": with_admin(lambda a: a.describe_consumer_group("g")),
    "explain_group": with_admin(lambda a: a.explain_group("g")),
    "telemetry_clients": with_admin(lambda a: a.telemetry_clients()),
    "record_times": with_admin(lambda a: a.record_times({("t", 0): 0})),
    "lint_group": with_admin(lambda a: a.lint_group("g")),
    "delete_consumer_group": with_admin(lambda a: a.delete_consumer_group("g")),
    "remove_members_from_consumer_group": with_admin(lambda a: a.remove_members_from_consumer_group("g", ["m"])),
    "list_consumer_group_offsets": with_admin(lambda a: a.list_consumer_group_offsets("g")),
    "list_consumer_group_offsets_metadata": with_admin(lambda a: a.list_consumer_group_offsets_metadata("g")),
    "alter_consumer_group_offsets": with_admin(lambda a: a.alter_consumer_group_offsets("g", {T0: 1})),
    "delete_consumer_group_offsets": with_admin(lambda a: a.delete_consumer_group_offsets("g", [T0])),
    "lag": with_admin(lambda a: a.lag("g")),
    "describe_features": with_admin(lambda a: a.describe_features()),
    "update_features": with_admin(lambda a: a.update_features({"group.version": 1})),
    "describe_log_dirs": with_admin(lambda a: a.describe_log_dirs()),
    "list_config_resources": with_admin(lambda a: a.list_config_resources()),
    "describe_client_quotas": with_admin(lambda a: a.describe_client_quotas()),
    "alter_client_quotas": with_admin(lambda a: a.alter_client_quotas({(("user", "u"),): {"request_percentage": 1.0}})),
    "describe_user_scram_credentials": with_admin(lambda a: a.describe_user_scram_credentials()),
    "alter_user_scram_credentials": with_admin(
        lambda a: a.alter_user_scram_credentials([UserScramCredentialDeletion("u", "SCRAM-SHA-256")])
    ),
    "create_delegation_token": with_admin(lambda a: a.create_delegation_token()),
    "renew_delegation_token": with_admin(lambda a: a.renew_delegation_token(b"h")),
    "expire_delegation_token": with_admin(lambda a: a.expire_delegation_token(b"h")),
    "describe_delegation_token": with_admin(lambda a: a.describe_delegation_token()),
    "list_transactions": with_admin(lambda a: a.list_transactions()),
    "describe_transactions": with_admin(lambda a: a.describe_transactions(["x"])),
    "describe_producers": with_admin(lambda a: a.describe_producers([T0])),
    "abort_transaction": with_admin(lambda a: a.abort_transaction(T0, 1, 0, 0)),
    "fence_producers": with_admin(lambda a: a.fence_producers(["x"])),
    "each.create_topics": with_admin(lambda a: a.each.create_topics([NewTopic("t")])),
    "each.describe_configs": with_admin(lambda a: a.each.describe_configs(["t"])),
    "each.delete_consumer_groups": with_admin(lambda a: a.each.delete_consumer_groups(["g"])),
    "each.remove_members_from_consumer_group": with_admin(
        lambda a: a.each.remove_members_from_consumer_group("g", ["m"])
    ),
    "each.delete_records": with_admin(lambda a: a.each.delete_records({T0: 1})),
}


BLOCKING = {"BrokerSocket": over_a_socket}  # in a thread, and so in real time


async def ended(name: str, settings: Settings) -> str:
    """Nothing where the method ended as it may, else how it ended."""
    try:
        async with asyncio.timeout(END_S):
            await (METHODS | BLOCKING)[name](settings)
    except KafkaError:
        return ""
    except BaseException as error:
        return f"{name}: {error!r} from {error.__cause__!r}"
    return ""


async def longest_turn_s(stop: asyncio.Event) -> float:
    """CPU time of this thread between two turns of its loop."""
    longest_s, before_s = 0.0, time.thread_time()
    while not stop.is_set():
        await asyncio.sleep(0.001)
        now_s = time.thread_time()
        longest_s, before_s = max(longest_s, now_s - before_s), now_s
    return longest_s


async def all_methods(broker: FakeBroker, names: Collection[str] = METHODS) -> None:
    stop = asyncio.Event()
    async with misbehaving(broker):
        watch = asyncio.create_task(longest_turn_s(stop))
        settings = QUICK | {"bootstrap.servers": broker.bootstrap_servers}
        results = await asyncio.gather(*(ended(name, settings) for name in names))
        stop.set()
        longest_s = await watch
    assert not any(results), "\n".join(filter(None, results))
    assert longest_s < HELD_S


def in_virtual_time(broker: FakeBroker) -> None:
    """Every method at once; then the blocking socket, whose threads no virtual time drives."""
    with simulate(seed=1) as world:
        world.run(all_methods(broker), 2 * END_S)
    asyncio.run(all_methods(broker, BLOCKING))


@pytest.fixture(scope="module", autouse=True)
def codecs_are_made() -> None:
    """Codecs are generated at first use, which is no loop held by a broker."""
    for api in APIS.values():
        for version in (api.request.versions.first, api.request.versions.last):
            encoder(api.request, version), decoder(api.response, version)


def after_the_way(response: Response) -> Response:
    """Honest until the client has its leader and its coordinator."""
    return lambda requested: honest(requested) if requested.api_key in WAYS else response(requested)


@pytest.mark.parametrize("what", RESPONSES)
def test_every_answer_is_so(what: str) -> None:
    in_virtual_time(FakeBroker(RESPONSES[what]))


@pytest.mark.parametrize("what", RESPONSES)
def test_every_answer_but_those_that_lead_to_the_broker_is_so(what: str) -> None:
    broker = FakeBroker(after_the_way(RESPONSES[what]))
    in_virtual_time(broker)
    assert broker.requested.keys() - WAYS, "no client got as far"


@pytest.mark.parametrize("what", LIES)
def test_versions_and_addresses_are_so(what: str) -> None:
    in_virtual_time(FakeBroker(LIES[what]))


@pytest.mark.parametrize(
    "broker",
    [
        FakeBroker(honest, greeting=b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        FakeBroker(honest, greeting=bytes(range(256)) * 40),
        FakeBroker(honest, closes_at_once=True),
    ],
)
def test_a_greeting_is_no_answer(broker: FakeBroker) -> None:
    in_virtual_time(broker)


def test_the_check_finds_what_it_looks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait without end, another exception, a loop that is held."""
    in_virtual_time(FakeBroker(honest))
    monkeypatch.setattr("tests.client.connection.test_hostile_broker.END_S", 1.0)

    async def forever(settings: Settings) -> None:
        await asyncio.Event().wait()

    async def raising(settings: Settings) -> None:
        raise ValueError("unforeseen")

    async def holding(settings: Settings) -> None:
        end_s = time.thread_time() + HELD_S + 0.1
        while time.thread_time() < end_s:
            pass

    for broken in (forever, raising, holding):
        monkeypatch.setitem(METHODS, "send", broken)
        with pytest.raises(AssertionError):
            in_virtual_time(FakeBroker(RESPONSES["close"]))


@pytest.mark.parametrize("what", ["silence", "close", "a size of -1"])
def test_a_connection_that_fails_is_tried_again_with_pauses(what: str) -> None:
    """retry.backoff.ms between two tries."""

    async def story() -> int:
        async with misbehaving(FakeBroker(RESPONSES[what])) as broker:
            settings = QUICK | {
                "bootstrap.servers": broker.bootstrap_servers,
                "retry.backoff.ms": 100,
                "retry.backoff.max.ms": 100,
            }
            with pytest.raises(KafkaError):
                await producing(settings | {"max.block.ms": 1_000})
            return sum(broker.requested.values())

    assert asyncio.run(story()) <= 15


def test_a_fetch_session_that_is_lost_each_time_is_made_anew_with_pauses() -> None:
    def losing(requested: Requested) -> bytes:
        if requested.api_key != FETCH:
            return honest(requested)
        return requested.frame(FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))

    async def story() -> int:
        async with misbehaving(FakeBroker(losing)) as broker:
            settings = QUICK | {
                "bootstrap.servers": broker.bootstrap_servers,
                "retry.backoff.ms": 100,
                "retry.backoff.max.ms": 100,
            }
            async with Consumer(settings) as consumer:
                await consumer._cluster.topics(["t"])
                consumer._fetcher.assign([T0])
                consumer.seek(T0, 0)
                for _ in range(10):
                    await consumer.poll(50)
            return broker.requested[FETCH]

    assert 2 <= asyncio.run(story()) <= 15


async def test_answers_of_others_are_not_taken_for_ours() -> None:
    """The connection is dropped, and the request fails at once instead of after request.timeout.ms."""

    def late(requested: Requested) -> bytes:
        return honest(requested) if requested.api_key in WAYS else RESPONSES["the wrong correlation id"](requested)

    async with misbehaving(FakeBroker(late)) as broker:
        connection = await Connection.connect(*broker.address, "test", 10)
        async with asyncio.timeout(END_S):
            with pytest.raises(KafkaError, match="answered a request 9 that was not sent"):
                await connection.request(HeartbeatRequest("g"), HeartbeatResponse, 600)
        connection.close()
