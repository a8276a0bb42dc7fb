"""The controller's connections to brokers with TLS or SASL: one for each process of a broker, which stays open between
requests. How often a broker tries to reach another whose TLS fails."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from coterie.broker.cluster.peers.channels import ControllerChannels
from coterie.broker.cluster.peers.connections import Address, PeerStream
from coterie.broker.cluster.peers.secured import SecuredDial
from coterie.client.security import Security
from coterie.controller.requests import ControlRequest, LeaderAndIsr
from coterie.simulation import Simulation
from coterie.wire.framing import encode_response
from coterie.wire.messages.brokers.leader_and_isr import LeaderAndIsrResponse

LEADER_AND_ISR_VERSION = 4
PARTITIONS, FAILING_S = 50, 20.0


class Streams:
    """Dials to a broker that responds to each LeaderAndIsr."""

    def __init__(self) -> None:
        self.opened: list[_Stream] = []
        self.address: Address | None = ("broker-1", 9092)
        self.responses = 0
        self.channels = ControllerChannels(
            2, 30_000, lambda _: self.address, self._responded, self._dial, keeps_open=True
        )

    async def _dial(self, host: str, port: int) -> PeerStream:
        self.opened.append(_Stream())
        return self.opened[-1]

    def _responded(self, request: ControlRequest, response: object) -> None:
        self.responses += 1

    async def send(self, broker_epoch: int = 1) -> None:
        """Waits for the response, or until the request is dropped."""
        self.channels.send(LeaderAndIsr(1, broker_epoch, 2, 1, {}))
        await asyncio.sleep(1)


class _Stream(PeerStream):
    def __init__(self) -> None:
        super().__init__()
        self.is_aborted = False

    async def exchange(self, request: bytes, timeout_s: float = 0.0) -> bytes:
        if self._lost is not None:
            raise self._lost
        correlation_id = int.from_bytes(request[8:12], "big")
        return encode_response(correlation_id, LeaderAndIsrResponse(), LEADER_AND_ISR_VERSION)[4:]

    def abort(self) -> None:
        self.is_aborted = True


async def responded_to_twice(streams: Streams) -> None:
    await streams.send()
    await streams.send()


async def a_broker_of_another_epoch(streams: Streams) -> None:
    await streams.send()
    await streams.send(broker_epoch=2)
    assert [stream.is_aborted for stream in streams.opened] == [True, False]


async def a_lost_connection(streams: Streams) -> None:
    await streams.send()
    streams.opened[0].connection_lost(None)
    await streams.send()


async def a_broker_that_is_gone(streams: Streams) -> None:
    await streams.send()
    address, streams.address = streams.address, None
    await streams.send()
    assert streams.opened[0].is_aborted
    streams.address = address
    await streams.send()


async def a_resignation(streams: Streams) -> None:
    await streams.send()
    streams.channels.close_idle()
    assert streams.opened[0].is_aborted
    await streams.send()


@pytest.mark.parametrize(
    ("story", "connections"),
    [
        (responded_to_twice, 1),
        (a_broker_of_another_epoch, 2),
        (a_lost_connection, 2),
        (a_broker_that_is_gone, 2),
        (a_resignation, 2),
    ],
)
def test_connections_of_the_controller(story: Callable[[Streams], Coroutine[Any, Any, None]], connections: int) -> None:
    async def run() -> None:
        streams = Streams()
        await story(streams)
        assert (len(streams.opened), streams.responses) == (connections, 2)
        await streams.channels.close()

    with Simulation(1) as world:
        world.run(run())


class ScriptedDial(SecuredDial):
    """Without a login: what it reaches is no broker."""

    async def _log_in(self, stream: PeerStream) -> None:
        pass


def test_a_broker_whose_tls_fails_is_tried_once_a_second_and_reached_when_it_is_mended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fifty partitions, each of which is due once a second by itself, had fifty handshakes a second."""
    opened = list[float]()

    async def connected(*_: object, **__: object) -> tuple[Any, PeerStream]:
        now_s = asyncio.get_running_loop().time()
        opened.append(now_s)
        if now_s < FAILING_S:
            raise ssl.SSLError("certificate has expired")
        return None, PeerStream()

    async def follow(dial: SecuredDial, number: int) -> float:
        await asyncio.sleep(number / PARTITIONS)
        while True:
            with suppress(ConnectionError):
                await dial("server", 9092)
                return asyncio.get_running_loop().time()
            await asyncio.sleep(1.0)

    async def follow_all() -> list[float]:
        monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", connected)
        dial = ScriptedDial(Security("SSL"), "broker-1")
        return list(await asyncio.gather(*(follow(dial, number) for number in range(PARTITIONS))))

    monkeypatch.setattr(Security, "context", lambda _: None)
    with Simulation(1) as world:
        reached_s = world.run(follow_all())
    assert FAILING_S - 2 < sum(s < FAILING_S for s in opened) < FAILING_S + 10
    assert min(reached_s) >= FAILING_S
    assert max(reached_s) < FAILING_S + 3
