"""How often a broker tries to reach another whose TLS fails."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import Any

import pytest

from coterie.broker.cluster.peers.connection import PeerStream
from coterie.broker.cluster.peers.secured import SecuredDial
from coterie.client.security import Security
from coterie.simulation import Simulation

PARTITIONS, FAILING_S = 50, 20.0


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
