"""Topics, records and brokers over HTTP, of a real broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp

from coterie.broker.broker import Broker
from coterie.broker.settings import BrokerSettings
from coterie.client import Admin, Producer
from tests.web.feeds import HandFeed, served


async def _documents(url: str, *paths: str) -> list[Any]:
    async with aiohttp.ClientSession() as session:
        documents = []
        for path in paths:
            async with session.get(url + path) as response:
                documents.append((response.status, await response.json()))
        return documents


async def test_topics_records_and_brokers(tmp_path: Path) -> None:
    broker = Broker(BrokerSettings({}), tmp_path)
    host, port = await broker.start("127.0.0.1", 0)
    client = {"bootstrap.servers": f"{host}:{port}"}
    feed = HandFeed()
    feed.client = client
    try:
        async with Admin(client) as admin:
            await admin.create_topic("flights", 2, {"retention.ms": "1000000"})
        async with Producer(client) as producer:
            for n in range(10):
                headers = [("h", b"\x00"), ("h", b"2")]
                await producer.send(
                    "flights", f'{{"n": {n}}}'.encode(), b"k", partition=1, timestamp_ms=n * 1000, headers=headers
                )
        async with served(feed) as url:
            await _check(url)
    finally:
        await broker.stop()
    async with served(feed) as url:
        [(status, document)] = await _documents(url, "/api/topics")
        assert status == 502
        assert "broker" in document["error"]


async def _check(url: str) -> None:
    topics, topic, missing, brokers = await _documents(
        url, "/api/topics", "/api/topics/flights", "/api/topics/none", "/api/brokers"
    )
    [row] = [row for row in topics[1] if row["topic"] == "flights"]
    assert row["partitions"] == 2
    assert row["bytes"] > 100
    assert [p["end"] for p in topic[1]["rows"]] == [0, 10]
    changed = [s for s in topic[1]["settings"] if not s["is_default"]]
    assert [(s["name"], s["value"]) for s in changed] == [("retention.ms", "1000000")]
    assert missing[0] == 404
    [described] = brokers[1]["brokers"]
    assert described["leaders"] >= 2
    assert brokers[1]["own"]["connections"] == 2
    records = "/api/topics/flights/records?partition=1"
    last, middle, timed, beyond, absent = await _documents(
        url,
        f"{records}&count=3",
        f"{records}&offset=2&count=2",
        f"{records}&time_ms=8500",
        f"{records}&offset=500",
        "/api/topics/flights/records?partition=7",
    )
    assert [r["offset"] for r in last[1]["records"]] == [7, 8, 9]
    assert [r["offset"] for r in middle[1]["records"]] == [2, 3]
    assert [r["offset"] for r in timed[1]["records"]] == [9]
    assert beyond[1]["records"] == []
    assert absent[0] == 404
    record = last[1]["records"][0]
    assert record["value"]["kind"] == "json"
    assert [(name, value["kind"]) for name, value in record["headers"]] == [("h", "hex"), ("h", "text")]
    async with aiohttp.ClientSession() as session, session.get(f"{url}{records}&offset=x") as response:
        assert response.status == 400
