"""retry.backoff.ms and retry.backoff.max.ms at each part that tries again: a broker refuses, the pauses are recorded,
none of them is slept. A client's parts share what it knows of coordinators."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from coterie.client import Admin, Consumer, ConsumerSettings, KafkaError, Producer
from coterie.client.connection.cluster import TRANSACTION, Cluster, Coordinator
from coterie.client.pauses import clock, loop_clock
from coterie.client.settings.settings import client_settings
from coterie.client.types import TopicPartition
from coterie.consuming.commits.commits import Commits
from coterie.consuming.commits.offset_commit import Verdict
from coterie.machines.backoff import Backoff, Retries
from coterie.pipeline.options.options import source_options
from coterie.pipeline.reading.fetching import fetched, read_range
from coterie.pipeline.reading.planning import OffsetRange
from coterie.pipeline.reading.topics import TopicReader
from coterie.producing.leaders import RepeatedRequest
from coterie.producing.machine import ProducerMachine
from coterie.testing import ErrorCode, LocalBroker
from coterie.wire.messages.groups.offset_commit import OffsetCommitResponse

T0 = TopicPartition("t", 0)
PAUSES_MS = [10, 20, 40, 50, 50, 50]
SETTINGS = {"retry.backoff.ms": "10", "retry.backoff.max.ms": "50"}
MACHINES = ("coterie.consuming.", "coterie.producing.transactions.transactions")  # they keep their pauses themselves


@pytest.fixture
def pauses_ms(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What clients sleep, without jitter and without the time; and the pauses of machines, which are waited for."""
    pauses_ms: list[float] = []
    sleep, sleep_thread, failed, backoff = asyncio.sleep, time.sleep, Retries.failed, Backoff.pause_ms

    def is_of(rooms: tuple[str, ...]) -> bool:
        return str(sys._getframe(2).f_globals.get("__name__", "")).startswith(rooms)

    def is_policys() -> bool:
        """Beside it the drivers of machines sleep until the machine's deadline."""
        return sys._getframe(2).f_code in (loop_clock.pause.__code__, clock.pause_thread.__code__)

    def machine_failed(self: Retries, *args: float) -> float | None:
        pause_ms = failed(self, *args)
        if is_of(MACHINES) and pause_ms is not None:
            pauses_ms.append(pause_ms)
        return pause_ms

    def producer_pauses(self: Backoff, *args: Any) -> int:
        pause_ms = backoff(self, *args)
        if is_of(("coterie.producing.machine",)):
            pauses_ms.append(pause_ms)
        return pause_ms

    async def pause(delay_s: float, result: Any = None) -> Any:
        if not is_policys():
            return await sleep(delay_s, result)
        pauses_ms.append(round(delay_s * 1000, 6))
        return await sleep(0, result)

    def pause_thread(delay_s: float) -> None:
        if is_policys():
            pauses_ms.append(round(delay_s * 1000, 6))
        else:
            sleep_thread(delay_s)

    monkeypatch.setattr(asyncio, "sleep", pause)
    monkeypatch.setattr(time, "sleep", pause_thread)
    monkeypatch.setattr(Retries, "failed", machine_failed)
    monkeypatch.setattr(Backoff, "pause_ms", producer_pauses)
    monkeypatch.setattr(random, "uniform", lambda low, high: (low + high) / 2)
    return pauses_ms


async def described(broker: LocalBroker) -> object:
    async with Admin(settings(broker)) as admin:  # type: ignore[arg-type]
        await admin.alter_consumer_group_offsets("g", {T0: 0})
        return await admin.describe_consumer_group("g")


Story = Callable[[LocalBroker], Awaitable[object]]


def settings(broker: LocalBroker, **more: Any) -> ConsumerSettings:
    return {"bootstrap.servers": broker.bootstrap_servers, **SETTINGS, **more}  # type: ignore[typeddict-item]


async def committed(broker: LocalBroker) -> object:
    async with Consumer(settings(broker) | {"group.id": "g"}) as consumer:
        return await consumer.committed([T0])


async def ends(broker: LocalBroker) -> object:
    async with Consumer(settings(broker)) as consumer:
        return await consumer.end_offsets([T0])


async def poll(broker: LocalBroker) -> object:
    async with Consumer(settings(broker) | {"auto.offset.reset": "earliest"}) as consumer:
        await consumer.assign([T0])
        while not (polled := await consumer.poll(1000)):
            pass
        return polled


async def partitions(broker: LocalBroker) -> object:
    async with Producer({"bootstrap.servers": broker.bootstrap_servers, **SETTINGS}) as producer:
        return await producer.partitions_for("t")


async def transaction(broker: LocalBroker) -> object:
    more = {"transactional.id": "x"}
    async with Producer({"bootstrap.servers": broker.bootstrap_servers, **SETTINGS, **more}) as producer:
        return await producer.init_transactions()


async def driver(broker: LocalBroker) -> object:
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "t"}
    given |= {f"kafka.{name}": value for name, value in SETTINGS.items()}
    return TopicReader(source_options(given, streaming=False)).offsets_of({("t", 0): -1})


async def task(broker: LocalBroker) -> object:
    requested = OffsetRange("t", 0, 0, 1, broker.host, broker.port)
    return list(read_range(requested, client_settings(SETTINGS), with_headers=False, fail_on_data_loss=True))


async def task_behind_deleted_records(broker: LocalBroker) -> object:
    """failOnDataLoss=false: the first offset that is left is looked up; an error is none."""
    broker.produce("t", b"w")
    async with Admin(settings(broker)) as admin:  # type: ignore[arg-type]
        await admin.delete_records({T0: 1})
    requested = OffsetRange("t", 0, 0, 2, broker.host, broker.port)
    parts = list(read_range(requested, client_settings(SETTINGS), with_headers=False, fail_on_data_loss=False))
    return [offset for columns in parts for offset in columns.offsets.tolist()] == [1]


async def raw_task(broker: LocalBroker) -> object:
    return list(fetched(OffsetRange("t", 0, 0, 1, broker.host, broker.port), client_settings(SETTINGS)))


STORIES: dict[str, tuple[Story, str, ErrorCode]] = {
    "admin": (described, "DescribeGroups", ErrorCode.NOT_COORDINATOR),
    "coordinator": (committed, "OffsetFetch", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    "offsets": (ends, "ListOffsets", ErrorCode.LEADER_NOT_AVAILABLE),
    "fetcher": (poll, "Fetch", ErrorCode.NOT_LEADER_OR_FOLLOWER),
    "producer": (partitions, "Metadata", ErrorCode.LEADER_NOT_AVAILABLE),
    "transactions": (transaction, "InitProducerId", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    "driver": (driver, "ListOffsets", ErrorCode.NOT_LEADER_OR_FOLLOWER),
    "task": (task, "Fetch", ErrorCode.NOT_LEADER_OR_FOLLOWER),
    "task behind deleted records": (
        task_behind_deleted_records,
        "ListOffsets",
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ),
    "raw task": (raw_task, "Fetch", ErrorCode.NOT_LEADER_OR_FOLLOWER),
}


@pytest.mark.parametrize("part", STORIES)
async def test_pauses_double_up_to_the_maximum(coterie_broker: LocalBroker, pauses_ms: list[float], part: str) -> None:
    story, api, code = STORIES[part]
    coterie_broker.create_topic("t", 1)
    coterie_broker.produce("t", b"v")
    coterie_broker.fail(api, code, times=len(PAUSES_MS))
    async with asyncio.timeout(20):
        assert await story(coterie_broker) is not False
    assert pauses_ms == PAUSES_MS


async def test_the_pauses_until_there_is_a_controller_double_up_to_the_maximum(
    coterie_broker: LocalBroker, pauses_ms: list[float]
) -> None:
    """An election: first metadata names none, then one that is none any more."""
    times = len(PAUSES_MS) // 2
    coterie_broker.fail("CreateTopics", ErrorCode.NOT_CONTROLLER, times=times + 2 * times)
    coterie_broker.fail("Metadata", ErrorCode.NONE, times=times)
    async with asyncio.timeout(20), Admin(settings(coterie_broker)) as admin:  # type: ignore[arg-type]
        await admin.create_topic("t", 1, replication_factor=1)
    assert pauses_ms == PAUSES_MS


@pytest.fixture
def producer_pauses_ms(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long a producer's machine waits after each response and each look-up of leaders that failed, without jitter."""
    monkeypatch.setattr(random, "uniform", lambda low, high: (low + high) / 2)
    pauses_ms: list[float] = []

    def observed(method: Callable[..., float], caller: str) -> Callable[..., float]:
        def observing(*args: Any) -> float:
            pause_ms = method(*args)
            if sys._getframe(1).f_globals.get("__name__") == caller:
                pauses_ms.append(pause_ms)
            return pause_ms

        return observing

    monkeypatch.setattr(Backoff, "pause_ms", observed(Backoff.pause_ms, ProducerMachine.__module__))
    monkeypatch.setattr(Retries, "failed", observed(Retries.failed, RepeatedRequest.__module__))  # type: ignore[arg-type]
    return pauses_ms


async def test_the_pauses_of_a_batch_double_up_to_the_maximum(
    coterie_broker: LocalBroker, producer_pauses_ms: list[float]
) -> None:
    coterie_broker.create_topic("t", 1)
    coterie_broker.fail("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER, times=len(PAUSES_MS))
    given = {"bootstrap.servers": coterie_broker.bootstrap_servers, "linger.ms": 0, **SETTINGS}
    async with asyncio.timeout(20), Producer(given) as producer:
        await producer.send_and_wait("t", b"v", partition=0)
    assert producer_pauses_ms == PAUSES_MS


async def test_the_lookup_of_a_leader_pauses_longer_each_time(
    coterie_broker: LocalBroker, producer_pauses_ms: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    refresh, failures = Cluster.refresh, 0

    async def failing(self: Cluster, *args: Any, **more: Any) -> Any:
        nonlocal failures
        failures += 1
        if failures <= len(PAUSES_MS):
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "away")
        return await refresh(self, *args, **more)

    given = {"bootstrap.servers": coterie_broker.bootstrap_servers, "linger.ms": 0, **SETTINGS}
    async with asyncio.timeout(20), Producer(given) as producer:
        await producer.send_and_wait("t", b"v", partition=0)
        for row in range(2):
            failures = 0
            monkeypatch.setattr(Cluster, "refresh", failing)
            producer._cluster.forget("t")
            await producer.send_and_wait("t", b"v", partition=0)
            assert producer_pauses_ms == PAUSES_MS * (row + 1), "a lookup that succeeds ends the row"


async def test_the_pauses_of_a_commit_double_up_to_the_maximum(
    coterie_broker: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(random, "uniform", lambda low, high: (low + high) / 2)
    pauses_ms: list[float] = []
    responded = Commits.responded

    def observed(machine: Commits, token: int, response: OffsetCommitResponse, now_ms: float, jitter: float) -> Verdict:
        what = responded(machine, token, response, now_ms, jitter)
        if what == Verdict.RETRY:
            pauses_ms.append(round((machine.next_deadline_ms() or 0) - now_ms))
        return what

    monkeypatch.setattr(Commits, "responded", observed)
    coterie_broker.create_topic("t", 1)
    code, client_id = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the-only-one"  # no other client's commit takes a refusal
    coterie_broker.fail("OffsetCommit", code, times=len(PAUSES_MS), client_id=client_id)
    given = settings(coterie_broker) | {"group.id": "g", "client.id": client_id}
    async with asyncio.timeout(20), Consumer(given) as consumer:
        await consumer.assign([T0])
        await consumer.commit({T0: 1})
    assert pauses_ms == PAUSES_MS


async def test_a_coordinator_is_looked_up_once_for_every_part_of_a_client(coterie_broker: LocalBroker) -> None:
    cluster = Cluster(client_settings({"bootstrap.servers": coterie_broker.bootstrap_servers}))
    first, second = Coordinator(cluster, "g"), Coordinator(cluster, "g")
    transactions = Coordinator(cluster, "g", TRANSACTION)
    try:
        async with asyncio.timeout(20):
            assert await first.node() == await second.node() == await transactions.node()
            assert coterie_broker.requested("FindCoordinator") == 2, "one of each kind"
            second.forget()
            await transactions.node()
            assert coterie_broker.requested("FindCoordinator") == 2
            await first.node()
            assert coterie_broker.requested("FindCoordinator") == 3
    finally:
        cluster.close()
