"""The churn: visits end, and a level that rises is reported."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from coterie.client import Producer
from coterie_conformance.bench.churn import ClientVisits, ResourceUse, churn


def test_clients_that_come_and_go_leave_no_tasks(tmp_path: Path) -> None:
    visits: list[int] = []
    levels = asyncio.run(churn(tmp_path, 2, 0, lambda _, n: visits.append(n), round_s=1.0))
    assert visits[1] > visits[0] > 0
    assert len({level.tasks for level in levels}) == 1, levels


def test_a_client_that_is_never_closed_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[Producer] = []

    async def stays(guests: ClientVisits) -> None:
        left.append(Producer({"bootstrap.servers": guests._address}))
        await left[-1].send("churn-0", b"v")

    for kind in ("_produces", "_consumes", "_transacts", "_administrates", "_hangs_up"):
        monkeypatch.setattr(ClientVisits, kind, stays)

    monkeypatch.setattr("coterie_conformance.bench.churn.SETTLE_S", 0.2)  # nothing that is left open ends

    async def run() -> list[ResourceUse]:
        levels = await churn(tmp_path, 2, 0, lambda *_: None, round_s=0.5)
        for producer in left:
            await producer.close(100)
        return levels

    levels = asyncio.run(run())
    assert levels[-1].descriptors > levels[0].descriptors, levels
