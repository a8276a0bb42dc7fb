"""One request with many items in a cluster: they are in ZooKeeper's hands together, each broker keeps many with one write, and
nobody waits for long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from coterie.client.connection.connection import Connection
from coterie.simulation.loop import SimulationLoop
from coterie.simulation.process import CURRENT
from coterie.testing.simulated import WorldBroker, simulate
from coterie.wire.declaration import Message
from coterie.wire.messages.settings.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from coterie.wire.messages.settings.incremental_alter_configs import (
    SET,
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

ONE_AFTER_THE_OTHER_S = 0.001  # of an item, at least: ZooKeeper is several messages away
LONGEST_S = 0.300  # of the processor, for which a bystander of that broker waits; 0.1 at rest, here beside other tests
REQUEST_S = 60.0
GROUP, TOPIC = 32, 2


def groups(count: int) -> Message:
    changes = [AlterableConfig("consumer.session.timeout.ms", SET, "50000")]
    return IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP, f"g{n}", changes) for n in range(count)])


def unknown_topics(count: int) -> Message:
    changes = [AlterableConfig("retention.ms", SET, "1000")]
    return IncrementalAlterConfigsRequest([AlterConfigsResource(TOPIC, f"t{n}", changes) for n in range(count)])


def quotas(count: int) -> Message:
    quota = [OpData("producer_byte_rate", 5.0)]
    return AlterClientQuotasRequest([EntryData([EntityData("user", f"u{n}")], quota) for n in range(count)])


MADE: dict[str, tuple[Callable[[int], Message], type[Any]]] = {
    "groups": (groups, IncrementalAlterConfigsResponse),
    "unknown topics": (unknown_topics, IncrementalAlterConfigsResponse),
    "quotas": (quotas, AlterClientQuotasResponse),
}


@pytest.fixture
def broker() -> Iterator[WorldBroker]:
    with simulate(seed=1) as world:
        yield world.broker(brokers=3)


def metered(loop: SimulationLoop, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The processor time of each process in each turn of the loop from now on: a broker in a process of its own has no more."""
    turns: list[float] = []
    of_turn: dict[object, float] = {}
    once, run = loop._run_once, asyncio.Handle._run  # type: ignore[attr-defined]

    def run_once() -> None:
        of_turn.clear()
        once()
        turns.append(max(of_turn.values(), default=0.0))

    def run_handle(handle: asyncio.Handle) -> None:
        began_s = time.thread_time()
        run(handle)
        process = handle._context.get(CURRENT)  # type: ignore[attr-defined]
        of_turn[process] = of_turn.get(process, 0.0) + time.thread_time() - began_s

    monkeypatch.setattr(loop, "_run_once", run_once)
    monkeypatch.setattr(asyncio.Handle, "_run", run_handle)
    return turns


@pytest.mark.slow
@pytest.mark.parametrize("count", [1_000, 8_000])
@pytest.mark.parametrize("kind", MADE)
async def test_many_items_hold_nobody_up(
    broker: WorldBroker, kind: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    request, response = MADE[kind]
    turns = metered(broker.world.loop, monkeypatch)
    host, port = broker.bootstrap_servers.split(",")[0].rsplit(":", 1)
    connection = await Connection.connect(host, int(port), "test", REQUEST_S)
    await connection.request(request(1), response, REQUEST_S)
    turns.clear()
    began_s = broker.world.loop.time()
    await connection.request(request(count), response, REQUEST_S)
    took_s = broker.world.loop.time() - began_s
    assert took_s < count * ONE_AFTER_THE_OTHER_S, f"{count} {kind} take {took_s:.1f} s of virtual time"
    assert max(turns) < LONGEST_S, f"a bystander waits for {max(turns) * 1000:.0f} ms"
